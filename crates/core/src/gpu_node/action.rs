//! What an operator may ask of a node itself; what may be asked of its run is [`crate::run::action`].

use super::{Event, State, TABLE, mapping};
use crate::{
    names::names,
    run::{self, plan::Kind},
};

names! {
    /// What an operator may ask of a node.
    pub enum Action {
        /// Block it from scheduling.
        Quarantine = "quarantine",
        /// Declare it healthy again.
        Recover = "recover",
        /// Drain it and take it out of scheduling.
        Retire = "retire",
        /// Stop the drain short of retirement.
        StopDrain = "stop-drain",
        /// Take it back into use under its old identity.
        Reactivate = "reactivate",
        /// Remove it for good.
        Remove = "remove",
        /// Roll the removal back.
        RollbackRemove = "rollback-remove",
        /// Take up work in progress whose owner was lost or is stuck.
        Resume = "resume",
    }
}

impl Action {
    /// The move that the action is about; `resume` moves nothing by itself.
    #[must_use]
    pub const fn event(self) -> Option<Event> {
        match self {
            Self::Quarantine => Some(Event::Quarantine),
            Self::Recover => Some(Event::Recover),
            Self::Retire => Some(Event::Drain),
            Self::StopDrain => Some(Event::StopDrain),
            Self::Reactivate => Some(Event::Reactivate),
            Self::Remove => Some(Event::Remove),
            Self::RollbackRemove => Some(Event::RollbackRemove),
            Self::Resume => None,
        }
    }

    /// Whether the state allows it; what else it takes, the call of its event says.
    #[must_use]
    pub fn is_allowed(self, state: State) -> bool {
        match self.event() {
            Some(event) => TABLE.find(state, event).is_some(),
            None => state.needs_owner() || state == State::BootstrapIssued,
        }
    }

    /// Whether a node in this state is where the action leads, so that a repeat has nothing left to do.
    #[must_use]
    pub const fn is_done(self, state: State) -> bool {
        match self {
            Self::Quarantine => matches!(state, State::Quarantined),
            Self::Recover => matches!(state, State::Active),
            Self::Retire => matches!(state, State::Draining | State::Retired),
            // Also back in the quarantine that it was drained out of.
            Self::StopDrain => matches!(state, State::Offline | State::Quarantined),
            Self::Reactivate => matches!(state, State::Offline),
            Self::Remove => matches!(state, State::Removing | State::Deleted),
            Self::RollbackRemove => matches!(state, State::Retired),
            Self::Resume => false,
        }
    }
}

/// The actions that the state allows.
pub fn allowed(state: State) -> impl Iterator<Item = Action> {
    use crate::Named;
    Action::ALL.iter().copied().filter(move |action| action.is_allowed(state))
}

/// Those of them that the newest run of the node leaves possible: what needs the node to itself waits for an open one.
pub fn allowed_beside(state: State, run: Option<(Kind, run::State)>) -> impl Iterator<Item = Action> {
    let open = run.filter(|(_, run)| run.is_open());
    allowed(state).filter(move |action| {
        let Some((kind, run)) = open else { return true };
        match action {
            // A repeat of what started the run finds it on its way.
            Action::Retire => kind == Kind::Retire && run.is_worked_on(),
            Action::Remove => kind == Kind::Remove && run.is_worked_on(),
            Action::Recover | Action::Reactivate => false,
            Action::Quarantine => mapping::check(State::Quarantined, Some((kind, run))).is_ok(),
            // These are about the run.
            Action::StopDrain | Action::RollbackRemove | Action::Resume => true,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Named as _;

    #[test]
    fn what_needs_the_node_to_itself_waits_for_its_run() {
        let beside = |state, run| allowed_beside(state, run).collect::<Vec<_>>();
        let failed = run::State::FailedManualIntervention;
        let both = [Action::Recover, Action::Retire];
        assert_eq!(beside(State::Quarantined, None), both);
        assert_eq!(beside(State::Quarantined, Some((Kind::Onboarding, failed))), []);
        assert_eq!(beside(State::Quarantined, Some((Kind::Onboarding, run::State::Cancelled))), both);
        assert_eq!(beside(State::Quarantined, Some((Kind::Retire, run::State::Pending))), [Action::Retire]);
        let soft = Some((Kind::SoftReset, run::State::Running));
        assert_eq!(beside(State::Draining, soft), [Action::StopDrain, Action::Resume]);
        assert_eq!(
            beside(State::Enrolling, Some((Kind::Onboarding, failed))),
            allowed(State::Enrolling).collect::<Vec<_>>()
        );
    }

    #[test]
    fn an_action_leads_to_where_it_is_done_or_is_not_one_that_moves() {
        for &action in Action::ALL {
            let Some(event) = action.event() else { continue };
            let mut rows = TABLE.0.iter().filter(|row| row.on == event).peekable();
            assert!(rows.peek().is_some(), "{action}");
            assert!(rows.all(|row| action.is_done(row.to)), "{action}");
        }
        for &state in State::ALL {
            assert_eq!(
                Action::Resume.is_allowed(state),
                state.needs_owner() || state == State::BootstrapIssued
            );
        }
    }
}

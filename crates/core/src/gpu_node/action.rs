//! The actions of an operator on a node itself; those on its run are in [`crate::run::action`].

use super::{Event, State, TABLE, mapping};
use crate::{
    action::Call,
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
        StopDrain = "stop_drain",
        /// Take it back into use under its old identity.
        Reactivate = "reactivate",
        /// Remove it for good.
        Remove = "remove",
        /// Roll the removal back.
        RollbackRemove = "rollback_remove",
        /// Take up work in progress whose owner was lost or is stuck.
        Resume = "resume",
    }
}

impl Action {
    /// How a person asks for it.
    #[must_use]
    pub const fn call(self) -> Call {
        let path = match self {
            Self::Quarantine => "/api/v1/gpu-nodes/{id}/actions/quarantine",
            Self::Recover => "/api/v1/gpu-nodes/{id}/actions/recover",
            Self::Retire => "/api/v1/gpu-nodes/{id}/actions/retire",
            Self::StopDrain => "/api/v1/gpu-nodes/{id}/actions/stop_drain",
            Self::Reactivate => "/api/v1/gpu-nodes/{id}/actions/reactivate",
            Self::Remove => "/api/v1/gpu-nodes/{id}/actions/remove",
            Self::RollbackRemove => "/api/v1/gpu-nodes/{id}/actions/rollback_remove",
            Self::Resume => "/api/v1/gpu-nodes/{id}/actions/resume",
        };
        let call = Call::new("gpu-node", self.as_str(), "POST", path);
        match self {
            Self::Recover => call.when(
                "no open run, a healthy heartbeat since the quarantine that is not old, no drift in MAAS, and no cleanup that was begun and not proven",
            ),
            Self::Retire => {
                call.when("no other run works on the node; a dead host's drain is skipped with a comment")
            }
            Self::Reactivate => call.when(
                "no open run, the identity was kept (no uninstall, release or revocation), and no drift in MAAS",
            ),
            Self::Remove => call.when("a dead host's uninstall is skipped with a comment"),
            Self::Quarantine | Self::StopDrain | Self::RollbackRemove | Self::Resume => call,
        }
    }

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

    /// Why the action is not possible now, as far as the state of the node and its newest run tell: an action that needs
    /// the node to itself waits for an open run.
    #[must_use]
    pub fn refusal(self, state: State, run: Option<(Kind, run::State)>) -> Option<String> {
        if !self.is_allowed(state) {
            return Some(format!("the node is {state}, which does not allow {self}"));
        }
        let (kind, run) = run.filter(|(_, run)| run.is_open())?;
        let possible = match self {
            // A repeat of the action that started the run finds it on its way.
            Self::Retire => kind == Kind::Retire && run.is_worked_on(),
            Self::Remove => kind == Kind::Remove && run.is_worked_on(),
            Self::Recover | Self::Reactivate => false,
            Self::Quarantine => mapping::check(State::Quarantined, Some((kind, run))).is_ok(),
            // These are about the run.
            Self::StopDrain | Self::RollbackRemove | Self::Resume => true,
        };
        (!possible).then(|| format!("a {kind} run works on the node and is {run}"))
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

/// Those of them that the newest run of the node leaves possible.
pub fn allowed_beside(state: State, run: Option<(Kind, run::State)>) -> impl Iterator<Item = Action> {
    allowed(state).filter(move |action| action.refusal(state, run).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Named as _;

    #[test]
    fn an_exclusive_action_waits_for_the_run_of_the_node() {
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
    fn an_action_that_is_not_possible_says_why() {
        let check = |action: Action, state, run, expected: &str| {
            assert_eq!(action.refusal(state, run).unwrap_or_default(), expected, "{action} in {state}");
        };
        let soft = Some((Kind::SoftReset, run::State::Running));
        check(Action::Recover, State::Active, None, "the node is active, which does not allow recover");
        check(Action::Retire, State::Active, soft, "a soft_reset run works on the node and is running");
        check(Action::Retire, State::Active, Some((Kind::SoftReset, run::State::Completed)), "");
        check(Action::StopDrain, State::Draining, soft, "");
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

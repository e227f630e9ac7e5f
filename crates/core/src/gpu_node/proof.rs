//! The proofs that a node needs before it is used: healthy, clean, and with its machine unchanged.

use super::{
    State,
    action::Action,
    advice,
    facts::{Facts, Health, NewestRun, Sight},
    maas::{self, Work},
};
use crate::{
    Named as _,
    run::{
        self,
        plan::{Kind, Stage},
    },
};

/// Why a node cannot be used as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unusable {
    /// An erasure was begun, and not proven complete.
    NotClean(NewestRun),
    /// It is not proven healthy: the missing proof.
    NotHealthy(String),
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotClean(run) => write!(
                f,
                "{}: run a {} to prove that it is clean, or recover it with `unproven` and a comment",
                advice::half_erased(run),
                mode_that_proves(run)
            ),
            Self::NotHealthy(missing) => f.write_str(missing),
        }
    }
}

/// Whether a quarantined node is proven healthy: by a healthy heartbeat in its state, and by no contradiction from MAAS.
///
/// # Errors
/// The missing proof.
pub fn healthy(facts: &Facts) -> Result<(), String> {
    match &facts.health {
        Health::Unheard => return Err("no heartbeat has arrived since the node was quarantined".to_owned()),
        Health::Silent(since) => {
            return Err(format!("the agent is silent since it was last heard, at {since:.0}"));
        }
        Health::Unhealthy(complaints) => {
            return Err(format!("the last heartbeat was not healthy: {complaints}"));
        }
        Health::Healthy => {}
    }
    match unfit(facts, State::Active) {
        Some(sight) => Err(format!("MAAS says {}, and an active node is deployed", sight.said)),
        None => Ok(()),
    }
}

/// Whether MAAS still has the machine of a retired node as it was, so that its system can be reused.
///
/// # Errors
/// What MAAS says instead.
pub fn still_there(facts: &Facts) -> Result<(), String> {
    match unfit(facts, State::Offline) {
        Some(sight) => {
            let said = &sight.said;
            Err(format!("MAAS says {said}, and the system of the node is on a machine that is deployed"))
        }
        None => Ok(()),
    }
}

/// The last sight of the machine, if it does not fit a node in this state.
fn unfit(facts: &Facts, state: State) -> Option<&Sight> {
    facts.sight.as_ref().filter(|sight| !maas::fits(state, sight.observed, Work::Nobody))
}

/// Returns the newest run, if an erasure that it or an earlier one began was never proven complete. A person
/// who accepts that, or a newly deployed system, ends it.
#[must_use]
pub fn unproven(facts: &Facts) -> Option<&NewestRun> {
    facts.run.as_ref().filter(|run| !run.unproven.is_empty() && !run.accepted && !deployed_anew(run))
}

fn deployed_anew(run: &NewestRun) -> bool {
    let deploys = run.kind.plan().iter().any(|step| step.stage == Stage::DeployViaMaas);
    deploys && matches!(run.state, run::State::Completed | run::State::Reconciled)
}

/// Whether a quarantined node may be used as it is.
///
/// # Errors
/// Why not.
pub fn usable(facts: &Facts) -> Result<(), Unusable> {
    match unproven(facts) {
        Some(run) => Err(Unusable::NotClean(run.clone())),
        None => healthy(facts).map_err(Unusable::NotHealthy),
    }
}

/// The mode of a decommission that erases everything in question, and proves it.
#[must_use]
pub fn mode_that_proves(run: &NewestRun) -> Kind {
    let erases = |stage: &Stage| Kind::StorageCleanup.plan().iter().any(|step| step.stage == *stage);
    if run.unproven.iter().all(erases) { Kind::StorageCleanup } else { Kind::SoftReset }
}

/// Why an action on the node would be refused now; nothing when it would be accepted.
#[must_use]
pub fn objection(facts: &Facts, action: Action) -> Option<String> {
    if let Some(refusal) = action.refusal(facts.state, facts.current()) {
        return Some(refusal);
    }
    match action {
        Action::Recover => usable(facts).err().map(|missing| missing.to_string()),
        Action::Reactivate if !facts.identity_kept => Some(identity_gone(facts)),
        Action::Reactivate => still_there(facts).err(),
        Action::Quarantine
        | Action::Retire
        | Action::StopDrain
        | Action::Remove
        | Action::RollbackRemove
        | Action::Resume => None,
    }
}

/// Says that there is no identity to reactivate, and the alternative.
#[must_use]
pub fn identity_gone(facts: &Facts) -> String {
    let way = if facts.can_be_reimaged() {
        "reimage the machine, or register the node again"
    } else {
        "remove the node, then register it again"
    };
    format!(
        "the agent on the host was uninstalled, released or revoked, so there is no identity to take back into use: {way}"
    )
}

/// The actions that would be accepted now.
pub fn possible(facts: &Facts) -> impl Iterator<Item = Action> {
    Action::ALL.iter().copied().filter(|action| objection(facts, *action).is_none())
}

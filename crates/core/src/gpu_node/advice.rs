//! The next step for an operator on a node without a run. A run has its own advice.

use std::collections::BTreeMap;

use super::{
    DECOMMISSION, ONBOARD, State,
    action::Action,
    facts::{Facts, NewestRun, Sight},
    maas::{self, Observed, Status, Work},
    mapping, proof,
};
use crate::{
    action::{Action as Asked, Recommendation, Value},
    run::{
        adopt,
        plan::{Kind, Stage},
    },
};

/// The advice where all is well.
pub const NOTHING: &str = "nothing has to be done";

/// Advises on a node and a run whose states contradict each other.
#[must_use]
pub fn misfit(id: &str, facts: &Facts) -> Option<Recommendation> {
    let misfit = mapping::check(facts.state, facts.current()).err()?;
    Some(Recommendation::of(Action::Resume.call().of(id), misfit.to_string()))
}

/// Advises on a node that no run works on.
#[must_use]
pub fn idle(id: &str, facts: &Facts) -> Recommendation {
    let act = |action: Action, why: &str| Recommendation::of(action.call().of(id), why);
    let fits = |sight: &Sight| maas::fits(facts.state, sight.observed, Work::Nobody);
    let fits = facts.sight.as_ref().is_none_or(fits);
    match facts.state {
        State::Retired if !fits => act(
            Action::Remove,
            "MAAS does not have the machine as it was left: look at it there, then remove the node or reimage it",
        ),
        State::Retired if !facts.identity_kept && !facts.can_be_reimaged() => {
            act(Action::Remove, "it has no identity to reactivate")
        }
        State::Retired if !facts.identity_kept => Recommendation::of(
            skipping(id, Kind::Reimage),
            "it has no identity to reactivate: reimage its machine, or remove the node",
        ),
        State::Active => match &facts.complaints {
            Some(complaints) => Recommendation::wait(format!(
                "check the host: its agent reports {complaints}; nothing is scheduled on it until its \
                 checks pass, and quarantined it stays out of use until a person has looked"
            )),
            None => Recommendation::wait(NOTHING),
        },
        State::Deleted | State::Retired => Recommendation::wait(NOTHING),
        State::Offline => {
            Recommendation::wait("a healthy heartbeat brings the node back; check the host if none comes")
        }
        State::Quarantined => quarantined(id, facts),
        State::BootstrapIssued => act(
            Action::Resume,
            "no run works on the node: this issues another token; a node that was registered by mistake can be deleted",
        ),
        State::Enrolling | State::Draining | State::Removing => {
            act(Action::Resume, "no run works on the node")
        }
    }
}

/// Advises on a quarantined node: back into use, or out of it.
fn quarantined(id: &str, facts: &Facts) -> Recommendation {
    let sight = facts.sight.as_ref().filter(|sight| sight.own);
    let fits = |sight: &Sight| maas::fits(State::Active, sight.observed, Work::Nobody);
    let unfit = sight.filter(|sight| !fits(sight));
    if !facts.has_agent || unfit.is_some() {
        return without_agent(id, facts, sight, unfit);
    }
    if let Some(run) = proof::unproven(facts) {
        let why = half_erased(run);
        if facts.heard {
            return Recommendation::of(decommission(id, proof::mode_that_proves(run)), why);
        }
        let kind = if facts.can_be_reimaged() { Kind::Reimage } else { Kind::Retire };
        let why = format!("{why}; its agent, which could erase it, is silent");
        return Recommendation::of(skipping(id, kind), why);
    }
    let why = match proof::healthy(facts) {
        Ok(()) => {
            "its agent reports that it is healthy; recover it once the reason for its quarantine is seen to"
                .to_owned()
        }
        Err(missing) => format!(
            "once its agent reports that it is healthy: {missing}; if the host is dead, retire the node and skip the drain"
        ),
    };
    Recommendation::of(Action::Recover.call().of(id), why)
}

fn without_agent(id: &str, facts: &Facts, sight: Option<&Sight>, unfit: Option<&Sight>) -> Recommendation {
    let reason = match unfit {
        Some(sight) => {
            format!("MAAS says that its machine is {}, and an active node is deployed", sight.said)
        }
        None => "no agent speaks for the node".to_owned(),
    };
    let deployed =
        |sight: &Sight| matches!(sight.observed, Observed::Present { status: Status::Deployed, .. });
    let free = sight.is_some_and(|sight| !adopt::is_in_use(sight.observed));
    match (facts.has_site, sight.is_some_and(deployed)) {
        (false, _) => Recommendation::of(skipping(id, Kind::Retire), reason),
        (true, true) => {
            Recommendation::of(skipping(id, Kind::Reimage), format!("{reason}, and its machine is deployed"))
        }
        (true, false) => {
            let when = if free { "" } else { ", once its machine is free in MAAS" };
            Recommendation::of(ONBOARD.of(id), format!("{reason}: it is onboarded anew{when}"))
        }
    }
}

/// A decommission in a mode.
#[must_use]
pub fn decommission(node: &str, mode: Kind) -> Asked {
    DECOMMISSION.of(node).with("mode", mode.as_str())
}

/// Starts a run that skips all stages that need an agent.
#[must_use]
pub fn skipping(node: &str, kind: Kind) -> Asked {
    let first = kind.plan().iter().map(|step| step.stage).find(|stage| kind.can_skip(*stage));
    skipping_from(node, kind, first)
}

/// The same from a stage on.
#[must_use]
pub fn skipping_from(node: &str, kind: Kind, first: Option<Stage>) -> Asked {
    let asked = match kind {
        Kind::Retire => Action::Retire.call().of(node),
        Kind::Remove => Action::Remove.call().of(node),
        Kind::Onboarding
        | Kind::Bootstrap
        | Kind::SoftReset
        | Kind::StorageCleanup
        | Kind::Reimage
        | Kind::FullDecommission => decommission(node, kind),
    };
    let skips = first.into_iter().flat_map(|first| kind.skippable_from(first));
    let entry =
        |stage: Stage| BTreeMap::from([("stage", stage.as_str().into()), ("comment", "COMMENT".into())]);
    asked.with("skip", Value::List(skips.map(entry).collect()))
}

/// Says that an erasure was begun and not proven complete.
#[must_use]
pub fn half_erased(run: &NewestRun) -> String {
    if run.kind.plan().iter().any(|step| step.stage.erases()) {
        let NewestRun { kind, id, .. } = run;
        format!("the {kind} run {id} began to erase the node, which was never proven clean")
    } else {
        "an earlier run began to erase the node, which was never proven clean".to_owned()
    }
}

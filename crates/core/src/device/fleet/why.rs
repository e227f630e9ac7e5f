//! Why a rollout stands as it does: which devices failed and what they said, and who must act.

use jiff::Timestamp;

use super::{Progress, State};
use crate::{
    action::Call,
    table::Owner,
    why::{Blocker, Next, Rule, Why, explain_derived},
};

/// What is explained of a fleet.
pub const ROLLOUT: &str = "rollout";

/// Gives no further device the template.
pub const PAUSE: Call = Call::new("fleet", "pause", "POST", "/api/v1/fleets/{name}/actions/pause");

/// Gives every device the template before this one.
pub const ROLLBACK: Call = Call::new("fleet", "rollback", "POST", "/api/v1/fleets/{name}/actions/rollback")
    .when("the fleet had another template before");
const RESUME: Call = Call::new("fleet", "resume", "POST", "/api/v1/fleets/{name}/actions/resume");
const ACCEPT: Call = RESUME.when("the failures are acceptable, and the other devices may get the template");

/// Gives a fleet another template.
pub const EDIT: Call = Call::new("fleet", "replace", "PUT", "/api/v1/fleets/{name}").needing(&["spec"]);

/// The ways out of every state but that of rest.
#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    rule("Active",    "Inactive",  "Its devices have the template and report that they run it.",  Owner::Agent, None),
    rule("Active",    "Suspended", "More devices of a batch fail than its threshold allows.",      Owner::Agent, None),
    rule("Waiting",   "Active",    "A device is heard again, or others of its group are back in service.", Owner::Agent, None),
    rule("Paused",    "Active",    "A person resumes it.",                                         Owner::Admin, Some(RESUME)),
    rule("Suspended", "Active",    "A person brings the template back that was there before.",     Owner::Admin, Some(ROLLBACK)),
    rule("Suspended", "Active",    "A person accepts the failures.",                               Owner::Admin, Some(ACCEPT)),
    rule("Suspended", "Active",    "A person gives the fleet a template that works.",              Owner::Admin, Some(EDIT)),
];

const fn rule(
    status: &'static str,
    to: &'static str,
    when: &'static str,
    by: Owner,
    call: Option<Call>,
) -> Rule {
    Rule { about: ROLLOUT, status, to, when, by, call }
}

/// Explains how the rollout of a fleet stands; `paused` is what the person who paused it said.
#[must_use]
pub fn why(name: &str, state: State, progress: &Progress, paused: Option<String>, since: Timestamp) -> Why {
    let mut why = explain_derived(RULES, (ROLLOUT, name), state, progress.info(state).into());
    why.since = Some(since);
    let causes = paused.into_iter().chain(progress.obstacles());
    let causes: Vec<_> = causes.map(|what| Blocker { what: what.into(), fix: None }).collect();
    match state {
        State::Inactive | State::Active => {
            why.blockers = causes;
            why.fine.push(progress.info(state).into());
        }
        State::Waiting | State::Paused | State::Suspended => why.blockers.extend(causes),
    }
    if state == State::Waiting && progress.is_impossible() {
        let what = "the disruption budget: it allows no update at all".into();
        why.next = Next::Mend { what };
    }
    why
}

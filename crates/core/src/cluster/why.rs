//! Why a cluster is, or is not, reconciled.

use super::{Condition, RECONCILED, Reason};
use crate::{
    table::Owner,
    why::{Rule, Why, explain_derived},
};

const fn rule(status: &'static str, when: &'static str, by: Owner) -> Rule {
    Rule { about: RECONCILED, status, to: "True", when, by, call: None }
}

/// The ways out of a cluster that is not known to be reconciled.
pub const RULES: &[Rule] = &[
    rule("False", "Every required adapter is done at the current generation.", Owner::Adapter),
    rule(
        "Unknown",
        "The adapters that fell silent report again; an operator has to look at them.",
        Owner::Admin,
    ),
];

/// The way out while the cluster is being deleted and only its children are left.
const CHILDREN: &[Rule] = &[rule("False", "The resources that the cluster owns are deleted.", Owner::Admin)];

/// Explains the condition `Reconciled` of a cluster, with silence laid over it; nothing when there is none yet.
#[must_use]
pub fn why(id: &str, conditions: &[Condition]) -> Option<Why> {
    let reconciled = conditions.iter().find(|condition| condition.type_ == RECONCILED)?;
    let waits_for_children =
        reconciled.reason.as_deref() == Some(Reason::ReconciledWaitingForChildren.as_str());
    let rules = if waits_for_children { CHILDREN } else { RULES };
    let info = reconciled.message.clone().unwrap_or_default();
    let mut why = explain_derived(rules, (RECONCILED, id), reconciled.status, info);
    why.since = Some(reconciled.last_transition_time);
    Some(why)
}

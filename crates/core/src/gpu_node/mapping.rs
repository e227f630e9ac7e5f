//! The valid combinations of the states of a node and its current run: an invariant that can be checked.
//!
//! Sections 4.3 and 5.3 of the document give the rows of [`Source::Document`], narrowed to the kinds of run that
//! can be meant; where it is silent, the others say what our moves make possible. A combination without a row is a bug or damage, and the
//! sweeper that looks for it repairs or reports it.

use State::*;

use super::State;
use crate::{
    names::names,
    run::{
        State::{
            Cancelled, Compensating, Completed, FailedManualIntervention, FailedRetryable, Pending,
            Reconciled, Running,
        },
        plan::Kind,
    },
};

type RunState = crate::run::State;

names! {
    /// Where a row comes from.
    pub enum Source {
        /// The design document says so.
        Document = "document",
        /// The document is silent, and our moves make it possible.
        Decision = "decision",
    }
}

/// One set of combinations that are sound.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Fit {
    /// What the run is for.
    pub kinds: &'static [Kind],
    /// The node's state.
    pub nodes: &'static [State],
    /// The state of its current run.
    pub runs: &'static [RunState],
    /// What the combination means.
    pub meaning: &'static str,
    /// Where the row comes from.
    pub source: Source,
}

const fn document(
    kinds: &'static [Kind],
    nodes: &'static [State],
    runs: &'static [RunState],
    meaning: &'static str,
) -> Fit {
    Fit { kinds, nodes, runs, meaning, source: Source::Document }
}

const fn decision(
    kinds: &'static [Kind],
    nodes: &'static [State],
    runs: &'static [RunState],
    meaning: &'static str,
) -> Fit {
    Fit { kinds, nodes, runs, meaning, source: Source::Decision }
}

const IN: &[Kind] = &[Kind::Onboarding, Kind::Bootstrap];
const OUT: &[Kind] = &[
    Kind::SoftReset,
    Kind::StorageCleanup,
    Kind::Reimage,
    Kind::FullDecommission,
    Kind::Retire,
    Kind::Remove,
];
/// Kinds that drain the node.
const DRAIN: &[Kind] =
    &[Kind::SoftReset, Kind::StorageCleanup, Kind::Reimage, Kind::FullDecommission, Kind::Retire];
/// Kinds that work on a node which is retired, or retire it on the way.
const PAST_RETIRED: &[Kind] = &[Kind::Reimage, Kind::FullDecommission, Kind::Retire, Kind::Remove];
/// Kinds that end the identity.
const END: &[Kind] = &[Kind::FullDecommission, Kind::Remove];
/// Kinds after which the node is used again.
const RETURN: &[Kind] = &[Kind::SoftReset, Kind::StorageCleanup, Kind::Reimage];

/// Which combinations are sound.
#[rustfmt::skip]
pub const FITS: &[Fit] = &[
    document(IN, &[Enrolling], &[Pending, Running], "onboarding in progress"),
    document(IN, &[Enrolling], &[FailedRetryable], "not ready yet; retrying is safe"),
    document(IN, &[Enrolling, Quarantined], &[FailedManualIntervention], "blocked until an operator decides"),
    document(IN, &[Active], &[Completed], "onboarded"),
    document(IN, &[Active], &[Reconciled], "onboarded after an operator adopted what was observed"),
    decision(&[Kind::Bootstrap], &[BootstrapIssued], &[Pending, Running, FailedRetryable, FailedManualIntervention, Compensating, Cancelled],
        "bootstrapped by hand; the agent has not enrolled, and may never"),
    decision(IN, &[Quarantined], &[Pending, Running, FailedRetryable],
        "set aside while the onboarding goes on, or to be onboarded anew; there is no way back to enrolling"),
    decision(IN, &[Enrolling, Quarantined], &[Compensating], "what the onboarding did is being undone"),
    decision(IN, &[Active, Offline, Quarantined], &[Cancelled], "given up, the node set aside in the same commit; used again if it was proven healthy since"),
    decision(IN, &[Offline, Quarantined], &[Completed, Reconciled], "onboarded, and silent or set aside since"),
    decision(IN, &[Deleted], &[Cancelled], "registered by mistake, and deleted"),
    decision(OUT, &[Deleted], &[Cancelled], "registered by mistake, and deleted after an action that was cancelled"),

    document(DRAIN, &[Active, Offline, Quarantined, Draining], &[Running], "cleanup in progress"),
    document(PAST_RETIRED, &[Retired], &[Running], "reimage or removal in progress"),
    document(END, &[Removing], &[Running], "removal in progress"),
    document(PAST_RETIRED, &[Retired], &[FailedRetryable], "failed after it was retired; the identity is kept, retrying is safe"),
    document(PAST_RETIRED, &[Retired], &[FailedManualIntervention], "blocked until an operator decides"),
    document(DRAIN, &[Quarantined], &[FailedManualIntervention], "blocked until an operator decides"),
    document(END, &[Deleted], &[Completed], "removed"),
    decision(DRAIN, &[Active, Offline, Quarantined], &[Pending], "accepted, nothing done yet"),
    decision(END, &[Retired], &[Pending], "accepted, nothing done yet"),
    decision(&[Kind::Reimage], &[Retired], &[Pending], "accepted for a node that was retired before, or to start again"),
    decision(DRAIN, &[Draining], &[Pending], "to start again from the top; the drain is kept"),
    decision(DRAIN, &[Draining], &[FailedRetryable, FailedManualIntervention], "the drain, or a stage after it, is stuck; resume, or stop the drain"),
    decision(DRAIN, &[Active, Offline], &[FailedRetryable, FailedManualIntervention], "stuck before the drain began, or after it was given up"),
    decision(DRAIN, &[Quarantined], &[FailedRetryable], "stuck before the drain began, or after it was given up"),
    decision(DRAIN, &[Active, Offline, Quarantined, Draining], &[Compensating], "what the run did is being undone"),
    decision(PAST_RETIRED, &[Retired], &[Compensating], "what the run did is being undone"),
    decision(END, &[Removing], &[Compensating], "what the run did is being undone"),
    decision(OUT, &[Active, Offline, Quarantined, Retired], &[Cancelled], "cancelled; a drain or removal was rolled back in the same commit"),
    decision(RETURN, &[Active, Offline, Quarantined], &[Completed, Reconciled], "cleaned or reimaged, and back in use as health allows"),
    decision(&[Kind::Retire], &[Retired], &[Completed, Reconciled], "retired"),
    decision(&[Kind::Retire], &[Active, Offline, Quarantined], &[Completed, Reconciled], "retired, and reactivated since"),
    decision(END, &[Deleted], &[Reconciled], "removed after an operator adopted what was observed"),
];

/// Why a node and its run do not go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misfit {
    /// The node is in a state of work in progress, and no run owns it.
    NoOwner(State),
    /// No row has this combination.
    Contradiction(State, Kind, RunState),
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoOwner(node) => write!(f, "the node is {node}, and no run works on it; resume it"),
            Self::Contradiction(node, kind, run) => {
                write!(f, "the node is {node} while its {kind} run is {run}; neither causes the other")
            }
        }
    }
}

/// The row that allows a node and its current run to be as they are.
///
/// # Errors
/// What is wrong when there is none. A node without a run fits, unless it is in a state of work in progress.
pub fn check(node: State, run: Option<(Kind, RunState)>) -> Result<Option<&'static Fit>, Misfit> {
    let Some((kind, state)) = run else {
        return if node.needs_owner() { Err(Misfit::NoOwner(node)) } else { Ok(None) };
    };
    let fit = FITS
        .iter()
        .find(|fit| fit.kinds.contains(&kind) && fit.nodes.contains(&node) && fit.runs.contains(&state));
    match fit {
        Some(_) => Ok(fit),
        None if node.needs_owner() && !state.is_open() => Err(Misfit::NoOwner(node)),
        None => Err(Misfit::Contradiction(node, kind, state)),
    }
}

//! Which states of a node and of its current run go together: an invariant that can be checked.
//!
//! Sections 4.3 and 5.3 of the document give the rows of [`Source::Document`]; where it is silent, the
//! others say what our moves make possible. A combination without a row is a bug or damage, and the
//! sweeper that looks for it repairs or reports it.

use State::*;

use super::State;
use crate::run::{
    State::{
        Cancelled, Compensating, Completed, FailedManualIntervention, FailedRetryable, Pending, Reconciled,
        Running,
    },
    plan::Kind,
};

type RunState = crate::run::State;

/// Where a row comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The design document says so.
    Document,
    /// The document is silent, and our moves make it possible.
    Extension,
}

/// One set of combinations that are sound.
#[derive(Debug, Clone, Copy)]
pub struct Fit {
    /// The node's state.
    pub nodes: &'static [State],
    /// The state of its current run.
    pub runs: &'static [RunState],
    /// What the combination means.
    pub meaning: &'static str,
    /// Where the row comes from.
    pub source: Source,
}

const fn document(nodes: &'static [State], runs: &'static [RunState], meaning: &'static str) -> Fit {
    Fit { nodes, runs, meaning, source: Source::Document }
}

const fn extension(nodes: &'static [State], runs: &'static [RunState], meaning: &'static str) -> Fit {
    Fit { nodes, runs, meaning, source: Source::Extension }
}

/// The current run is an onboarding.
#[rustfmt::skip]
pub const ONBOARDING: &[Fit] = &[
    document(&[Enrolling], &[Pending, Running], "onboarding in progress"),
    document(&[Enrolling], &[FailedRetryable], "not ready yet; a repeat is safe"),
    document(&[Enrolling, Quarantined], &[FailedManualIntervention], "blocked until an operator decides"),
    document(&[Active], &[Completed], "onboarded"),
    document(&[Active], &[Reconciled], "onboarded after an operator adopted what was observed"),
    extension(&[BootstrapIssued], &[Pending, Running, FailedRetryable, FailedManualIntervention, Compensating, Cancelled],
        "bootstrapped by hand; the agent has not enrolled, and may never"),
    extension(&[Quarantined], &[Pending, Running, FailedRetryable],
        "quarantined, and the onboarding goes on; there is no way back to enrolling"),
    extension(&[Enrolling, Quarantined], &[Compensating], "what the onboarding did is being undone"),
    extension(&[Quarantined], &[Cancelled], "cancelled; the node is set aside in the same commit"),
    extension(&[Offline, Quarantined], &[Completed, Reconciled], "onboarded, and silent or set aside since"),
];

/// The current run is a decommission of any mode, a retirement or a removal.
#[rustfmt::skip]
pub const DECOMMISSION: &[Fit] = &[
    document(&[Active, Offline, Quarantined, Draining, Retired], &[Running], "cleanup or reimage in progress"),
    document(&[Removing], &[Running], "removal in progress"),
    document(&[Retired], &[FailedRetryable], "the removal failed; the identity is kept, a repeat is safe"),
    document(&[Retired, Quarantined], &[FailedManualIntervention], "blocked until an operator decides"),
    document(&[Deleted], &[Completed], "removed"),
    extension(&[Active, Offline, Quarantined, Retired], &[Pending], "accepted, nothing done yet"),
    extension(&[Draining], &[Pending], "to start again from the top; the drain is kept"),
    extension(&[Draining], &[FailedRetryable, FailedManualIntervention], "the drain, or a stage after it, is stuck; resume, or stop the drain"),
    extension(&[Active, Offline, Quarantined], &[FailedRetryable, FailedManualIntervention], "stuck before the drain began, or after it was given up"),
    extension(&[Active, Offline, Quarantined, Draining, Retired, Removing], &[Compensating], "what the run did is being undone"),
    extension(&[Active, Offline, Quarantined, Retired], &[Cancelled], "cancelled; a drain or removal was rolled back in the same commit"),
    extension(&[Active, Offline, Quarantined], &[Completed, Reconciled], "cleaned or reimaged, and back in use as health allows"),
    extension(&[Retired], &[Completed, Reconciled], "retired"),
    extension(&[Deleted], &[Reconciled], "removed after an operator adopted what was observed"),
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
    let fits = if kind.is_onboarding() { ONBOARDING } else { DECOMMISSION };
    let fit = fits.iter().find(|fit| fit.nodes.contains(&node) && fit.runs.contains(&state));
    match fit {
        Some(_) => Ok(fit),
        None if node.needs_owner() && !state.is_open() => Err(Misfit::NoOwner(node)),
        None => Err(Misfit::Contradiction(node, kind, state)),
    }
}

//! `Reconciled`: every required adapter is done with the current generation.

use std::fmt::Write;

use super::{
    Condition, Desired, RECONCILED, Reason, Status,
    fold::{Adapter, Finding, Next, before, oldest_at},
};

/// The first rule that holds wins.
fn finding(desired: &Desired<'_>, adapters: &[Adapter<'_>]) -> Finding {
    let undone = |adapter: &Adapter<'_>| lacks(desired, adapter).is_some();

    if adapters.is_empty() {
        // True would be a guess: no adapter has looked.
        let message = "no adapter is required, so no adapter can confirm this generation";
        (Status::False, Reason::ReconciledMissingAdapters, message.into())
    } else if adapters.iter().any(undone) {
        (Status::False, Reason::ReconciledMissingAdapters, waiting(desired, adapters).into())
    } else if desired.deleted && desired.active_children {
        let message = "every required adapter has finalized; resources that the cluster owns are still there";
        (Status::False, Reason::ReconciledWaitingForChildren, message.into())
    } else if desired.deleted {
        (Status::True, Reason::ReconciledAll, "every required adapter has finalized".into())
    } else {
        (Status::True, Reason::ReconciledAll, "every required adapter is available at this generation".into())
    }
}

/// What keeps an adapter from being done: available at the current generation or, while the cluster is being
/// deleted, finalized at it.
fn lacks(desired: &Desired<'_>, adapter: &Adapter<'_>) -> Option<Lack> {
    match &adapter.report {
        None => Some(Lack::Report),
        Some(report) if report.generation != desired.generation => Some(Lack::Generation(report.generation)),
        Some(report) if desired.deleted => (!report.finalized).then_some(Lack::Finalized),
        Some(report) => (!report.is_available()).then_some(Lack::Available),
    }
}

enum Lack {
    Report,
    Generation(i64),
    Finalized,
    Available,
}

pub(super) fn reconciled(
    desired: &Desired<'_>,
    adapters: &[Adapter<'_>],
    previous: &[Condition],
) -> Condition {
    let finding = finding(desired, adapters);
    let updated = oldest_at(adapters, desired.generation).unwrap_or(desired.updated_time);
    let mut next = Next::new(RECONCILED, finding, desired.generation, updated).after(previous, desired);

    // A new generation ends the old success by itself, from when it was asked for, not from the first report.
    let superseded = before(previous, RECONCILED).is_some_and(|before| {
        before.status == Status::True && before.observed_generation < desired.generation
    });
    if superseded && next.status == Status::False {
        next.last_transition_time = desired.updated_time;
    }
    next
}

fn waiting(desired: &Desired<'_>, adapters: &[Adapter<'_>]) -> String {
    let mut text = format!("generation {} waits for ", desired.generation);
    let mut separator = "";
    for adapter in adapters {
        let Some(lack) = lacks(desired, adapter) else { continue };
        text.push_str(separator);
        text.push_str(adapter.name);
        // Writing to a string does not fail.
        let _ = match lack {
            Lack::Report => text.write_str(" (has not said whether it is available)"),
            Lack::Generation(generation) => write!(text, " (last reported generation {generation})"),
            Lack::Finalized => text.write_str(" (not finalized)"),
            Lack::Available => text.write_str(" (not available)"),
        };
        separator = ", ";
    }
    text
}

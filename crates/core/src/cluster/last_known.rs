//! `LastKnownReconciled`: the last generation at which every required adapter was available is still good.

use jiff::Timestamp;

use super::{
    Condition, Desired, LAST_KNOWN_RECONCILED, Reason, Status,
    fold::{Adapter, Counted, Finding, Next, before, counted, oldest_at},
};

/// What the condition rests on.
enum Basis<'a> {
    /// Every adapter is available, all at one generation.
    Agreed(i64),
    /// An earlier agreement that still holds.
    Held(&'a Condition),
    /// An adapter has not said whether it is available, or none is required.
    Missing,
    /// An adapter is not available.
    Failing,
    /// Every adapter is available, but not at one generation.
    Scattered,
}

/// An agreement outlives a newer generation that is being worked on, even one that fails. It ends when an
/// adapter fails at the very generation of the agreement, or when one is missing.
fn basis<'a>(adapters: &[Adapter<'_>], held: Option<&'a Condition>) -> Basis<'a> {
    if adapters.is_empty() || adapters.iter().any(|adapter| adapter.report.is_none()) {
        return Basis::Missing;
    }
    let broken = |held: &Condition| fails_at(adapters, held.observed_generation);

    match (counted(adapters).all(Counted::is_available), one_generation(adapters), held) {
        (true, Some(generation), _) => Basis::Agreed(generation),
        (true, None, Some(held)) => Basis::Held(held),
        (true, None, None) => Basis::Scattered,
        (false, _, Some(held)) if !broken(held) => Basis::Held(held),
        (false, _, _) => Basis::Failing,
    }
}

pub(super) fn last_known(
    desired: &Desired<'_>,
    adapters: &[Adapter<'_>],
    previous: &[Condition],
) -> Condition {
    let before = before(previous, LAST_KNOWN_RECONCILED);
    let basis = basis(adapters, before.filter(|before| before.status == Status::True));

    let (generation, updated) = match basis {
        Basis::Agreed(generation) => (Some(generation), oldest_at(adapters, generation)),
        Basis::Held(held) => (Some(held.observed_generation), Some(held.last_updated_time)),
        // No adapter is required any more: nothing of the past is claimed.
        Basis::Missing if adapters.is_empty() => (None, None),
        Basis::Missing | Basis::Failing | Basis::Scattered => lost(adapters, before),
    };
    let generation = generation.unwrap_or(1);
    let updated = updated.unwrap_or(desired.updated_time);
    Next::new(LAST_KNOWN_RECONCILED, finding(&basis, adapters), generation, updated).after(previous, desired)
}

/// A lost condition speaks of the newest generation that any adapter reported; its time is new only when an
/// adapter fails there.
fn lost(adapters: &[Adapter<'_>], before: Option<&Condition>) -> (Option<i64>, Option<Timestamp>) {
    let newest = counted(adapters).map(|report| report.generation).max();
    let failing = newest.filter(|&newest| fails_at(adapters, newest));
    let updated = failing.and_then(|newest| oldest_at(adapters, newest));
    (
        newest.or(before.map(|before| before.observed_generation)),
        updated.or(before.map(|before| before.last_updated_time)),
    )
}

fn fails_at(adapters: &[Adapter<'_>], generation: i64) -> bool {
    counted(adapters).any(|report| report.generation == generation && !report.is_available())
}

fn one_generation(adapters: &[Adapter<'_>]) -> Option<i64> {
    let first = counted(adapters).next()?.generation;
    counted(adapters).all(|report| report.generation == first).then_some(first)
}

fn finding(basis: &Basis<'_>, adapters: &[Adapter<'_>]) -> Finding {
    match basis {
        Basis::Agreed(_) | Basis::Held(_) => {
            let message = "every required adapter was available at this generation";
            (Status::True, Reason::AllAdaptersReconciled, message.into())
        }
        Basis::Missing if adapters.is_empty() => {
            (Status::False, Reason::AdaptersMissingReports, "no adapter is required".into())
        }
        Basis::Missing => {
            let message = naming("no word yet on being available: ", adapters, |report| report.is_none());
            (Status::False, Reason::AdaptersMissingReports, message.into())
        }
        Basis::Failing => {
            let failing = |report: Option<&Counted<'_>>| report.is_some_and(|report| !report.is_available());
            let message = naming("not available: ", adapters, failing);
            (Status::False, Reason::AdapterReportedNotAvailable, message.into())
        }
        Basis::Scattered => {
            let message = "every required adapter is available, but not all at one generation";
            (Status::False, Reason::AdaptersNotAtSameGeneration, message.into())
        }
    }
}

fn naming(start: &str, adapters: &[Adapter<'_>], wanted: fn(Option<&Counted<'_>>) -> bool) -> String {
    let mut text = String::from(start);
    let mut separator = "";
    for adapter in adapters.iter().filter(|adapter| wanted(adapter.report.as_ref())) {
        text.push_str(separator);
        text.push_str(adapter.name);
        separator = ", ";
    }
    text
}

//! Whether a valid report becomes what is known of its adapter.

use super::{AdapterStatus, Report, Status};
use crate::names::names;

/// Compares a report with the cluster's generation and with what its adapter said before; the first rule
/// that holds wins.
#[must_use]
pub fn classify(generation: i64, stored: Option<&AdapterStatus>, report: &Report) -> Verdict {
    let position = |stored: &AdapterStatus| (stored.observed_generation, stored.last_report_time);
    let before = stored.map(position);
    let this = (report.observed_generation, report.observed_time);
    let unknown = report.available() == Status::Unknown;

    if report.observed_generation > generation {
        Verdict::Discard(Discard::FutureGeneration)
    } else if before.is_some_and(|before| this.0 < before.0) {
        Verdict::Discard(Discard::OlderGeneration)
    } else if before.is_some_and(|before| this < before) {
        Verdict::Discard(Discard::OlderObservedTime)
    } else if unknown && before.is_some() {
        Verdict::Discard(Discard::RepeatedUnknown)
    } else {
        // An adapter that cannot say yet is worth a row, but no condition of the cluster can move by it.
        Verdict::Store { folds: !unknown }
    }
}

/// What happens to a valid report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It replaces what its adapter said before.
    Store {
        /// The conditions of the cluster have to be folded again.
        folds: bool,
    },
    /// It changes nothing; the sender is told why.
    Discard(Discard),
}

names! {
    /// Why a valid report changes nothing.
    pub enum Discard {
        /// The report speaks of a generation that the cluster has not reached; fetch the cluster and act on
        /// what it says.
        FutureGeneration = "future_generation",
        /// The adapter has already reported a later generation; a report that was overtaken can be dropped.
        OlderGeneration = "older_generation",
        /// The adapter has already reported a later observation of this generation; a report that was
        /// overtaken can be dropped.
        OlderObservedTime = "older_observed_time",
        /// `Available=Unknown` says nothing new once the adapter has reported; report again when it is
        /// `True` or `False`.
        RepeatedUnknown = "repeated_unknown",
    }
}

//! Silence: what the clock adds to stored conditions when somebody reads them.
//!
//! A success is only as good as the last time it was confirmed. When a required adapter has not been heard for
//! longer than its patience, a `Reconciled` that was true is no longer known to be, and one that is false says
//! who fell silent. Stored conditions stay as they are: the adapter's next report ends the silence by itself.
//!
//! Silence is judged by the time of arrival on our clock, never by the adapter's own.

use std::fmt::Write;

use jiff::{SignedDuration, Timestamp};

use super::{AdapterStatus, Condition, Desired, RECONCILED, Reason, Status};

/// Only an adapter that must still speak can fall silent: it is required, it has reached the current generation
/// (before that it is missing, which `Reconciled` already says), and it has not finalized.
fn must_speak(desired: &Desired<'_>, status: &AdapterStatus) -> bool {
    desired.required_adapters.contains(&status.adapter)
        && status.observed_generation == desired.generation
        && !(desired.deleted && status.finalized_at(desired.generation))
}

/// Lays silence over the stored conditions of a cluster.
pub fn overlay(desired: &Desired<'_>, heard: &[Heard<'_>], now: Timestamp, conditions: &mut [Condition]) {
    let silent: Vec<_> = silent(desired, heard, now).collect();
    let Some(since) = silent.iter().map(|silent| silent.since).min() else { return };
    let Some(reconciled) = conditions.iter_mut().find(|condition| condition.type_ == RECONCILED) else {
        return;
    };

    let told = reconciled.message.take().unwrap_or_default();
    let message = match reconciled.status {
        Status::True => {
            reconciled.status = Status::Unknown;
            reconciled.reason = Some(Reason::ReconciledAdapterSilent.as_str().into());
            reconciled.last_transition_time = since;
            format!("{}; before that, {told}", name(&silent))
        }
        Status::False | Status::Unknown => format!("{told}; {}", name(&silent)),
    };
    reconciled.message = Some(message.into());
}

/// The adapters that are silent past their patience.
pub fn silent<'a>(
    desired: &Desired<'_>,
    heard: &[Heard<'a>],
    now: Timestamp,
) -> impl Iterator<Item = Silent<'a>> {
    heard.iter().filter(|heard| must_speak(desired, heard.status)).filter_map(move |heard| {
        // A patience past the end of time is one that never runs out.
        let since = heard.received_at.checked_add(heard.patience).ok()?;
        (since < now).then_some(Silent {
            adapter: &heard.status.adapter,
            received_at: heard.received_at,
            since,
        })
    })
}

/// An adapter's stored status and when it was last heard.
#[derive(Debug, Clone, Copy)]
pub struct Heard<'a> {
    /// What it last said.
    pub status: &'a AdapterStatus,
    /// When its last valid report arrived, a discarded one included: who repeats himself is not silent.
    pub received_at: Timestamp,
    /// How long it may say nothing.
    pub patience: SignedDuration,
}

/// An adapter that is silent past its patience.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silent<'a> {
    /// Who is silent.
    pub adapter: &'a str,
    /// When it was last heard.
    pub received_at: Timestamp,
    /// When its patience ran out.
    pub since: Timestamp,
}

fn name(silent: &[Silent<'_>]) -> String {
    let mut text = String::from("silent past their patience: ");
    for (index, silent) in silent.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        // Writing to a string does not fail.
        let _ = write!(text, "{separator}{} (last heard {})", silent.adapter, silent.received_at);
    }
    text
}

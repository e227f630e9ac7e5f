//! Silence: what the clock adds to stored conditions when they are read.
//!
//! A success is only as good as the last time it was confirmed. When a required adapter has not been heard
//! for longer than its patience, a `Reconciled` that was true becomes unknown, and one that is false names
//! the silent adapter. Stored conditions stay as they are: the adapter's next report ends the silence by
//! itself.
//!
//! Silence is judged by the time of arrival on our clock, never by the adapter's own.

use std::fmt::Write;

use jiff::{SignedDuration, Timestamp};

use super::{AdapterStatus, Condition, Desired, RECONCILED, Reason, Status};

/// Only an adapter that must still speak can fall silent: it is required, and it has not finalized.
fn must_speak(desired: &Desired<'_>, heard: &Heard<'_>) -> bool {
    let finalized = heard.status.is_some_and(|status| status.finalized_at(desired.generation));
    desired.required_adapters.iter().any(|required| required == heard.adapter)
        && !(desired.deleted && finalized)
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

/// The adapters that are silent past their patience, counted from their last word; from the change of what is
/// desired, for one that has said nothing since.
pub fn silent<'a>(
    desired: &Desired<'_>,
    heard: &[Heard<'a>],
    now: Timestamp,
) -> impl Iterator<Item = Silent<'a>> {
    heard.iter().filter(|heard| must_speak(desired, heard)).filter_map(move |heard| {
        let last_word = last_word(desired, heard.status, heard.received_at);
        // A patience past the end of time is one that never runs out.
        let since = last_word.checked_add(heard.patience.saturating_add(heard.excused)).ok()?;
        (since < now).then_some(Silent { adapter: heard.adapter, received_at: heard.received_at, since })
    })
}

/// From when on the silence of an adapter counts: its last word, or the change of what is desired, for one that has said
/// nothing since.
#[must_use]
pub fn last_word(
    desired: &Desired<'_>,
    status: Option<&AdapterStatus>,
    received_at: Option<Timestamp>,
) -> Timestamp {
    let speaks_of_it = status.is_some_and(|status| status.observed_generation == desired.generation);
    match received_at {
        Some(received_at) if speaks_of_it => received_at,
        Some(received_at) => received_at.max(desired.updated_time),
        None => desired.updated_time,
    }
}

/// A required adapter, and when it was last heard.
#[derive(Debug, Clone, Copy)]
pub struct Heard<'a> {
    /// Its name.
    pub adapter: &'a str,
    /// What it last said; nothing if it never spoke.
    pub status: Option<&'a AdapterStatus>,
    /// When its last valid report arrived, a discarded one included: an adapter that repeats itself is not
    /// silent.
    pub received_at: Option<Timestamp>,
    /// How long it may say nothing.
    pub patience: SignedDuration,
    /// How long since then the server did not listen: that time does not count as silence.
    pub excused: SignedDuration,
}

/// An adapter that is silent past its patience.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silent<'a> {
    /// The silent adapter.
    pub adapter: &'a str,
    /// When it was last heard; nothing if never.
    pub received_at: Option<Timestamp>,
    /// When its patience ran out.
    pub since: Timestamp,
}

fn name(silent: &[Silent<'_>]) -> String {
    let mut text = String::from("silent past their patience: ");
    for (index, silent) in silent.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        // Writing to a string does not fail.
        let _ = match silent.received_at {
            Some(received_at) => write!(text, "{separator}{} (last heard {received_at})", silent.adapter),
            None => write!(text, "{separator}{} (never heard)", silent.adapter),
        };
    }
    text
}

//! What the sweep and the flusher did last, for people and metrics.

use std::{collections::BTreeSet, time::Duration};

use jiff::{SignedDuration, Timestamp};
use wardroom_store::{Lease, SeenMark};

use super::{
    company::Told,
    flush::{Flushed, Reading},
};

/// What happened last; times are on the steady axis.
#[derive(Debug, Default)]
pub(super) struct Status {
    /// Whether the members are in memory.
    pub(super) loaded: bool,
    /// Whether this server sweeps, and since when.
    pub(super) sweeping: Option<Timestamp>,
    /// The last sweep, and how long it took to judge.
    pub(super) swept: Option<(Timestamp, Duration)>,
    /// As the last sweep counted: silent, due, and due but held.
    pub(super) silent: u32,
    pub(super) due: u32,
    pub(super) held: u32,
    pub(super) flushed: Flushed,
    pub(super) flush_failed: bool,
    /// Whether others do not know that this server is there, although it tried to tell them.
    pub(super) absent: bool,
    /// When the last merge began that came to its end: what was written down before is at hand.
    pub(super) merged: Option<Timestamp>,
    /// That this server is there, as others know it.
    pub(super) presence: Option<Lease>,
    /// What servers had told before the last merge.
    pub(super) told: Told,
    /// What they have told since, as far as somebody asked.
    pub(super) last_told: Told,
    /// How far what is known of all servers was behind the time of the last sweep.
    pub(super) behind: SignedDuration,
    /// The database's clock, as the last merge read it.
    pub(super) reading: Option<Reading>,
    /// When this server refused beats, as it told others last, in milliseconds.
    pub(super) refused: Option<(i64, i64)>,
    /// What was written down until here is merged.
    pub(super) mark: Option<SeenMark>,
    /// Incidents that are known to be releasing.
    pub(super) releasing: BTreeSet<String>,
    /// Counted since the start.
    pub(super) rows_flushed: u64,
    pub(super) sweeps: u64,
    pub(super) stale: u64,
    pub(super) gone: u64,
}

//! The last results of the sweep and the flusher, for people and metrics.

use std::{collections::BTreeSet, time::Duration};

use jiff::{SignedDuration, Timestamp};
use wardroom_store::Lease;

use super::flush::Flushed;

/// The last work; times are on the steady axis.
#[derive(Debug, Default)]
pub(super) struct Status {
    /// Whether the members are in memory.
    pub(super) loaded: bool,
    /// Whether this server sweeps, and since when.
    pub(super) sweeping: Option<Timestamp>,
    /// The last sweep, and how long it took to judge.
    pub(super) swept: Option<(Timestamp, Duration)>,
    /// Counts of the last sweep: silent, due, and due but held.
    pub(super) silent: u32,
    pub(super) due: u32,
    pub(super) held: u32,
    pub(super) flushed: Flushed,
    pub(super) flush_failed: bool,
    /// Whether the presence of this server expired although it tried to renew it.
    pub(super) absent: bool,
    /// The presence of this server, as the other replicas know it.
    pub(super) presence: Option<Lease>,
    /// The age of the least watermark at the last sweep.
    pub(super) behind: SignedDuration,
    /// The last stored time of refusals of this server, in milliseconds.
    pub(super) refused: Option<(i64, i64)>,
    /// Incidents that are known to be releasing.
    pub(super) releasing: BTreeSet<String>,
    pub(super) rows_flushed: u64,
    pub(super) sweeps: u64,
    pub(super) stale: u64,
    pub(super) gone: u64,
}

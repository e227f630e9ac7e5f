//! Beats that were refused because they might have been lost.
//!
//! What must stay true: the lease holder knows every refusal before it judges past it. It reads its own
//! before every sweep; those of other replicas are in the table before the watermark that it waits for.

use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

use wardroom_core::liveness::{Cause, Period};

use super::{Liveness, flush, millis};
use crate::platform::{app::App, http::error::Error};

/// How far a refusal reaches back: longer than the period in which other replicas read it, and short, because
/// the longest deaf time of a replica counts twice in the bound on excuses.
const LONGEST: i64 = 60_000;

/// No refusal, in milliseconds of the steady axis.
const NONE: i64 = i64::MAX;

/// When beats were refused.
#[derive(Debug)]
pub(super) struct Refusals {
    /// The first one that the sweep of this server has not looked at.
    unseen: AtomicI64,
    /// The first one that is not in the table.
    unwritten: AtomicI64,
}

impl Default for Refusals {
    fn default() -> Self {
        Self { unseen: AtomicI64::new(NONE), unwritten: AtomicI64::new(NONE) }
    }
}

impl Refusals {
    pub(super) fn note(&self, now: i64) {
        self.unseen.fetch_min(now, SeqCst);
        self.unwritten.fetch_min(now, SeqCst);
    }
}

impl Liveness {
    /// Returns the time in which this server refused beats since the last call.
    pub(crate) fn refused(&self) -> Option<Period> {
        let first = self.refusals.unseen.swap(NONE, SeqCst);
        let to = self.clock.steady();
        (first != NONE).then(|| Period { cause: Cause::Database, from: millis(first).min(to), to })
    }
}

/// Stores when this server refused beats, if it did since the last time.
pub(super) async fn write(app: &App) -> Result<(), Error> {
    let live = &app.liveness;
    let first = live.refusals.unwritten.swap(NONE, SeqCst);
    if first == NONE {
        return Ok(());
    }
    let now = live.clock.steady_millis();
    // There is one row per replica, and the next refusal may come before every replica has read this one.
    let before = live.status().refused.filter(|(_, to)| *to >= first.saturating_sub(LONGEST));
    let from = before.map_or(first, |(from, _)| from).max(now.saturating_sub(LONGEST)).min(now);
    let seconds = (now - from) / 1000 + 1;
    let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
    let noted = flush::in_time(app.store.reserved().note_refused(&live.name, seconds)).await;
    if noted.is_ok() {
        live.status().refused = Some((from, now));
    } else {
        live.refusals.unwritten.fetch_min(first, SeqCst);
    }
    noted
}

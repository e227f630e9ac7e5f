//! Beats that were refused because they might have been lost.
//!
//! What must stay true: whoever judges knows of a refusal before it judges past it. This server looks before every
//! sweep of its own; the others wait for what it tells, and that comes before what it says it has told.

use std::{
    sync::atomic::{AtomicI64, Ordering::SeqCst},
    time::Duration,
};

use wardroom_core::liveness::{Cause, Period};
use wardroom_store::Seen;

use super::{Liveness, flush, millis};
use crate::{app::App, error::Error};

/// The kind of the rows that say when servers refused beats: when that ended, and for how many seconds it went on.
const REFUSED: &str = "refused";

/// What is told reaches back so far: every server reads it more often than that. No further, because the longest time
/// that another server did not hear in counts twice in how long it is an excuse.
const LONGEST: i64 = 60_000;

/// No refusal, in milliseconds of the steady axis.
const NONE: i64 = i64::MAX;

/// When beats were refused.
#[derive(Debug)]
pub(super) struct Refusals {
    /// The first one that the sweep of this server has not looked at.
    unseen: AtomicI64,
    /// The first one that others were not told of.
    untold: AtomicI64,
}

impl Default for Refusals {
    fn default() -> Self {
        Self { unseen: AtomicI64::new(NONE), untold: AtomicI64::new(NONE) }
    }
}

impl Refusals {
    pub(super) fn note(&self, now: i64) {
        self.unseen.fetch_min(now, SeqCst);
        self.untold.fetch_min(now, SeqCst);
    }
}

impl Liveness {
    /// The time in which this server refused beats since it was asked last.
    pub(crate) fn refused(&self) -> Option<Period> {
        let first = self.refusals.unseen.swap(NONE, SeqCst);
        let to = self.clock.steady();
        (first != NONE).then(|| Period { cause: Cause::Database, from: millis(first).min(to), to })
    }
}

/// Tells others when this server refused beats, if it did since the last time.
pub(super) async fn tell(app: &App) -> Result<(), Error> {
    let live = &app.liveness;
    let first = live.refusals.untold.swap(NONE, SeqCst);
    if first == NONE {
        return Ok(());
    }
    let now = live.clock.steady_millis();
    // Another one may come before everybody has read of this one, and there is one row.
    let before = live.status().refused.filter(|(_, to)| *to >= first.saturating_sub(LONGEST));
    let from = before.map_or(first, |(from, _)| from).max(now.saturating_sub(LONGEST)).min(now);
    let seconds = (now - from) / 1000 + 1;
    let row = Seen {
        id: live.name.as_str().into(),
        age: Duration::ZERO,
        every: u32::try_from(seconds).unwrap_or(u32::MAX),
    };
    let noted = flush::in_time(app.store.reserved().note_seen(REFUSED, vec![row])).await;
    if noted.is_ok() {
        live.status().refused = Some((from, now));
    } else {
        live.refusals.untold.fetch_min(first, SeqCst);
    }
    noted
}

/// Learns when other servers refused beats, as they told since a mark.
pub(super) async fn ask(app: &App, since: Option<wardroom_store::SeenMark>) -> Result<Vec<Period>, Error> {
    let live = &app.liveness;
    let refused = app.store.seen(REFUSED, since).await?;
    let now = live.clock.steady();
    let others = refused.into_iter().filter(|row| *row.id != *live.name);
    let period = |row: Seen| {
        let to = super::company::before(now, row.age);
        let from = super::company::before(to, Duration::from_secs(row.every.into()));
        Period { cause: Cause::Replica, from, to }
    };
    Ok(others.map(period).collect())
}

/// Forgets a server that is gone for good.
pub(super) async fn forget(app: &App, server: &str) -> Result<(), Error> {
    Ok(app.store.reserved().forget_seen(REFUSED, server).await?)
}

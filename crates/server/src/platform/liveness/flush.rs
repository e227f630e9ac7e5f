//! From memory to the narrow table and back.
//!
//! A crash loses at most the beats of one granularity, much less than the grace after a start.

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;
use wardroom_core::liveness::Interval;
use wardroom_store::{Content, List, Resource, Seen};

use super::{
    Liveness,
    kinds::Beating,
    refusals,
    slab::{Chunk, Seat},
};
use crate::platform::{app::App, http::error::Error};

/// Rows in one transaction: few enough that other statements get their turn.
const BATCH: usize = 10_000;

/// A write that takes longer is given up. Longer than PostgreSQL's lock timeout, whose error says more.
const LONGEST: Duration = Duration::from_secs(25);

/// The last write or read of beats.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flushed {
    /// When it ended, as views show it.
    pub(super) at: Option<Timestamp>,
    pub(super) rows: u64,
    pub(super) took: Duration,
}

/// Stores beats while the server runs: only those that moved by the granularity.
pub(crate) async fn flush(app: &App) -> Result<(), Error> {
    write(app, app.liveness.settings.granularity).await
}

/// Stores all beats at the end of the process.
pub(crate) async fn flush_all(app: &App) -> Result<(), Error> {
    write(app, Duration::ZERO).await
}

async fn write(app: &App, granularity: Duration) -> Result<(), Error> {
    let live = &app.liveness;
    let began = app.clock.instant();
    // Read the clock before collecting beats: the watermark must not run ahead of them.
    let watermark =
        if live.settings.shared { Some(in_time(app.store.reserved().moment()).await?) } else { None };
    let mut moved = Vec::new();
    live.slab.moved(i64::try_from(granularity.as_millis()).unwrap_or(i64::MAX), |seat| moved.push(seat));
    for seats in moved.chunks(BATCH) {
        write_batch(app, seats).await?;
    }
    if let Some(moment) = watermark {
        refusals::write(app).await?;
        in_time(app.store.reserved().note_watermark(&live.name, moment)).await?;
    }
    let took = began.elapsed();
    let mut status = live.status();
    status.flushed = Flushed { at: Some(live.clock.now()), rows: moved.len() as u64, took };
    status.rows_flushed += moved.len() as u64;
    Ok(())
}

pub(super) async fn in_time<T>(write: impl Future<Output = wardroom_store::Result<T>>) -> Result<T, Error> {
    let late = |_| Err(Error::Unavailable("heartbeats not written in time"));
    tokio::time::timeout(LONGEST, write).await.map_or_else(late, |written| Ok(written?))
}

/// Seats are in the order of registration, which is nearly that of ids.
async fn write_batch(app: &App, seats: &[Seat]) -> Result<(), Error> {
    let live = &app.liveness;
    for (number, Beating { kind, .. }) in live.kinds.iter().enumerate() {
        let (mut written, mut rows) = (Vec::new(), Vec::new());
        let now = live.clock.steady_millis();
        for seat in seats {
            let Some(record) = live.slab.record(*seat).filter(|record| usize::from(record.kind) == number)
            else {
                continue;
            };
            let Some(id) = live.slab.name(*seat) else { continue };
            let age = Duration::from_millis(u64::try_from(now.saturating_sub(record.last)).unwrap_or(0));
            rows.push(Seen { id, age, every: record.interval.map_or(0, Interval::seconds) });
            written.push((*seat, record.last));
        }
        if rows.is_empty() {
            continue;
        }
        rows.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        in_time(app.store.reserved().note_seen(kind, rows)).await?;
        for (seat, last) in written {
            if let Some((chunk, at)) = live.slab.at(seat) {
                chunk.stored(at, last);
            }
        }
    }
    Ok(())
}

/// Reads every row of the table into memory.
pub(super) async fn read_all(app: &App) -> Result<(), Error> {
    let live = &app.liveness;
    for (number, row) in (0..).zip(live.kinds.iter().copied()) {
        for seen in app.store.seen(row.kind).await? {
            live.learn(number, &seen);
        }
    }
    Ok(())
}

/// Gives a seat to every member that has to beat, and remembers when the others were last heard. Returns when
/// this or another server was last known to listen, on the steady axis.
pub(super) async fn load(app: &App) -> Result<Option<Timestamp>, Error> {
    let live = &app.liveness;
    // This server's own beats while it loads do not prove that another one listened before.
    let created = live.judge_state().since.as_millisecond();
    let mut listened = None;
    for (number, row) in (0..).zip(live.kinds.iter().copied()) {
        let seen = app.store.seen(row.kind).await?;
        let heard = seen.iter().map(|seen| live.clock.steady_millis().saturating_sub(millis(seen.age)));
        let newest = heard.filter(|heard| *heard < created).max();
        listened = listened.max(newest);
        let mut seen: HashMap<Box<str>, (Duration, u32)> =
            seen.into_iter().map(|seen| (seen.id, (seen.age, seen.every))).collect();
        for state in row.states {
            let state = Some((*state).to_owned());
            let mut list = List { kind: row.kind.to_owned(), state, limit: 1000, ..List::default() };
            loop {
                let page = app.store.list(&list).await?;
                for member in &page.items {
                    let known = seen.remove(member.content.id.as_str());
                    let now = live.clock.steady_millis();
                    let (last, every) = known.map_or_else(
                        || (live.steady_of(member.state_changed_at), 0),
                        |(age, every)| (now.saturating_sub(millis(age)), every),
                    );
                    let seat = live.seat_stored(row, member, last, every);
                    if let (Some((chunk, at)), true) = (live.slab.at(seat), known.is_some()) {
                        chunk.stored(at, last);
                    }
                }
                let Some(next) = page.next else { break };
                list.after = Some(next);
            }
        }
        for (id, (age, every)) in seen {
            let last = live.clock.steady_millis().saturating_sub(millis(age));
            live.rest_stored(number, &id, last, every);
            // An earlier attempt may have watched it.
            live.unseat(row.kind, &id);
        }
    }
    Ok(listened.map(super::millis))
}

impl Liveness {
    /// Seats a member that was read from the store.
    pub(super) fn seat_stored(&self, row: &Beating, member: &Resource, last: i64, every: u32) -> Seat {
        let given = (row.given)(member, &self.settings);
        let interval = Interval::from_seconds(every).max(given);
        self.take(row.kind, &member.content.id, self.zone_named(member), given, interval, last)
    }

    /// Seats a member that a server heard a moment ago. That server knows and writes the member's interval; a write
    /// without one leaves the interval of the row alone.
    pub(super) fn seat_heard(&self, row: &Beating, member: &Resource) -> Seat {
        let given = (row.given)(member, &self.settings);
        let (zone, now) = (self.zone_named(member), self.clock.steady_millis());
        self.take(row.kind, &member.content.id, zone, given, None, now)
    }

    /// Returns the zone of a member: its label, or else its site. Members of a zone tend to fall silent
    /// together.
    pub(crate) fn zone_named<'a>(&self, member: &'a Resource) -> Option<&'a str> {
        let Content { labels, fields, .. } = &member.content;
        labels.get(&self.settings.zone_label).or_else(|| fields.get("site")).map(String::as_str)
    }

    /// Reads a row of the table into memory.
    pub(super) fn learn(&self, kind: u8, seen: &Seen) -> Option<Seat> {
        let last = self.clock.steady_millis().saturating_sub(millis(seen.age));
        let Some(seat) = self.directory.find(&self.slab, kind, &seen.id) else {
            return self.rest_stored(kind, &seen.id, last, seen.every);
        };
        let (chunk, at) = self.slab.at(seat)?;
        self.heard_elsewhere(chunk, at, last, seen.every);
        Some(seat)
    }

    /// Records the last beat of a member that does not have to beat.
    fn rest_stored(&self, kind: u8, id: &str, last: i64, every: u32) -> Option<Seat> {
        let (seat, _) = self.remember(kind, id, last, Interval::from_seconds(every))?;
        if let Some((chunk, at)) = self.slab.at(seat) {
            chunk.stored(at, last);
        }
        Some(seat)
    }

    /// An older beat still gives the member's interval, if none is known.
    fn heard_elsewhere(&self, chunk: &Chunk, at: usize, last: i64, every: u32) {
        let is_newer = chunk.heard(at, last);
        let record = chunk.record(at);
        let every = Interval::from_seconds(every);
        let interval = if is_newer { every.or(record.interval) } else { record.interval.or(every) };
        if is_newer {
            chunk.stored(at, last);
        }
        if is_newer || interval != record.interval {
            chunk.set(at, record.zone, record.given, interval);
            chunk.set_late(at, self.late_step(record.last, interval));
        }
    }
}

fn millis(age: Duration) -> i64 {
    i64::try_from(age.as_millis()).unwrap_or(i64::MAX)
}

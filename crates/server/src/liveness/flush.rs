//! From memory to the narrow table and back.
//!
//! What is lost with the process is at most the granularity of the last beats, which the grace after a start
//! covers many times over.

use std::{collections::HashMap, sync::atomic::Ordering::Acquire, time::Duration};

use jiff::{SignedDuration, Timestamp};
use wardroom_core::liveness::{Cause, Interval, Period};
use wardroom_store::{Content, List, Moment, Resource, Seen};

use super::{
    Liveness, company,
    kinds::Beating,
    refusals,
    slab::{Chunk, Seat},
};
use crate::{app::App, error::Error};

/// Rows in one transaction: few enough that other statements get their turn.
const BATCH: usize = 10_000;

/// Writing that takes longer does not end. Longer than PostgreSQL itself waits for a lock, which says more.
const LONGEST: Duration = Duration::from_secs(25);

/// Two clocks that nobody sets may differ by so much between two merges.
const SLACK: SignedDuration = SignedDuration::from_secs(1);

/// The last time something was written down or read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flushed {
    /// When it ended, as it is shown: the same however often somebody looks.
    pub(super) at: Option<Timestamp>,
    pub(super) rows: u64,
    pub(super) took: Duration,
}

/// What is stored while the server runs: only what moved by the granularity.
pub(crate) async fn flush(app: &App) -> Result<(), Error> {
    write(app, app.liveness.settings.granularity).await
}

/// What is stored at the end: everything.
pub(crate) async fn flush_all(app: &App) -> Result<(), Error> {
    write(app, Duration::ZERO).await
}

async fn write(app: &App, granularity: Duration) -> Result<(), Error> {
    let live = &app.liveness;
    let began = app.clock.instant();
    // Before it is looked who was heard: what is said to be told must not be more than what is.
    let heard_before =
        if live.settings.shared { Some(in_time(app.store.reserved().moment()).await?) } else { None };
    let news = live.news.load(Acquire);
    let mut moved = Vec::new();
    live.slab.moved(i64::try_from(granularity.as_millis()).unwrap_or(i64::MAX), |seat| moved.push(seat));
    for seats in moved.chunks(BATCH) {
        write_batch(app, seats).await?;
    }
    if let Some(moment) = heard_before {
        refusals::tell(app).await?;
        in_time(app.store.reserved().note_told(&live.name, moment, news)).await?;
    }
    let took = began.elapsed();
    let mut status = live.status();
    status.flushed = Flushed { at: Some(live.clock.now()), rows: moved.len() as u64, took };
    status.rows_flushed += moved.len() as u64;
    Ok(())
}

pub(super) async fn in_time<T>(write: impl Future<Output = wardroom_store::Result<T>>) -> Result<T, Error> {
    let late = |_| Err(Error::Unavailable("beats could not be written down in time"));
    tokio::time::timeout(LONGEST, write).await.map_or_else(late, |written| Ok(written?))
}

/// Seats are taken in the order in which members came, which is nearly that of their ids.
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

/// Takes in what other servers wrote down since the last time, however long ago they heard it; unless nobody needs
/// that and there is no news.
pub(super) async fn merge(app: &App, wanted: Wanted) -> Result<(), Error> {
    let live = &app.liveness;
    let began = live.clock.steady();
    // Before what was written down is read: it is there then.
    let told = company::ask(app).await?;
    if let Wanted::IfNewsOf(servers) = wanted
        && !company::has_news(&servers, &told, &live.status().told)
    {
        return Ok(());
    }
    let mark = app.store.seen_mark().await?;
    let since = live.status().mark;
    for (number, Beating { kind, .. }) in (0..).zip(live.kinds) {
        let asked = live.clock.steady_millis();
        let seen = app.store.seen(kind, since).await?;
        let now = live.clock.steady_millis();
        for Seen { id, age, every } in seen {
            let last = now.saturating_sub(millis(age));
            let seat = live.directory.find(&live.slab, number, &id);
            // Who is not watched does not have to beat, or the feed has not told yet that it does.
            let unwatched = match seat.and_then(|seat| Some((seat, live.slab.at(seat)?))) {
                Some((seat, (chunk, at))) => {
                    // What was read before is not newer because it took longer to read this time.
                    let is_newer = asked.saturating_sub(millis(age)) > chunk.record(at).last;
                    live.heard_elsewhere(chunk, at, last, every);
                    (is_newer && !chunk.is_watched(at)).then_some(seat)
                }
                None => live.rest_stored(number, &id, last, every),
            };
            unwatched.into_iter().for_each(|seat| live.heard_unwatched(seat));
        }
    }
    live.forget_watched();
    let refused = refusals::ask(app, since).await?;
    notice_clock(app).await?;
    for period in refused {
        live.judge_state().was_deaf(period);
    }
    let mut status = live.status();
    (status.merged, status.told, status.mark) = (Some(began), told, Some(mark));
    Ok(())
}

/// Notices that the database's clock was set back. What was written down before lies ahead of it then and is not
/// believed until it is written anew: who was heard shortly before is not charged for that.
async fn notice_clock(app: &App) -> Result<(), Error> {
    let live = &app.liveness;
    let asked = live.clock.steady();
    let moment = app.store.moment().await?;
    let reading = Reading { asked, moment, answered: live.clock.steady() };
    let before = live.status().reading.replace(reading);
    if let Some(before) = before.filter(|before| reading.is_behind(before)) {
        tracing::warn!("the database's clock was set back; nobody is charged for it");
        let period = Period { cause: Cause::Database, from: before.asked, to: reading.answered };
        live.judge_state().was_deaf(period);
    }
    Ok(())
}

/// The database's clock, read between two instants of the steady axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    asked: Timestamp,
    moment: Moment,
    answered: Timestamp,
}

impl Reading {
    /// Whether less time went by for the database than did here at least.
    fn is_behind(&self, before: &Self) -> bool {
        let least = self.asked.duration_since(before.answered);
        self.moment.since(before.moment) < least.saturating_sub(SLACK)
    }
}

/// When a merge is wanted: each reads a table with a row for every member.
#[derive(Debug)]
pub(super) enum Wanted {
    Always,
    /// When one of these servers has heard something that is not expected here.
    IfNewsOf(Vec<String>),
}

/// Gives a seat to everyone who has to beat, and remembers when everyone else was last heard.
/// Answers when this or another server was last known to listen, on the steady axis.
pub(super) async fn load(app: &App) -> Result<Option<Timestamp>, Error> {
    let live = &app.liveness;
    let mark = app.store.seen_mark().await?;
    // What this server itself heard and wrote down while it loads says nothing of who listened before.
    let created = live.judge_state().since.as_millisecond();
    let mut listened = None;
    for (number, row) in (0..).zip(live.kinds) {
        let seen = app.store.seen(row.kind, None).await?;
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
            // It may have been watched when this was tried before.
            live.unseat(row.kind, &id);
        }
    }
    live.status().mark = Some(mark);
    Ok(listened.map(super::millis))
}

impl Liveness {
    /// Seats a member that was read from the store.
    pub(super) fn seat_stored(&self, row: &Beating, member: &Resource, last: i64, every: u32) -> Seat {
        let given = (row.given)(member, &self.settings);
        let interval = Interval::from_seconds(every).max(given);
        self.take(row.kind, &member.content.id, self.zone_named(member), given, interval, last)
    }

    /// Who falls silent together with a member: the zone that its label names, or else its site.
    pub(crate) fn zone_named<'a>(&self, member: &'a Resource) -> Option<&'a str> {
        let Content { labels, fields, .. } = &member.content;
        labels.get(&self.settings.zone_label).or_else(|| fields.get("site")).map(String::as_str)
    }

    /// Remembers a member that was heard and does not have to beat.
    fn rest_stored(&self, kind: u8, id: &str, last: i64, every: u32) -> Option<Seat> {
        let (seat, _) = self.remember(kind, id, last, Interval::from_seconds(every))?;
        if let Some((chunk, at)) = self.slab.at(seat) {
            chunk.stored(at, last);
        }
        Some(seat)
    }

    /// An older beat still tells how often the member beats, if nobody else has told that.
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

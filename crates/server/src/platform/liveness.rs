//! Liveness of every kind that beats: when each member was last heard, and which members fell silent.
//!
//! ```text
//! beat ─▶ seat (memory) ─▶ flush ─▶ table ─▶ load at start
//!              │                      │
//!              │ one server           │ several replicas: the lease holder asks for overdue rows
//!              └──────────┬───────────┘
//!                         └─▶ core's guard ─▶ where the kind sends silent members, in batches;  incidents
//! ```
//!
//! What must stay true: a beat costs a look-up and a few atomic stores, even while the sweep or the database
//! is slow; and `core` decides whether silence means something, from facts counted here.

mod directory;
mod driver;
mod excuse;
pub(crate) mod face;
mod flush;
mod follow;
pub(crate) mod incident;
mod judge;
pub mod kinds;
mod overdue;
mod refusals;
pub(crate) mod replicas;
mod settings;
mod slab;
pub(crate) mod stale;
mod status;
pub(crate) mod sweep;
#[cfg(test)]
mod tests;
pub(crate) mod unwatched;
pub(crate) mod view;
mod zones;

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed},
};

use directory::Directory;
pub use driver::Driver;
use jiff::{SignedDuration, Timestamp};
use judge::Judge;
use kinds::Beating;
use refusals::Refusals;
pub(crate) use settings::RawSettings;
pub use settings::Settings;
pub use slab::Seat;
use slab::{Chunk, Record, Slab};
use status::Status;
use unwatched::UnwatchedBeats;
use uuid::Uuid;
use wardroom_core::liveness::{Cause, Interval, Silence, Standing, adopt, in_force};
use zones::Zones;

use crate::platform::{clock::Timepiece, http::error::Error};

/// All members that beat.
#[derive(Debug)]
pub struct Liveness {
    clock: Timepiece,
    settings: Settings,
    kinds: Vec<&'static Beating>,
    slab: Slab,
    directory: Directory,
    zones: Zones,
    judge: Mutex<Judge>,
    status: Mutex<Status>,
    beats: Box<[Count]>,
    /// Listeners that members cannot connect to now.
    refusing: AtomicU32,
    /// The name of this server, which is unique.
    name: String,
    cut_off: AtomicBool,
    /// Until when the other replicas count this one as present, in milliseconds of the steady axis.
    present_until: AtomicI64,
    /// Beats that were refused here.
    refusals: Refusals,
    /// Whether memory has every beat: this server has no other replica beside it.
    knows_all: AtomicBool,
    /// Beats of members that are not watched here.
    unwatched: Mutex<UnwatchedBeats>,
}

/// A counter that shares its cache line with no other.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Count(AtomicU64);

/// Counters of beats, so that beats do not wait for one.
const COUNTS: usize = 32;

/// Counts since the start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Totals {
    pub(crate) beats: u64,
    pub(crate) stale: u64,
    pub(crate) sweeps: u64,
    pub(crate) flushed: u64,
    pub(crate) gone: u64,
    /// How far the least watermark is behind, on the lease holder: no member is judged past it.
    pub(crate) behind: SignedDuration,
}

/// The facts of a member that takes a seat.
#[derive(Debug, Clone, Copy, Default)]
pub struct NewSeat<'a> {
    /// Its zone.
    pub zone: Option<&'a str>,
    /// The interval it was given.
    pub given: Option<Interval>,
    /// When it was last heard; nothing for now.
    pub last_seen: Option<Timestamp>,
    /// The interval that it reported with that beat, if any.
    pub said: Option<Interval>,
}

/// The reply to a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beat {
    /// When to beat next, spread a little.
    pub next: Interval,
    /// The time here.
    pub server_time: Timestamp,
}

impl Liveness {
    /// Starts without members.
    pub(crate) fn new(clock: Timepiece, settings: Settings, kinds: Vec<&'static Beating>) -> Self {
        let slab = Slab::new(clock.steady_millis());
        let judge = Mutex::new(Judge::new(clock));
        let status = Mutex::default();
        let beats = (0..COUNTS).map(|_| Count::default()).collect();
        let shared = settings.shared;
        Self {
            clock,
            settings,
            kinds,
            slab,
            directory: Directory::new(),
            zones: Zones::default(),
            judge,
            status,
            beats,
            refusing: AtomicU32::new(0),
            name: Uuid::now_v7().to_string(),
            cut_off: AtomicBool::new(false),
            present_until: AtomicI64::new(i64::MIN),
            refusals: Refusals::default(),
            knows_all: AtomicBool::new(!shared),
            unwatched: Mutex::default(),
        }
    }

    /// Gives a member a seat and watches it from now on. A member that has a seat keeps it; its zone and
    /// interval are updated.
    ///
    /// Only for a member whose stored state requires heartbeats. A caller that moves it to such a state
    /// commits first, then seats it; a caller that only reads the state seats first, then reads, and unseats
    /// if the state is another one. That way a sweep that marks the member meanwhile notices the request for
    /// its seat.
    pub fn seat(&self, kind: &'static str, id: &str, new: NewSeat<'_>) -> Seat {
        let now = self.clock.steady_millis();
        let last = new.last_seen.map_or(now, |seen| self.steady_of(seen));
        self.take(kind, id, new.zone, new.given, in_force(new.said, new.given), last)
    }

    /// The seat of a member that is watched.
    #[must_use]
    pub fn find(&self, kind: &str, id: &str) -> Option<Seat> {
        let seat = self.directory.find(&self.slab, self.kind(kind)?, id)?;
        self.slab.at(seat).filter(|(chunk, at)| chunk.is_watched(*at)).map(|_| seat)
    }

    /// Records a beat; ignored if the member lost its seat meanwhile.
    pub fn beat(&self, seat: Seat, said: Option<Interval>) -> Beat {
        let now = self.clock.steady_millis();
        let mut base = self.settings.interval;
        if let Some((chunk, at)) = self.slab.at(seat) {
            let Record { last, interval: before, given, .. } = chunk.record(at);
            let gap = SignedDuration::from_millis(now.saturating_sub(last));
            let interval = adopt(before, in_force(said, given), gap);
            self.note_beat(chunk, at, now, interval);
            base = given.or(interval).unwrap_or(base);
            self.beats[seat.index as usize % COUNTS].0.fetch_add(1, Relaxed);
        }
        self.answer(u64::from(seat.index), base)
    }

    /// The interval of a member that was given none.
    pub(crate) fn usual_interval(&self) -> Interval {
        self.settings.interval
    }

    /// Returns the reply to a beat: when to beat next, spread out so that members answered together come
    /// apart.
    pub(crate) fn answer(&self, member: u64, base: Interval) -> Beat {
        let next = base.spread(self.settings.jitter, random(member, self.clock.steady_millis()));
        Beat { next, server_time: self.clock.now() }
    }

    fn note_beat(&self, chunk: &Chunk, at: usize, now: i64, interval: Option<Interval>) {
        chunk.beat(at, now, interval, self.late_step(now, interval));
    }

    /// Counts a member as heard although its own beat was refused. Other members get no excuse from that: one
    /// broken member must not hide silent ones.
    pub(crate) fn was_there(&self, kind: &str, id: &str) {
        let seat = self.kind(kind).and_then(|kind| self.directory.find(&self.slab, kind, id));
        let Some((chunk, at)) = seat.and_then(|seat| self.slab.at(seat)) else { return };
        let now = self.clock.steady_millis();
        if chunk.is_watched(at) {
            self.note_beat(chunk, at, now, chunk.record(at).interval);
        } else {
            chunk.heard(at, now);
        }
    }

    /// Records a beat of a member that does not have to beat, without watching it. Returns true for the first
    /// beat that this replica knows of.
    pub fn hear(&self, kind: &str, id: &str, said: Option<Interval>) -> bool {
        let now = self.clock.steady_millis();
        let heard = self.kind(kind).and_then(|kind| self.remember(kind, id, now, said));
        heard.is_some_and(|(_, new)| new)
    }

    /// Records when a member was heard; gives it an unwatched seat if it has none. Returns true if the seat
    /// is new.
    fn remember(&self, kind: u8, id: &str, last: i64, interval: Option<Interval>) -> Option<(Seat, bool)> {
        let record = Record { kind, zone: self.zones.number(None), last, interval, given: None };
        let (seat, new) = self.directory.find_or_take(&self.slab, id, &record)?;
        if let Some((chunk, at)) = self.slab.at(seat) {
            let known = chunk.record(at);
            if interval > known.interval {
                // As for watched members: a longer interval applies at once.
                chunk.set(at, known.zone, known.given, interval);
            }
            chunk.heard(at, last);
        }
        Some((seat, new))
    }

    /// Stops watching a member that is revoked, deleted or stale. Its last beat stays known.
    pub fn unseat(&self, kind: &str, id: &str) {
        let seat = self.kind(kind).and_then(|kind| self.directory.find(&self.slab, kind, id));
        if let Some((chunk, at)) = seat.and_then(|seat| self.slab.at(seat)) {
            chunk.rest(at);
        }
    }

    /// Returns when a member was last heard, by memory; `view::refresh` adds the beats of other replicas.
    #[must_use]
    pub fn last_seen(&self, kind: &str, id: &str) -> Option<Timestamp> {
        self.last_beat(kind, id).map(|(seen, _)| seen)
    }

    /// The same, and the interval that it was held to.
    #[must_use]
    pub fn last_beat(&self, kind: &str, id: &str) -> Option<(Timestamp, Option<Interval>)> {
        let seat = self.directory.find(&self.slab, self.kind(kind)?, id)?;
        let record = self.slab.record(seat)?;
        Some((self.clock.wall_of(millis(record.last)), record.interval))
    }

    /// Returns the facts of a watched member's silence, for people: times are wall times.
    #[must_use]
    pub fn standing(&self, kind: &str, id: &str) -> Option<Silence> {
        let record = self.slab.record(self.find(kind, id)?)?;
        let until = self.known_until();
        let mut silence = self.silence(&record, &self.judge_state(), until);
        silence.heard = self.clock.wall_of(silence.heard);
        silence.due = self.clock.wall_of(silence.due);
        if let Some(held) = &mut silence.held {
            held.since = self.clock.wall_of(held.since);
            held.until = self.clock.wall_of(held.until);
        }
        silence.bound = silence.bound.map(|bound| self.clock.wall_of(bound));
        Some(silence)
    }

    /// Returns the open incident that holds a due member, as far as this server knows.
    #[must_use]
    pub fn incident_of(&self, kind: &str, id: &str) -> Option<String> {
        let record = self.slab.record(self.find(kind, id)?)?;
        let judge = self.judge_state();
        let zone = self.zones.name(record.zone);
        judge.incidents.get(&zone).or_else(|| judge.incidents.get(&None)).cloned()
    }

    /// Whether a watched member is past its deadline, held or not.
    #[must_use]
    pub fn is_due(&self, kind: &str, id: &str) -> bool {
        let record = self.find(kind, id).and_then(|seat| self.slab.record(seat));
        record.is_some_and(|record| self.is_due_by(&record))
    }

    fn is_due_by(&self, record: &Record) -> bool {
        let until = self.known_until();
        let silence = self.silence(record, &self.judge_state(), until);
        matches!(silence.standing, Standing::Due | Standing::Suspected)
    }

    fn judge_state(&self) -> MutexGuard<'_, Judge> {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn totals(&self) -> Totals {
        let beats = self.beats.iter().map(|count| count.0.load(Relaxed)).sum();
        let status = self.status();
        let Status { stale, sweeps, rows_flushed: flushed, gone, .. } = *status;
        // Only the sweeping server is behind: the others read beats of other servers for views only.
        let behind = status.sweeping.map_or(SignedDuration::ZERO, |_| status.behind);
        Totals { beats, stale, sweeps, flushed, gone, behind }
    }

    /// Returns why this server cannot receive heartbeats now; a beat that it accepts meanwhile may not reach
    /// the other replicas.
    #[must_use]
    pub fn deaf(&self) -> Option<Cause> {
        self.judge_state().listening.deaf_now()
    }

    /// Whether a beat accepted here may be lost: this replica cannot write it, or the others do not count
    /// this replica as present. Such a beat gets 503, so that the member tries another replica.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        self.cut_off.load(Relaxed) || !self.is_present()
    }

    /// The time now, on an axis that does not jump.
    pub(crate) fn steady(&self) -> Timestamp {
        self.clock.steady()
    }

    /// Returns the name by which other servers know this one.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the other replicas count this one as present, or there can be no others.
    pub(crate) fn is_present(&self) -> bool {
        !self.settings.shared || self.clock.steady_millis() < self.present_until.load(Relaxed)
    }

    /// Refuses a beat that may be lost; the time of refusals does not count as silence. Checked before and
    /// after a beat is recorded, because the process may pause in between.
    pub(crate) fn takes_beats(&self) -> Result<(), Error> {
        if self.is_cut_off() {
            self.refuses();
            return Err(Error::Unavailable(
                "the heartbeat cannot be shared with the other servers now: retry",
            ));
        }
        Ok(())
    }

    /// Records a refusal for a reason that all members share; this time does not count as silence.
    pub(crate) fn refuses(&self) {
        self.refusals.note(self.clock.steady_millis());
    }

    /// The approximate time up to which every beat of all replicas is known; the sweep computes it exactly.
    fn known_until(&self) -> Timestamp {
        let behind = self.status().behind;
        self.clock.steady().checked_sub(behind).unwrap_or(Timestamp::MIN)
    }

    /// Sets whether this server is cut off.
    #[cfg(test)]
    pub(crate) fn cut_off(&self, is_cut_off: bool) {
        self.cut_off.store(is_cut_off, Relaxed);
    }

    /// Records whether members can connect to a listener. The server is deaf while one listener refuses
    /// connections.
    pub(crate) fn listener_accepts(&self, accepts: bool) {
        let mut judge = self.judge_state();
        let before = match accepts {
            true => self.refusing.fetch_sub(1, Relaxed),
            false => self.refusing.fetch_add(1, Relaxed),
        };
        if before == u32::from(accepts) {
            judge.set(Cause::Listener, !accepts, self.clock.steady());
        }
    }

    /// Frees the seat of a deleted member.
    pub(crate) fn forget(&self, kind: &str, id: &str) {
        if let Some(kind) = self.kind(kind) {
            self.directory.remove(&self.slab, kind, id);
        }
    }

    /// The number of a kind that beats.
    fn kind(&self, kind: &str) -> Option<u8> {
        let found = self.kinds.iter().position(|row| row.kind == kind);
        found.and_then(|number| u8::try_from(number).ok())
    }

    fn take(
        &self,
        kind: &str,
        id: &str,
        zone: Option<&str>,
        given: Option<Interval>,
        interval: Option<Interval>,
        last: i64,
    ) -> Seat {
        // A kind without a row is not watched, and neither is a member past the number that seats can have.
        const NOWHERE: Seat = Seat { index: u32::MAX, life: 0 };
        let Some(kind) = self.kind(kind) else {
            tracing::error!(kind, "a member of a kind without heartbeats has a seat; it is not watched");
            return NOWHERE;
        };
        let record = Record { kind, zone: self.zones.number(zone), last, interval, given };
        let Some((seat, new)) = self.directory.find_or_take(&self.slab, id, &record) else {
            tracing::error!(most = Slab::MOST, "there are more members than seats");
            return NOWHERE;
        };
        if let Some((chunk, at)) = self.slab.at(seat) {
            if !new {
                // A shorter interval applies once the member keeps it, a longer one at once.
                chunk.set(at, record.zone, given, chunk.record(at).interval.max(interval));
                chunk.heard(at, last);
            }
            chunk.claim(at);
            let Record { last, interval, .. } = chunk.record(at);
            chunk.watch(at, self.late_step(last, interval));
        }
        seat
    }

    /// The earliest step at which a member can be late; deaf time only postpones it.
    fn late_step(&self, last: i64, interval: Option<Interval>) -> u32 {
        let policy = &self.settings.policy;
        let silence = policy.grace(interval).min(policy.allowance(interval));
        let silence = i64::try_from(silence.as_millis()).unwrap_or(i64::MAX);
        self.slab.step(last.saturating_add(silence))
    }

    /// Wall time as milliseconds of the steady axis, never in the future.
    fn steady_of(&self, wall: Timestamp) -> i64 {
        let age = self.clock.now().duration_since(wall).max(SignedDuration::ZERO);
        let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        self.clock.steady_millis().saturating_sub(age)
    }
}

fn millis(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MIN)
}

/// Returns a number that differs from seat to seat and from beat to beat; it need not be unpredictable.
fn random(member: u64, now: i64) -> u32 {
    let mut mixed = (now as u64) ^ (member << 32);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed >> 33) as u32
}

//! Listening: the record of periods in which the server was deaf, which do not count as silence.
//!
//! What must stay true: time counts as deaf once, however many causes overlap, and forgetting only ever adds
//! deaf time. The record is bounded; when it is full, the two neighbours with the shortest listening between
//! them become one period, so a member can gain credit by it and never lose any.
//!
//! Beats that other servers missed, or heard and lost, are kept apart ([`Cause::Replica`]): this server
//! listened, so the excuse has a bound, which [`super::deadline()`] sets.

use jiff::{SignedDuration, Timestamp};

use crate::names::names;

names! {
    /// Why the server could not hear, from the least to the most disturbing for its members.
    pub enum Cause {
        /// The process stood still.
        Pause = "pause",
        /// The database could not be written, so beats could not be stored.
        Database = "database",
        /// Another server stopped with beats that it may not have stored, or refused beats.
        Replica = "replica",
        /// The listener did not accept connections.
        Listener = "listener",
        /// The wall clock and the steady clock disagreed: a clock was set, or the host slept.
        ClockJump = "clock_jump",
        /// The server was not running, or not ready yet.
        StartUp = "start_up",
    }
}

/// How many periods a record holds before neighbours are merged.
pub const LIMIT: usize = 64;

/// A tick may be this much late and the process still counts as running: connections made meanwhile wait
/// in the kernel and are not lost.
pub const LATE: SignedDuration = SignedDuration::from_secs(2);

/// Wall and steady time may drift apart by this much between two ticks.
pub const DRIFT: SignedDuration = SignedDuration::from_secs(5);

/// A stretch of time in which the server was deaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Period {
    /// Why; of several causes that ran into each other, the most disturbing one.
    pub cause: Cause,
    /// Its beginning.
    pub from: Timestamp,
    /// Its end.
    pub to: Timestamp,
}

impl Period {
    /// How long it lasted.
    #[must_use]
    pub fn length(&self) -> SignedDuration {
        overlap(self, Timestamp::MIN, Timestamp::MAX)
    }

    fn touches(&self, other: &Self) -> bool {
        self.from <= other.to && other.from <= self.to
    }
}

/// When the server was deaf, and whether it is deaf now.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Listening {
    /// Ended periods: in order, never touching each other, at most [`LIMIT`].
    over: Vec<Period>,
    /// Open periods, each cause at most once.
    open: Vec<(Cause, Timestamp)>,
    /// Periods that other servers missed, kept like those that are over.
    elsewhere: Vec<Elsewhere>,
}

/// Time that other servers did not hear in, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Elsewhere {
    period: Period,
    /// The longest of these times.
    longest: SignedDuration,
}

impl Listening {
    /// The record of a server that starts: deaf since it was last known to listen, or since ever.
    #[must_use]
    pub fn starting(last_listened: Option<Timestamp>) -> Self {
        let open = vec![(Cause::StartUp, last_listened.unwrap_or(Timestamp::MIN))];
        Self { open, ..Self::default() }
    }

    /// The server turns deaf. A cause that is open already keeps its beginning.
    pub fn begin(&mut self, cause: Cause, at: Timestamp) {
        if !self.open.iter().any(|(open, _)| *open == cause) {
            self.open.push((cause, at));
        }
    }

    /// A cause is over. The server listens again once none is open.
    pub fn end(&mut self, cause: Cause, at: Timestamp) {
        if let Some(index) = self.open.iter().position(|(open, _)| *open == cause) {
            let (_, from) = self.open.swap_remove(index);
            self.record(Period { cause, from, to: at });
        }
    }

    /// Writes down a period that is over, in any order. A single instant is one too: a beat may have
    /// fallen on it.
    pub fn record(&mut self, period: Period) {
        if period.to < period.from {
            return;
        }
        if period.cause == Cause::Replica {
            insert(&mut self.elsewhere, Elsewhere { period, longest: period.length() });
        } else {
            insert(&mut self.over, period);
        }
    }

    /// Why the server is deaf at this moment; nothing while it listens.
    #[must_use]
    pub fn deaf_now(&self) -> Option<Cause> {
        self.open.iter().map(|(cause, _)| *cause).max()
    }

    /// The periods that are over, oldest first.
    #[must_use]
    pub fn periods(&self) -> &[Period] {
        &self.over
    }

    /// Periods that other servers missed, oldest first.
    pub fn elsewhere(&self) -> impl DoubleEndedIterator<Item = &Period> {
        self.elsewhere.iter().map(|elsewhere| &elsewhere.period)
    }

    /// How much of the time between two instants this or another server was deaf.
    #[must_use]
    pub fn deaf_between(&self, from: Timestamp, to: Timestamp) -> SignedDuration {
        ended_after(&self.elsewhere, from)
            .map(|Elsewhere { period, .. }| {
                let (from, to) = (period.from.max(from), period.to.min(to));
                let length = to.duration_since(from).max(SignedDuration::ZERO);
                length.saturating_sub(self.deaf_here(from, to))
            })
            .fold(self.deaf_here(from, to), SignedDuration::saturating_add)
    }

    /// How much of the time between two instants this server was deaf.
    #[must_use]
    pub fn deaf_here(&self, from: Timestamp, to: Timestamp) -> SignedDuration {
        let open = self.open.iter().map(|(_, since)| *since).min().unwrap_or(Timestamp::MAX);
        let still = to.duration_since(open.max(from)).max(SignedDuration::ZERO);
        ended_after(&self.over, from)
            .map(|period| overlap(period, from, to.min(open)))
            .fold(still, SignedDuration::saturating_add)
    }

    /// The periods in which this server was deaf that reached past an instant, newest first; what is open counts as
    /// ending `now`.
    pub fn since(&self, at: Timestamp, now: Timestamp) -> impl Iterator<Item = Period> {
        let open = self.open.iter().map(move |&(cause, from)| Period { cause, from, to: now });
        open.chain(ended_after(&self.over, at).copied())
    }

    /// The periods of other servers that reached past an instant, newest first, each with the longest time of one of
    /// them in it.
    pub fn elsewhere_since(&self, at: Timestamp) -> impl Iterator<Item = (Period, SignedDuration)> {
        ended_after(&self.elsewhere, at).map(|Elsewhere { period, longest }| (*period, *longest))
    }
}

/// An entry of a record.
trait Stretch: Copy {
    fn period(&self) -> &Period;

    fn joined(&self, other: &Self) -> Self;
}

impl Stretch for Period {
    fn period(&self) -> &Period {
        self
    }

    fn joined(&self, other: &Self) -> Self {
        Self {
            cause: self.cause.max(other.cause),
            from: self.from.min(other.from),
            to: self.to.max(other.to),
        }
    }
}

impl Stretch for Elsewhere {
    fn period(&self) -> &Period {
        &self.period
    }

    fn joined(&self, other: &Self) -> Self {
        Self { period: self.period.joined(&other.period), longest: self.longest.max(other.longest) }
    }
}

fn insert<T: Stretch>(record: &mut Vec<T>, new: T) {
    let mut whole = new;
    record.retain(|old| {
        let apart = !old.period().touches(whole.period());
        if !apart {
            whole = whole.joined(old);
        }
        apart
    });
    record.insert(record.partition_point(|old| old.period().from < whole.period().from), whole);
    if record.len() > LIMIT {
        merge_closest(record);
    }
}

fn merge_closest<T: Stretch>(record: &mut Vec<T>) {
    let gap = |pair: &[T]| pair[1].period().from.duration_since(pair[0].period().to);
    let closest = record.windows(2).enumerate().min_by_key(|(_, pair)| gap(pair));
    if let Some((index, pair)) = closest {
        record[index] = pair[0].joined(&pair[1]);
        record.remove(index + 1);
    }
}

/// Searches from the end, because members beat recently, so that few entries are read.
fn ended_after<T: Stretch>(record: &[T], at: Timestamp) -> impl Iterator<Item = &T> {
    record.iter().rev().take_while(move |stretch| stretch.period().to > at)
}

/// Returns the pause that a late tick reveals.
///
/// The whole time since the tick before counts: when within it the process stood still is not known. It has
/// to be recorded before members are judged at this tick.
#[must_use]
pub fn pause(before: Timestamp, now: Timestamp, expected: SignedDuration) -> Option<Period> {
    let late = now.duration_since(before).saturating_sub(expected);
    (late > LATE).then_some(Period { cause: Cause::Pause, from: before, to: now })
}

/// How far the wall clock moved against the steady clock between two ticks, if that is a jump.
#[must_use]
pub fn clock_jump(wall: SignedDuration, steady: SignedDuration) -> Option<SignedDuration> {
    let jump = wall.saturating_sub(steady);
    (jump > DRIFT || jump < SignedDuration::ZERO.saturating_sub(DRIFT)).then_some(jump)
}

fn overlap(period: &Period, from: Timestamp, to: Timestamp) -> SignedDuration {
    period.to.min(to).duration_since(period.from.max(from)).max(SignedDuration::ZERO)
}

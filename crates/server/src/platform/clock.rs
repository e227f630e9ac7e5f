//! The one place that reads a clock.
//!
//! There are two axes. The wall clock is for people and for stored times; it may jump. The steady axis is for
//! judging silence: it starts at the wall time of the start and then only follows the monotonic clock.

use std::{
    path::PathBuf,
    sync::{
        OnceLock,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock;

impl Clock {
    /// A point on an axis that does not jump.
    #[expect(clippy::disallowed_methods, reason = "this is the clock module")]
    #[must_use]
    pub fn instant(self) -> Instant {
        Instant::now()
    }

    /// The time now, UTC.
    #[expect(clippy::disallowed_methods, reason = "this is the clock module")]
    #[must_use]
    pub fn now(self) -> Timestamp {
        Timestamp::now()
    }
}

/// A server's clock: both axes, and for tests a hand to turn them.
#[derive(Debug, Clone, Copy)]
pub struct Timepiece {
    started: Timestamp,
    began: Instant,
    hand: Option<&'static Hand>,
}

impl Default for Timepiece {
    fn default() -> Self {
        Self { started: Clock.now(), began: Clock.instant(), hand: None }
    }
}

impl Timepiece {
    /// A clock that tests turn.
    #[must_use]
    pub fn turned_by(hand: &'static Hand) -> Self {
        Self { hand: Some(hand), ..Self::default() }
    }

    /// A point on the machine's own axis that does not jump, for measuring work.
    #[must_use]
    pub fn instant(self) -> Instant {
        Clock.instant()
    }

    /// The wall time, UTC.
    #[must_use]
    pub fn now(self) -> Timestamp {
        let shift = self.hand.map_or(0, |hand| hand.wall.load(Relaxed));
        moved(Clock.now(), SignedDuration::from_millis(shift))
    }

    /// The time on the axis that does not jump.
    #[must_use]
    pub fn steady(self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.elapsed()).unwrap_or(SignedDuration::MAX);
        moved(self.started, elapsed)
    }

    /// The same in milliseconds, for arrays of a million members.
    #[must_use]
    pub fn steady_millis(self) -> i64 {
        let elapsed = i64::try_from(self.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.started.as_millisecond().saturating_add(elapsed)
    }

    /// The wall time of an instant of the steady axis.
    #[must_use]
    pub fn wall_of(self, steady: Timestamp) -> Timestamp {
        moved(self.now(), steady.duration_since(self.steady()))
    }

    fn elapsed(self) -> Duration {
        let shift = self.hand.map_or(0, |hand| hand.steady.load(Relaxed));
        let elapsed = Clock.instant().saturating_duration_since(self.began);
        elapsed.saturating_add(Duration::from_millis(u64::try_from(shift).unwrap_or(0)))
    }
}

/// A point on both clocks: while a machine sleeps, one of them stands still.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// Microseconds of the machine's own axis since the clock was started.
    elapsed: i64,
    /// Microseconds of the wall clock.
    wall: i64,
}

impl Timepiece {
    pub(crate) fn moment(self) -> Moment {
        let elapsed = Clock.instant().saturating_duration_since(self.began).as_micros();
        Moment { elapsed: i64::try_from(elapsed).unwrap_or(i64::MAX), wall: self.now().as_microsecond() }
    }
}

impl Moment {
    pub(crate) fn time(self) -> Timestamp {
        Timestamp::from_microsecond(self.wall).unwrap_or(Timestamp::MAX)
    }

    /// Whether less than `longest` has passed since `earlier`, on both clocks.
    pub(crate) fn is_within(self, longest: Duration, earlier: Self) -> bool {
        let longest = i64::try_from(longest.as_micros()).unwrap_or(i64::MAX);
        self.elapsed.saturating_sub(earlier.elapsed) < longest
            && self.wall.saturating_sub(earlier.wall).saturating_abs() < longest
    }

    /// Whether this is before `other`, on the axis that does not jump.
    pub(crate) fn is_before(self, other: Self) -> bool {
        self.elapsed < other.elapsed
    }

    /// Returns how long ago `earlier` was, on the axis that does not jump.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        let micros = self.elapsed.saturating_sub(earlier.elapsed);
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }
}

/// Turns a server's clock, in tests only: by how many milliseconds each axis is ahead of the machine's.
#[derive(Debug, Default)]
pub struct Hand {
    wall: AtomicI64,
    steady: AtomicI64,
    file: OnceLock<PathBuf>,
}

impl Hand {
    /// A hand that lives as long as the process.
    #[must_use]
    pub fn forever() -> &'static Self {
        Box::leak(Box::default())
    }

    /// A hand that a file moves: two numbers, by how many milliseconds the wall clock and the steady axis are
    /// ahead. It is read once and then at every `Hand::follow`.
    #[must_use]
    pub fn of_file(path: PathBuf) -> &'static Self {
        let hand = Self::forever();
        hand.file.get_or_init(|| path);
        hand.follow();
        hand
    }

    /// Sets the wall clock so much ahead, or behind.
    pub fn set_wall(&self, ahead: SignedDuration) {
        self.wall.store(i64::try_from(ahead.as_millis()).unwrap_or(0), Relaxed);
    }

    /// Lets time pass on both axes.
    pub fn pass(&self, time: SignedDuration) {
        let millis = i64::try_from(time.as_millis()).unwrap_or(0);
        self.wall.fetch_add(millis, Relaxed);
        self.steady.fetch_add(millis, Relaxed);
    }

    fn follow(&self) {
        let Some(text) = self.file.get().and_then(|path| std::fs::read_to_string(path).ok()) else { return };
        let mut numbers = text.split_whitespace().map(str::parse::<i64>);
        if let (Some(Ok(wall)), Some(Ok(steady))) = (numbers.next(), numbers.next()) {
            self.wall.store(wall, Relaxed);
            self.steady.store(steady, Relaxed);
        }
    }
}

impl Timepiece {
    /// Reads the file of a test that turns this clock, if one does.
    pub fn follow(self) {
        if let Some(hand) = self.hand {
            hand.follow();
        }
    }
}

fn moved(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(if by.is_negative() { Timestamp::MIN } else { Timestamp::MAX })
}

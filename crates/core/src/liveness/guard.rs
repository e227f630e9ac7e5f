//! Guard: when most of a zone falls silent together, doubt ourselves first, but not for ever.
//!
//! | phase     | when                                                        | next      |
//! |-----------|-------------------------------------------------------------|-----------|
//! | watching  | a member is due, of at least 10 more than half are silent   | holding   |
//! | watching  | the same, and one is due for longer than the bound already  | releasing |
//! | holding   | no more than half are silent                                | watching  |
//! | holding   | the bound has passed                                        | releasing |
//! | releasing | no member is due and no more than half are silent           | watching  |
//!
//! Watching lets every due member go stale, holding none, releasing so many a second. Silent are those past
//! what a member that is well needs, so the guard closes before the first of them goes stale; those
//! that went stale within the last window count as silent too.
//!
//! What must stay true: one incident from the first held member to the last released one; and no member is
//! held for longer than the bound past its own deadline, whatever its neighbours do. From then on it
//! waits at most for those due before it: the callers release the longest due first.

use std::num::NonZeroU32;

use jiff::{SignedDuration, Timestamp};

use super::{Deadline, Standing, later, rate::Rate, window::Recent};
use crate::names::names;

/// When to hold silent members, and how fast to release them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A zone with fewer members is never held.
    pub members: u32,
    /// How long a member may be held.
    pub hold: SignedDuration,
    /// How many members go stale in a second after a hold.
    pub rate: NonZeroU32,
    /// The longest window in which silence counts as together: one member that announces an interval of
    /// days must not add up a week of single losses.
    pub window: SignedDuration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            members: 10,
            hold: SignedDuration::from_mins(10),
            rate: NonZeroU32::MIN.saturating_add(1_999),
            window: SignedDuration::from_hours(1),
        }
    }
}

/// The counts of a sweep for a zone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Facts {
    /// Members that are judged: all that beat and are not stale yet. One that cannot be made stale does not
    /// belong here: it would use up the bound for its neighbours.
    pub watched: u32,
    /// Of these, those whose standing is late or due.
    pub silent: u32,
    /// Of these, those whose standing is due.
    pub due: u32,
    /// The earliest deadline among the due.
    pub oldest: Option<Timestamp>,
    /// The longest interval in force, which is the window.
    pub longest: SignedDuration,
}

impl Facts {
    /// Counts a member that is judged; `window` is its interval, or its allowance when it never had one.
    pub fn count(&mut self, deadline: &Deadline, window: SignedDuration, now: Timestamp) {
        let standing = deadline.standing(now);
        let silent = u32::from(standing != Standing::Heard);
        let due = u32::from(standing == Standing::Due);
        let oldest = (standing == Standing::Due).then_some(deadline.due);
        *self = self.and(Self { watched: 1, silent, due, oldest, longest: window });
    }

    /// The facts of two groups of members as one group.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            watched: self.watched.saturating_add(other.watched),
            silent: self.silent.saturating_add(other.silent),
            due: self.due.saturating_add(other.due),
            oldest: self.oldest.into_iter().chain(other.oldest).min(),
            longest: self.longest.max(other.longest),
        }
    }
}

names! {
    /// The phase of a guard.
    pub enum Phase {
        /// Members go stale as they fall due.
        Watching = "watching",
        /// Too many fell silent together: they are suspected, none goes stale.
        Holding = "holding",
        /// They did not come back: they go stale at a limited rate.
        Releasing = "releasing",
    }
}

/// How many due members may go stale now, the longest due first. The lesser is the stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    /// So many.
    AtMost(u32),
    /// All that are due.
    All,
}

impl Release {
    /// How many of so many due members that is.
    #[must_use]
    pub fn of(self, due: u32) -> u32 {
        match self {
            Self::AtMost(most) => most.min(due),
            Self::All => due,
        }
    }

    /// The counts after some members were released.
    #[must_use]
    pub fn less(self, released: u32) -> Self {
        match self {
            Self::AtMost(most) => Self::AtMost(most.saturating_sub(released)),
            Self::All => Self::All,
        }
    }
}

/// The guard of one zone, or of the fleet as a whole; stored between sweeps.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Guard {
    pub(super) phase: Phase,
    pub(super) since: Timestamp,
    pub(super) facts: Facts,
    pub(super) incident: bool,
    /// Members that went stale since it last began to hold or release.
    pub(super) gone: u32,
    recent: Recent,
    rate: Rate,
}

impl Default for Guard {
    fn default() -> Self {
        Self {
            phase: Phase::Watching,
            since: Timestamp::MIN,
            facts: Facts::default(),
            incident: false,
            gone: 0,
            recent: Recent::default(),
            rate: Rate::from(Timestamp::MIN),
        }
    }
}

impl Guard {
    /// The present phase.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Since when it does that.
    #[must_use]
    pub fn since(&self) -> Timestamp {
        self.since
    }

    /// The last counts.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Whether its next ruling would be that of a new guard, so that it need not be stored.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Watching && !self.incident && self.recent.is_empty()
    }

    /// Takes the facts that a sweep counted and returns how many members may go stale. Must not be called
    /// while the server is deaf: then no member counts as silent.
    pub fn rule(&mut self, facts: Facts, limits: &Limits, now: Timestamp) -> Release {
        self.facts = facts;
        self.recent.forget(later(now, SignedDuration::ZERO.saturating_sub(self.window(limits))));
        let next = self.next(limits, now);
        if next != self.phase {
            if self.phase == Phase::Watching {
                self.gone = 0;
            }
            (self.phase, self.since, self.rate) = (next, now, Rate::from(now));
        }
        match self.phase {
            Phase::Watching => Release::All,
            Phase::Holding => Release::AtMost(0),
            Phase::Releasing => Release::AtMost(self.rate.room(limits.rate, now)),
        }
    }

    /// Takes in how many of the due were released after the ruling.
    pub fn released(&mut self, count: u32, limits: &Limits, now: Timestamp) {
        match self.phase {
            Phase::Watching => self.recent.add(count, self.facts.watched, now, self.window(limits)),
            Phase::Holding => {}
            Phase::Releasing => {
                self.gone = self.gone.saturating_add(count);
                self.rate.spend(count, limits.rate);
            }
        }
    }

    fn next(&self, limits: &Limits, now: Timestamp) -> Phase {
        let Facts { due, oldest, .. } = self.facts;
        let over = |since: Timestamp| now >= later(since, limits.hold);
        let waited = over(oldest.unwrap_or(now));
        match self.phase {
            Phase::Watching if due == 0 || self.members() < limits.members || !self.is_dark() => {
                Phase::Watching
            }
            // Members that another guard held before have waited enough.
            Phase::Watching if waited => Phase::Releasing,
            Phase::Watching => Phase::Holding,
            Phase::Holding if !self.is_dark() => Phase::Watching,
            Phase::Holding if waited || over(self.since) => Phase::Releasing,
            Phase::Holding => Phase::Holding,
            // While most are silent the episode goes on, though the next deadline may be far off.
            Phase::Releasing if due == 0 && !self.is_dark() => Phase::Watching,
            Phase::Releasing => Phase::Releasing,
        }
    }

    /// Whether more than half are silent, those included that went stale within the window.
    fn is_dark(&self) -> bool {
        let Facts { watched, silent, due, .. } = self.facts;
        let silent = silent.max(due).saturating_add(self.recent.gone(watched));
        u64::from(silent) * 2 > u64::from(self.members())
    }

    fn members(&self) -> u32 {
        self.recent.members(self.facts.watched)
    }

    fn window(&self, limits: &Limits) -> SignedDuration {
        self.facts.longest.min(limits.window)
    }
}

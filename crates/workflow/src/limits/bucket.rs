//! Rates, and the buckets that are counted by them.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::line::Waiter;

/// How often something may be called.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Calls per second in the long run.
    pub per_second: f64,
    /// Calls that may come at once.
    pub burst: u32,
}

impl Rate {
    /// Returns the share of each of so many servers. A server may always do one thing at once.
    pub(super) fn shared(self, servers: u32) -> Self {
        Self { per_second: self.per_second / f64::from(servers), burst: (self.burst / servers).max(1) }
    }

    /// How many calls there may be within a time.
    pub(super) fn within(self, time: Duration) -> usize {
        usize::try_from(time.as_nanos() / self.interval().as_nanos().max(1)).unwrap_or(usize::MAX)
    }

    pub(super) fn interval(self) -> Duration {
        Duration::try_from_secs_f64(self.per_second.recip()).unwrap_or(Duration::ZERO)
    }

    /// How far ahead of its rate a bucket may be.
    pub(super) fn tolerance(self) -> Duration {
        self.interval().saturating_mul(self.burst.saturating_sub(1))
    }
}

#[derive(Debug)]
pub(super) struct Bucket {
    /// When it is full again, if no caller takes a turn until then.
    pub(super) full: Instant,
    /// The rate that it is counted by.
    rate: Option<Rate>,
    /// Callers that wait in a task, in the order they came.
    pub(super) door: Arc<tokio::sync::Mutex<()>>,
    /// Callers that were told to ask again, in the order they first came.
    pub(super) line: VecDeque<Waiter>,
    /// How many have come.
    pub(super) came: u64,
}

/// A turn at a bucket, which can be given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Turn {
    /// Its caller's place in the order of all callers that came.
    pub(super) came: u64,
}

impl Bucket {
    pub(super) fn new(now: Instant) -> Self {
        Self { full: now, rate: None, door: Arc::default(), line: VecDeque::new(), came: 0 }
    }

    /// Counts by this rate from now on. Earlier turns count as calls, not as time, so after a rate is raised
    /// every wait gets shorter.
    pub(super) fn keep_to(&mut self, rate: Rate, now: Instant) {
        let before = self.rate.replace(rate).filter(|before| *before != rate);
        let owed = self.full.saturating_duration_since(now);
        if let Some(before) = before {
            let scale = (before.per_second / rate.per_second).clamp(0.0, 1e6);
            self.full = now + owed.mul_f64(scale);
        }
    }

    /// Returns how long a caller with so many others before it has to wait.
    pub(super) fn wait(&self, rate: Rate, before: usize, now: Instant) -> Duration {
        let ahead = rate.interval().saturating_mul(u32::try_from(before).unwrap_or(u32::MAX));
        let turn = (self.full.max(now) + ahead).checked_sub(rate.tolerance()).unwrap_or(now);
        turn.saturating_duration_since(now)
    }

    pub(super) fn take(&mut self, rate: Rate, now: Instant) {
        self.full = self.full.max(now) + rate.interval();
    }
}

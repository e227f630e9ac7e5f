//! Rate: a number per second, independent of the period of the sweeps.

use std::num::NonZeroU32;

use jiff::{SignedDuration, Timestamp};

use super::later;

/// How much a late sweep may make up for at once.
const CATCH_UP: SignedDuration = SignedDuration::from_secs(10);

/// Nanoseconds.
const SECOND: i128 = 1_000_000_000;

/// Up to when the rate has been used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Rate(Timestamp);

impl Rate {
    pub(super) fn from(now: Timestamp) -> Self {
        Self(now)
    }

    /// How many there is room for.
    pub(super) fn room(&mut self, rate: NonZeroU32, now: Timestamp) -> u32 {
        self.0 = self.0.max(later(now, SignedDuration::ZERO.saturating_sub(CATCH_UP)));
        let saved = now.duration_since(self.0).max(SignedDuration::ZERO).as_nanos();
        u32::try_from(saved * i128::from(rate.get()) / SECOND).unwrap_or(u32::MAX)
    }

    /// Uses the time that so many take, rounded up.
    pub(super) fn spend(&mut self, count: u32, rate: NonZeroU32) {
        let rate = i128::from(rate.get());
        let time = (i128::from(count) * SECOND + rate - 1) / rate;
        self.0 = later(self.0, SignedDuration::from_nanos_i128(time));
    }
}

//! A circuit breaker: after so many failures in a row, the other side is not asked for a while, or until a person has
//! looked.

use jiff::{SignedDuration, Timestamp};

use crate::backoff::Backoff;

/// When a breaker opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Failures in a row that open it.
    pub failures: u32,
    /// How long it stays open, doubling with every further failure; nothing when only [`Breaker::reset`] closes it.
    pub rest: Option<Backoff>,
}

/// The counted failures of the other side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Breaker {
    failures: u32,
    until: Option<Timestamp>,
}

/// Whether the other side may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// It may.
    Closed,
    /// Not for this long.
    OpenFor(SignedDuration),
    /// Not before [`Breaker::reset`].
    Open,
}

impl Breaker {
    /// Returns a breaker that has counted so many failures.
    #[must_use]
    pub const fn with(failures: u32) -> Self {
        Self { failures, until: None }
    }

    /// Returns the failures in a row.
    #[must_use]
    pub const fn failures(self) -> u32 {
        self.failures
    }

    /// Returns whether the other side may be called now.
    #[must_use]
    pub fn gate(self, policy: Policy, now: Timestamp) -> Gate {
        if self.failures < policy.failures {
            return Gate::Closed;
        }
        match (policy.rest, self.until) {
            (None, _) => Gate::Open,
            (Some(_), Some(until)) if now < until => Gate::OpenFor(until.duration_since(now)),
            (Some(_), _) => Gate::Closed,
        }
    }

    /// Counts a failure.
    pub fn fail(&mut self, policy: Policy, now: Timestamp) {
        self.failures = self.failures.saturating_add(1);
        let beyond = self.failures.checked_sub(policy.failures);
        self.until = policy.rest.zip(beyond).map(|(rest, beyond)| {
            now.checked_add(rest.after(beyond.saturating_add(1))).unwrap_or(Timestamp::MAX)
        });
    }

    /// Takes back a failure that was counted before the call, and turned out to be none.
    pub fn take_back(&mut self) {
        self.failures = self.failures.saturating_sub(1);
        self.until = None;
    }

    /// Closes it and forgets every failure.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: SignedDuration = SignedDuration::from_secs(2);
    const LONGEST: SignedDuration = SignedDuration::from_secs(30);

    /// What happens to a breaker: `f` a failure, `t` one taken back, `r` a reset; then whether it may be asked.
    fn check(rest: Option<Backoff>, course: &str, expected: Gate) {
        let (policy, now) = (Policy { failures: 3, rest }, Timestamp::UNIX_EPOCH);
        let mut breaker = Breaker::default();
        for step in course.chars() {
            match step {
                'f' => breaker.fail(policy, now),
                't' => breaker.take_back(),
                _ => breaker.reset(),
            }
        }
        assert_eq!(breaker.gate(policy, now), expected, "{course}");
        if let Gate::OpenFor(rest) = expected {
            let almost = SignedDuration::from_millis(1);
            assert_eq!(breaker.gate(policy, now + rest - almost), Gate::OpenFor(almost), "{course}");
            assert_eq!(breaker.gate(policy, now + rest), Gate::Closed, "{course}");
        }
    }

    #[test]
    fn failures_in_a_row_open_it_for_longer_and_longer() {
        let rest = Some(Backoff { first: FIRST, longest: LONGEST });
        check(rest, "", Gate::Closed);
        check(rest, "ff", Gate::Closed);
        check(rest, "fff", Gate::OpenFor(FIRST));
        check(rest, "ffff", Gate::OpenFor(FIRST * 2));
        check(rest, "ffffffffffffffffffff", Gate::OpenFor(LONGEST));
        check(rest, "fffr", Gate::Closed);
        check(rest, "ffrff", Gate::Closed);
        check(rest, "ffft", Gate::Closed);
    }

    #[test]
    fn without_a_rest_only_a_reset_closes_it() {
        check(None, "ff", Gate::Closed);
        check(None, "fff", Gate::Open);
        check(None, "ffft", Gate::Closed);
        check(None, "fffft", Gate::Open);
        check(None, "ffffr", Gate::Closed);
        check(None, "t", Gate::Closed);
        let later = Breaker::with(3).gate(Policy { failures: 3, rest: None }, Timestamp::MAX);
        assert_eq!(later, Gate::Open);
    }
}

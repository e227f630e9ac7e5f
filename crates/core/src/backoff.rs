//! Back-off: how long to wait before the next attempt, after a count of failures that is stored or held elsewhere.

use jiff::SignedDuration;

/// A wait that doubles with every failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failure.
    pub first: SignedDuration,
    /// The longest wait.
    pub longest: SignedDuration,
}

impl Backoff {
    /// Returns the wait after so many failures in a row, without jitter.
    #[must_use]
    pub fn after(self, failures: u32) -> SignedDuration {
        let doublings = failures.saturating_sub(1).min(20);
        self.first.checked_mul(1 << doublings).map_or(self.longest, |wait| wait.min(self.longest))
    }

    /// Returns between half of that wait and all of it, as `jitter` is between 0 and 1: attempts that failed together do
    /// not come back together.
    #[must_use]
    pub fn spread(self, failures: u32, jitter: f64) -> SignedDuration {
        let whole = self.after(failures);
        let wait = whole.as_secs_f64() * (0.5 + jitter.clamp(0.0, 1.0) / 2.0);
        SignedDuration::try_from_secs_f64(wait).unwrap_or(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(failures: u32, whole: i64) {
        let backoff = Backoff { first: SignedDuration::from_secs(1), longest: SignedDuration::from_secs(10) };
        let millis = |jitter| backoff.spread(failures, jitter).as_millis();
        assert_eq!(backoff.after(failures).as_secs(), whole, "after {failures}");
        let expected = [0.5, 0.75, 1.0].map(|part| i128::from(whole) * (1000.0 * part) as i128);
        assert_eq!([millis(0.0), millis(0.5), millis(1.0)], expected, "after {failures}");
        assert_eq!(millis(7.0), millis(1.0));
    }

    #[test]
    fn waits_double_up_to_a_bound_and_are_spread() {
        for (failures, whole) in [(0, 1), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (u32::MAX, 10)] {
            check(failures, whole);
        }
    }
}

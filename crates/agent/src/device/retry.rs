//! When a request is repeated, and which answers end the agent.

use std::time::Duration;

use jiff::SignedDuration;
use wardroom_api::client::Error;
use wardroom_core::backoff::Backoff;

use super::random;

const BACKOFF: Backoff =
    Backoff { first: SignedDuration::from_secs(2), longest: SignedDuration::from_mins(5) };

/// Counts failures in a row.
#[derive(Debug, Default)]
pub(crate) struct Retry {
    failures: u32,
}

impl Retry {
    /// Returns the pause after one more failure: anything up to a bound that doubles, so that a fleet that lost its server
    /// does not come back at once.
    pub(crate) fn pause(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let most = Duration::try_from(BACKOFF.after(self.failures)).unwrap_or_default();
        most.mul_f64(random()).max(Duration::from_millis(100))
    }
}

/// Returns whether the server refuses this device, so that a retry is useless until a person acts.
pub(crate) fn is_final(error: &Error) -> bool {
    matches!(error, Error::Problem(problem) if matches!(problem.status, 401 | 403 | 404))
        || matches!(error, Error::Setup(_))
}

/// Returns whether a retry of the same message is useless.
pub(crate) fn is_unreadable(error: &Error) -> bool {
    matches!(error, Error::Problem(problem) if matches!(problem.status, 400 | 409 | 413 | 422))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_spread_below_a_bound_that_doubles() {
        for _ in 0..100 {
            let mut retry = Retry::default();
            for most in [2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
                assert!(retry.pause() <= Duration::from_secs(most));
            }
        }
    }
}

//! The one place that reads a clock.

use std::time::Instant;

use jiff::Timestamp;

/// The server's clock.
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

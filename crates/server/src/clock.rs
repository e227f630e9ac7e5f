//! The one place that reads a clock.

use jiff::Timestamp;

/// The server's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock;

impl Clock {
    /// The time now, UTC.
    #[expect(clippy::disallowed_methods, reason = "this is the clock module")]
    #[must_use]
    pub fn now(self) -> Timestamp {
        Timestamp::now()
    }
}

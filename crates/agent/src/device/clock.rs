//! The one place where the agent reads the time of day.

use jiff::Timestamp;

/// Returns the time of day.
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

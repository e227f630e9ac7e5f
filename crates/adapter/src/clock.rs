//! The clock of the adapter: the only place that reads the time.

use jiff::Timestamp;

/// Returns the current time.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

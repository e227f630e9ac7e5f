//! The clock of adapters, which put a time into their reports.

use jiff::Timestamp;

/// Returns the time by the clock of this machine.
#[expect(clippy::disallowed_methods, reason = "adapters have clocks of their own")]
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}

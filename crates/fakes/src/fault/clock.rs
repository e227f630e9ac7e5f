//! The only code of these fakes that reads a clock; tests may set it forward.

use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};

#[derive(Debug, Default)]
pub(crate) struct Clock {
    ahead: AtomicI64,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock module")]
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::now() + SignedDuration::from_secs(self.ahead.load(Ordering::Relaxed))
    }

    pub(crate) fn advance(&self, seconds: i64) {
        self.ahead.fetch_add(seconds, Ordering::Relaxed);
    }
}

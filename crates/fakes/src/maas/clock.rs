//! The only code of this fake that reads the time.

use std::time::Instant;

use jiff::Timestamp;

/// A moment, on the wall and on an axis that does not jump.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) wall: Timestamp,
    pub(super) instant: Instant,
}

#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(super) fn now() -> Now {
    Now { wall: Timestamp::now(), instant: Instant::now() }
}

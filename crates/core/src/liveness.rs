//! Liveness: which members are silent, and whether the cause lies with them or with the server.
//!
//! A derivation for every kind that beats: facts and `now` go in, a ruling comes out, nothing is read from
//! a clock. The time axis is our receive time on an axis that does not jump (steady inside a process, the
//! database's time across processes), never a member's clock. All arithmetic saturates.
//!
//! ```text
//! interval    how often a member beats                  said, given ─▶ in force
//! listening   when the server was deaf                  begin, end, pause, clock_jump
//! deadline    until when a member may be silent         heard, policy, listening ─▶ late, due
//! guard       whether most of a zone fell silent        facts ─▶ watching, holding, releasing
//! fleet       every zone's guard and that of the whole  facts by zone ─▶ release, incidents
//! why         all of it in a sentence
//! ```

pub mod deadline;
pub mod fleet;
pub mod guard;
pub mod interval;
pub mod listening;
mod rate;
pub mod why;
mod window;

pub use deadline::{Deadline, Heard, Policy, Standing, deadline, missed_beats};
pub use fleet::{Change, Fleet, Incident, Ruling, Zone};
pub use guard::{Facts, Guard, Limits, Phase, Release};
pub use interval::{Interval, adopt, in_force};
use jiff::{SignedDuration, Timestamp};
pub use listening::{Cause, Listening, Period, clock_jump, pause};
pub use why::{Held, Silence};

/// An instant so much later; the end of time instead of an overflow.
fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(if by.is_negative() { Timestamp::MIN } else { Timestamp::MAX })
}

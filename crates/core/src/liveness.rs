//! Liveness: who is silent, and whether that says something about them or about us.
//!
//! A derivation for every kind that beats: facts and `now` go in, a ruling comes out, nothing is read from
//! a clock. The time axis is our receive time on an axis that does not jump (steady inside a process, the
//! database's time across processes), never a member's clock. All arithmetic saturates.
//!
//! ```text
//! interval    how often a member beats                  said, given ─▶ in force
//! listening   when the server was deaf                  begin, end, pause, clock_jump
//! ```

pub mod interval;
pub mod listening;

pub use interval::{Interval, adopt, in_force};
pub use listening::{Cause, Listening, Period, clock_jump, pause};

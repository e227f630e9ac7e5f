//! The five lifecycles of Wardroom, as tables and derivations.
//!
//! Everything here is pure: inputs and the time go in, decisions come out. Nothing reads a clock, waits, or
//! knows that a database exists, so every pair of states and every rule can be tested exhaustively.
//!
//! There are only two shapes. A **table** ([`table`]) moves a stored state by events, a row per legal move:
//! [`satellite`], [`node`], [`gpu_node`], [`run`], [`device::update`]. A **derivation** computes a status from facts and the
//! time: [`device`], [`cluster`], [`liveness`]. [`lifecycles`] gives the tables as data, [`diagram`] draws them, [`why`]
//! explains any resource from them, and [`action`] is what a person can ask of one.

pub mod action;
pub mod attention;
pub mod backoff;
pub mod breaker;
pub mod cluster;
pub mod device;
pub mod diagram;
pub mod gpu_node;
mod invalid;
pub mod lifecycles;
pub mod liveness;
mod names;
pub mod node;
pub mod run;
pub mod satellite;
pub mod table;
pub mod tone;
pub mod why;

pub use invalid::Invalid;
pub use names::{Named, UnknownName};

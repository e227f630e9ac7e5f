//! The Wardroom server: the kinds and the platform they plug into, put together.
//!
//! Data goes one way: a handler reads a resource, lets `core` decide, and commits one change through the
//! store; on a conflict it decides again. Handlers hold the store and the clock and nothing else, so they
//! cannot call an upstream even by mistake.

pub mod kinds;
pub mod maintenance;
pub mod platform;
pub mod serve;

pub use kinds::KINDS;

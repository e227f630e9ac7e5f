//! The kinds of members: a room each, and a row by which each plugs into the platform.

use crate::platform::kind::Kind;

pub mod gpu_node;
pub mod node;
pub mod satellite;

/// The kinds that are served.
pub static KINDS: &[&Kind] = &[&node::row::ROW, &gpu_node::row::ROW, &satellite::row::ROW];

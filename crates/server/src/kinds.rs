//! The kinds of members: a folder and a row for each.

use crate::platform::kind::Kind;

pub mod cluster;
pub mod device;
pub mod gpu_node;
pub mod node;
pub mod satellite;

/// The kinds that are served.
pub static KINDS: &[&Kind] = &[
    &node::row::ROW,
    &gpu_node::row::ROW,
    &satellite::row::ROW,
    &cluster::row::ROW,
    &device::row::ROW,
    &device::fleet::row::ROW,
];

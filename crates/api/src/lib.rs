//! The wire types of Wardroom's HTTP API, and a client that speaks them.
//!
//! Requests of people are strict: an unknown field is refused, so that a typing error is not ignored.
//! Requests of agents are tolerant: a newer agent may send fields that this server does not know.

pub mod action;
pub mod adapter;
pub mod attention;
pub mod bulk;
pub mod client;
pub mod cluster;
pub mod device;
pub mod envelope;
pub mod found;
pub mod gpu_node;
pub mod group;
pub mod history;
pub mod liveness;
pub mod node;
pub mod problem;
pub mod reconcile;
pub mod run;
pub mod satellite;
pub mod satellite_config;
pub mod satellite_group;
pub mod site;
pub mod token;
pub mod words;
pub mod workflow;

pub use envelope::{Envelope, Page};
pub use problem::{FieldError, MissingResource, Problem};

/// Deserialises a field that may be absent, null or a value, and keeps the three apart.
///
/// Absent leaves a thing as it is, null clears it.
pub(crate) fn present<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::Deserialize<'de>,
{
    serde::Deserialize::deserialize(deserializer).map(Some)
}

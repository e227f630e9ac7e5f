//! Registries: the images that carry the state of satellites, pushing them, and pulling the images of others.
//!
//! [`artifact`] and [`state`] are pure and need no network: a server that serves the same images itself uses only these.

pub mod artifact;
#[cfg(feature = "registry")]
mod auth;
#[cfg(feature = "registry")]
mod client;
#[cfg(feature = "registry")]
pub mod pull;
pub mod state;

#[cfg(feature = "registry")]
pub use client::{Credentials, Deleted, Options, Registry, Uploaded};

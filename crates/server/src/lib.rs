//! The Wardroom server: HTTP API, background jobs and wiring.
//!
//! Data goes one way: a handler reads a resource, lets `core` decide, and commits one change through the
//! store; on a conflict it decides again. Handlers hold the store and the clock and nothing else, so they
//! cannot call an upstream even by mistake.

pub mod access;
pub mod app;
mod artifact;
mod assignment;
mod auth;
#[cfg(test)]
mod bare;
mod body;
mod bonds;
mod boot;
mod bulk;
pub mod clock;
pub mod config;
mod discovery;
mod effects;
pub mod error;
mod etag;
mod events;
mod first_token;
mod gpu_node;
mod group;
mod health;
mod history;
mod idempotency;
mod install_token;
mod installs;
mod jobs;
mod lifecycle;
mod limit;
mod list;
mod listen;
pub mod liveness;
pub mod maintenance;
mod metrics;
mod named;
mod node;
mod path;
mod problems;
mod promote;
mod reference;
mod registry;
mod report;
mod request;
pub mod router;
mod run;
mod satellite;
mod satellite_config;
mod satellite_group;
mod seal;
pub mod secret;
pub mod serve;
mod site;
mod spiffe;
mod summary;
#[cfg(test)]
mod testing;
mod text;
mod token;
mod vocabulary;
mod why;
mod wire;
mod workflow;

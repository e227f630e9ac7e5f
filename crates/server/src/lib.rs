//! The Wardroom server: HTTP API, background jobs and wiring.
//!
//! Data goes one way: a handler reads a resource, lets `core` decide, and commits one change through the
//! store; on a conflict it decides again. Handlers hold the store and the clock and nothing else, so they
//! cannot call an upstream even by mistake.

pub mod access;
pub mod app;
mod auth;
mod body;
mod bonds;
mod boot;
mod bulk;
pub mod clock;
pub mod config;
mod discovery;
pub mod error;
mod etag;
mod events;
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
mod node;
mod path;
mod problems;
mod promote;
mod report;
mod request;
pub mod router;
mod satellite;
pub mod secret;
pub mod serve;
mod summary;
mod text;
mod token;
mod vocabulary;
mod why;
mod workflow;

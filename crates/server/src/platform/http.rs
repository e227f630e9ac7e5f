//! What every route shares: listeners, layers, bodies, errors, lists, limits.

pub mod access;
pub(crate) mod body;
mod document;
pub mod error;
pub(crate) mod etag;
pub(crate) mod health;
pub(crate) mod host;
pub(crate) mod idempotency;
pub(crate) mod limit;
pub(crate) mod list;
pub(crate) mod listen;
pub(crate) mod metrics;
pub(crate) mod path;
pub(crate) mod problems;
pub(crate) mod request;
pub mod router;
pub(crate) mod text;
pub mod vocabulary;
pub(crate) mod warning;
mod wire;

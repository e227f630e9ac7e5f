//! What every kind plugs into: HTTP, identity, changes, the feed, liveness, work in the background, configuration.

pub mod app;
#[cfg(test)]
pub(crate) mod bare;
pub(crate) mod bulk;
pub(crate) mod change;
pub mod clock;
pub mod config;
pub mod console;
pub(crate) mod deleted;
pub(crate) mod feed;
pub mod http;
pub(crate) mod id;
pub mod identity;
pub mod kind;
pub mod liveness;
pub mod log;
pub(crate) mod network;
pub(crate) mod observed;
pub mod parts;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod work;

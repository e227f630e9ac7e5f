//! One file per command.

pub(crate) mod apply;
pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod cluster;
pub(crate) mod completion;
pub(crate) mod config;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod describe;
pub(crate) mod device;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod get;
pub(crate) mod gpu_node;
pub(crate) mod history;
pub(crate) mod lifecycles;
pub(crate) mod liveness;
pub(crate) mod node;
pub(crate) mod restore;
pub(crate) mod run;
pub(crate) mod satellite;
pub(crate) mod serve;
pub(crate) mod summary;
pub(crate) mod token;
pub(crate) mod wait;
pub(crate) mod why;

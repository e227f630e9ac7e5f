//! Reads, decides, commits: how every resource is changed.

pub(crate) mod changing;
pub(crate) mod named;
pub(crate) mod preconditions;

//! Work in the background.

pub(crate) mod jobs;
pub(crate) mod schedule;

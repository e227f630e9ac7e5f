//! Device: an edge machine whose statuses are derived from what its agent last reported.

pub mod hook;
pub mod update;

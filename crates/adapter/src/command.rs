//! The commands: one file for each.

pub(crate) mod check;

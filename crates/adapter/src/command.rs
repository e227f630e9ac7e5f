//! The commands: one file for each.

pub(crate) mod check;
pub(crate) mod dry_run;
pub(crate) mod run;

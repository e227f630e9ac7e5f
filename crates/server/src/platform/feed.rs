//! History, events, counts and explanations over all kinds.

pub(crate) mod attention;
pub(crate) mod events;
pub(crate) mod find;
pub(crate) mod follow;
pub(crate) mod history;
pub(crate) mod lifecycle;
pub(crate) mod reconcile;
pub(crate) mod summary;
pub(crate) mod why;

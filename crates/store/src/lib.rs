//! Durable state, history and feed of Wardroom, on SQLite and PostgreSQL alike.
//!
//! The store knows resources, not what a node is: a caller reads a resource, lets `core` decide, and commits
//! one [`Change`]; on [`Error::Conflict`] it reads and decides again.
//!
//! What must stay true:
//! - A commit is one transaction: version check, exactly one history row, effects, labels, fields and keys.
//!   It is answered after the database has made it durable.
//! - A read that starts after an acknowledged commit sees it.
//! - History is only ever appended to, and every row seals the one before it.
//! - Readers of the feed see every change, in one order, without gaps.
//! - No clock is read: times come from callers, the time of leases from the database.

mod attempts;
mod backup;
mod beside;
mod change;
mod checkpoint;
mod condition;
pub mod cursor;
mod denied;
mod document;
mod due;
mod effects;
mod error;
mod feed;
mod guards;
mod hash;
mod history;
mod idempotency;
mod lease;
mod listener;
mod liveness;
mod location;
mod migrate;
mod observation;
mod postgres;
mod prepared;
mod query;
mod resource;
mod restore;
mod session;
mod sql;
mod sqlite;
mod store;
mod value;
mod verify;

pub use attempts::{ATTEMPTS, attempts, unless_conflict};
pub use backup::backup;
pub use beside::Beside;
pub use change::{Change, Committed, Effect, Fence, Held, Use};
pub use checkpoint::{Checkpoint, SealKey, checkpoints};
pub use condition::{Condition, Outcome};
pub use denied::Denied;
pub use document::Document;
pub use effects::{ClaimedEffect, EffectProgress, OpenEffects, PendingEffect};
pub use error::{Error, Result, Wait};
pub use feed::{Cursor, FeedItem, HeldBack};
pub use history::{Entry, HistoryRow, TRANSITION};
pub use idempotency::{Answer, Claim, IdempotencyKey, Mark, Marker};
pub use lease::Lease;
pub use listener::{CommitListener, PendingCommit};
pub use liveness::{Ages, Beat, BeatAt, Beats, Moment, Refused, Replica, Seen};
pub use location::Location;
pub use observation::Observation;
pub use query::{List, Page, Requirement, Selector, Window, Windowed};
pub use resource::{Content, Resource};
pub use restore::restore;
pub use store::{Rows, StateCount, Store};
pub use verify::{CheckpointFault, Fault, Report, RowFault, verify};

/// Tests of this crate share their databases with those in `tests/`, which know it by its name.
#[cfg(test)]
extern crate self as wardroom_store;
#[cfg(test)]
#[path = "../tests/suite/database.rs"]
mod database;
#[cfg(test)]
mod plans;

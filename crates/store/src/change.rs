//! One change of one resource: what is committed together or not at all.
//!
//! Everything a commit writes is computed without a database (`prepared.rs`): the version check guarantees that the
//! head the caller read is still the head, so the new hash is known before the transaction starts.

use crate::error::{Error, Result};
use crate::history::{Entry, HistoryRow};
use crate::liveness::BeatAt;
use crate::resource::{Content, Resource};

/// A change that a caller decided on.
#[derive(Clone, Debug)]
pub struct Change {
    /// The resource exactly as it was read, or nothing if it must not exist yet.
    pub before: Option<Resource>,
    /// The resource after the change.
    pub after: Content,
    /// The actor and the reason: becomes exactly one history row.
    pub entry: Entry,
    /// Work that follows from it, for workers.
    pub effects: Vec<Effect>,
    /// The lease this was decided under, if any: the commit fails once another holder has it.
    pub fence: Option<Fence>,
    /// Other resources that the decision read: the commit is a conflict if one of them has changed.
    pub holds: Vec<Held>,
}

/// Another resource that must still be at this version when a change commits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// Its kind.
    pub kind: String,
    /// Its id.
    pub id: String,
    /// Its version; 0 when it must never have existed.
    pub version: i64,
}

impl Held {
    /// Holds a resource as it was read.
    #[must_use]
    pub fn at(resource: &Resource) -> Self {
        let (kind, id) = (resource.content.kind.clone(), resource.content.id.clone());
        Self { kind, id, version: resource.version }
    }
}

/// A reference by which living resources use another one: its id in a filterable field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The kind of the users.
    pub kind: String,
    /// The field.
    pub field: String,
    /// The value of the field.
    pub value: String,
}

/// Work that a change asks for, performed at least once by a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// What to do.
    pub effect_type: String,
    /// The input of the work.
    pub payload: serde_json::Value,
}

/// A lease and its epoch, and further preconditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The name of the lease.
    pub lease: String,
    /// The epoch its holder was given.
    pub epoch: i64,
    /// The last beat of the resource that the change is based on: the commit is a conflict if the table has
    /// another one. PostgreSQL only.
    pub beat: Option<BeatAt>,
}

impl Fence {
    /// Adds the last beat of the resource that the change was decided on.
    #[must_use]
    pub fn on_beat(self, beat: Option<BeatAt>) -> Self {
        Self { beat, ..self }
    }
}

/// What a commit wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct Committed {
    /// The resource after the change.
    pub resource: Resource,
    /// The history row of the change.
    pub row: HistoryRow,
}

pub(crate) fn check(before: Option<&Resource>, after: &Content, entry: &Entry, holds: &[Held]) -> Result<()> {
    if let Some(before) = before
        && (before.content.kind != after.kind || before.content.id != after.id)
    {
        return Err(Error::Invalid { field: "id", reason: "a change cannot move to another resource" });
    }
    if after.kind.is_empty() || after.id.is_empty() {
        return Err(Error::Invalid { field: "id", reason: "a resource needs a kind and an id" });
    }
    let texts = [
        ("kind", Some(&after.kind)),
        ("id", Some(&after.id)),
        ("name", Some(&after.name)),
        ("state", Some(&after.state)),
        ("type", Some(&entry.entry_type)),
        ("triggered_by", Some(&entry.triggered_by)),
        ("user_id", entry.user_id.as_ref()),
        ("comment", entry.comment.as_ref()),
        ("request_id", entry.request_id.as_ref()),
    ];
    let labels =
        after.labels.iter().flat_map(|(key, value)| [("labels", Some(key)), ("labels", Some(value))]);
    let fields =
        after.fields.iter().flat_map(|(key, value)| [("fields", Some(key)), ("fields", Some(value))]);
    let keys = after.keys.iter().map(|key| ("keys", Some(key)));
    let held = holds.iter().flat_map(|held| [("id", Some(&held.kind)), ("id", Some(&held.id))]);
    for (field, text) in texts.into_iter().chain(labels).chain(fields).chain(keys).chain(held) {
        refuse_nul(field, text.map_or("", String::as_str))?;
        if text.is_some_and(|text| INDEXED.contains(&field) && text.len() > INDEXED_BYTES) {
            return Err(Error::Invalid { field, reason: "is too long to be indexed" });
        }
    }
    Ok(())
}

/// Indexed fields. PostgreSQL limits the size of an index entry, so both databases refuse longer texts.
const INDEXED: [&str; 7] = ["kind", "id", "name", "state", "labels", "fields", "keys"];
const INDEXED_BYTES: usize = 512;

/// PostgreSQL cannot keep NUL in text, so neither database does.
pub(crate) fn refuse_nul(field: &'static str, text: &str) -> Result<()> {
    if text.contains('\0') { Err(Error::Invalid { field, reason: "contains NUL" }) } else { Ok(()) }
}

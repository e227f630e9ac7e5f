//! One change of one resource: what is committed together or not at all.
//!
//! Everything a commit writes is computed without a database (`prepared.rs`): the version check guarantees that the
//! head the caller read is still the head, so the new hash is known before the transaction starts.

use crate::error::{Error, Result};
use crate::history::{Entry, HistoryRow};
use crate::liveness::BeatAt;
use crate::resource::{Content, Resource};

/// What a caller decided.
#[derive(Clone, Debug)]
pub struct Change {
    /// The resource exactly as it was read, or nothing if it must not exist yet.
    pub before: Option<Resource>,
    /// What it shall be.
    pub after: Content,
    /// The actor and the reason: becomes exactly one history row.
    pub entry: Entry,
    /// What workers shall do because of it.
    pub effects: Vec<Effect>,
    /// The lease this was decided under, if any: the commit fails once another holder has it.
    pub fence: Option<Fence>,
    /// Other resources that this was decided on: the commit is a conflict once one of them was changed.
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

/// A way in which living resources may use another one: by naming it in a filterable field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The kind of the users.
    pub kind: String,
    /// The field.
    pub field: String,
    /// What it says.
    pub value: String,
}

/// Work that a change asks for, performed at least once by a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// What to do.
    pub effect_type: String,
    /// With what.
    pub payload: serde_json::Value,
}

/// A lease and the epoch in which it was held, and what else may not have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The name of the lease.
    pub lease: String,
    /// The epoch its holder was given.
    pub epoch: i64,
    /// The last beat of the resource, for a change that is right only without another one: the commit is a conflict once
    /// the table has another. PostgreSQL only.
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

/// What indexes hold. An index entry has an upper size on PostgreSQL, so both databases refuse longer texts.
const INDEXED: [&str; 7] = ["kind", "id", "name", "state", "labels", "fields", "keys"];
const INDEXED_BYTES: usize = 512;

/// PostgreSQL cannot keep NUL in text, so neither database does.
pub(crate) fn refuse_nul(field: &'static str, text: &str) -> Result<()> {
    if text.contains('\0') { Err(Error::Invalid { field, reason: "contains NUL" }) } else { Ok(()) }
}

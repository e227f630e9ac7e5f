//! One change of one resource: what is committed together or not at all.
//!
//! Everything a commit writes is computed here, without a database: the version check guarantees that the
//! head the caller read is still the head, so the new hash is known before the transaction starts.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::history::{Entry, GENESIS, HistoryRow, RawRow};
use crate::idempotency::Mark;
use crate::resource::{Content, Resource};
use crate::value::{Value, json_text, to_micros};

/// What a caller decided.
#[derive(Clone, Debug)]
pub struct Change {
    /// The resource exactly as it was read, or nothing if it must not exist yet.
    pub before: Option<Resource>,
    /// What it shall be.
    pub after: Content,
    /// Why, and by whom: becomes exactly one history row.
    pub entry: Entry,
    /// What workers shall do because of it.
    pub effects: Vec<Effect>,
    /// The lease this was decided under, if any: the commit fails once somebody else holds it.
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

/// A lease and the epoch in which it was held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The name of the lease.
    pub lease: String,
    /// The epoch its holder was given.
    pub epoch: i64,
}

/// What a commit wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct Committed {
    /// The resource after the change.
    pub resource: Resource,
    /// The history row of the change.
    pub row: HistoryRow,
}

/// A change worked out down to its columns.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) committed: Committed,
    pub(crate) row: RawRow,
    /// The columns of the resource.
    pub(crate) resource: Vec<Value>,
    /// The head that was read; nothing for an insert. The version that was read is one below the new one.
    pub(crate) expected_head: Option<String>,
    /// Type and payload of each effect.
    pub(crate) effects: Vec<(String, String)>,
    pub(crate) terms: Difference<(String, String)>,
    pub(crate) keys: Difference<String>,
    pub(crate) fence: Option<Fence>,
    pub(crate) holds: Vec<Held>,
    /// Nobody may use it so.
    pub(crate) unused: Vec<Use>,
    /// The request that is carried out with it.
    pub(crate) mark: Option<Mark>,
}

/// What a set gains and loses.
#[derive(Clone, Debug)]
pub(crate) struct Difference<T> {
    pub(crate) added: Vec<T>,
    pub(crate) removed: Vec<T>,
}

impl<T: Ord + Clone> Difference<T> {
    fn new(before: &BTreeSet<T>, after: &BTreeSet<T>) -> Self {
        Self {
            added: after.difference(before).cloned().collect(),
            removed: before.difference(after).cloned().collect(),
        }
    }
}

impl<T> Difference<T> {
    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}

impl Prepared {
    /// Whether this touches nothing but an existing resource and its history.
    pub(crate) fn is_plain_move(&self) -> bool {
        let alone = self.effects.is_empty() && self.terms.is_empty() && self.keys.is_empty();
        let unbound = self.fence.is_none() && self.holds.is_empty() && self.mark.is_none();
        alone && unbound && self.expected_head.is_some()
    }
}

impl Change {
    pub(crate) fn prepare(self) -> Result<Prepared> {
        let Self { before, mut after, mut entry, effects, fence, holds } = self;
        entry.at = to_micros(entry.at);
        after.due_at = after.due_at.map(to_micros);
        check(before.as_ref(), &after, &entry)?;
        holds
            .iter()
            .try_for_each(|held| refuse_nul("id", &held.kind).and_then(|()| refuse_nul("id", &held.id)))?;

        let mut row = HistoryRow {
            kind: after.kind.clone(),
            resource_id: after.id.clone(),
            sequence: before.as_ref().map_or(1, |before| before.version + 1),
            from_state: before.as_ref().map(|before| before.content.state.clone()),
            to_state: after.state.clone(),
            entry,
            hash: String::new(),
        };
        let raw = RawRow::seal(&row, before.as_ref().map_or(GENESIS, |before| &before.head))?;
        row.hash.clone_from(&raw.hash);

        let (old_terms, old_keys) = before
            .as_ref()
            .map_or_else(Default::default, |before| (before.content.terms(), before.content.held_keys()));
        let terms = Difference::new(&old_terms, &after.terms());
        let keys = Difference::new(&old_keys, &after.held_keys());
        let effects = effects.into_iter().map(|effect| Ok((effect.effect_type, json_text(&effect.payload)?)));
        let effects = effects.collect::<Result<Vec<_>>>()?;
        let expected_head = before.as_ref().map(|before| before.head.clone());
        let committed = Committed { resource: resulting(before, after, &row), row };
        let resource = committed.resource.params()?;
        let row = raw;
        let (unused, mark) = (Vec::new(), None);
        Ok(Prepared {
            committed,
            row,
            resource,
            expected_head,
            effects,
            terms,
            keys,
            fence,
            holds,
            unused,
            mark,
        })
    }
}

fn resulting(before: Option<Resource>, after: Content, row: &HistoryRow) -> Resource {
    let now = row.entry.at;
    let (created_at, state_changed_at) = match before {
        Some(before) if before.content.state == after.state => (before.created_at, before.state_changed_at),
        Some(before) => (before.created_at, now),
        None => (now, now),
    };
    let head = row.hash.clone();
    Resource { content: after, version: row.sequence, head, created_at, updated_at: now, state_changed_at }
}

fn check(before: Option<&Resource>, after: &Content, entry: &Entry) -> Result<()> {
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
    for (field, text) in texts.into_iter().chain(labels).chain(fields).chain(keys) {
        refuse_nul(field, text.map_or("", String::as_str))?;
        if text.is_some_and(|text| INDEXED.contains(&field) && text.len() > INDEXED_BYTES) {
            return Err(Error::Invalid { field, reason: "is too long to be indexed" });
        }
    }
    Ok(())
}

/// What indexes hold. An index entry has an upper size on PostgreSQL, so both databases refuse longer texts.
const INDEXED: [&str; 6] = ["kind", "id", "state", "labels", "fields", "keys"];
const INDEXED_BYTES: usize = 512;

/// PostgreSQL cannot keep NUL in text, so neither database does.
pub(crate) fn refuse_nul(field: &'static str, text: &str) -> Result<()> {
    if text.contains('\0') { Err(Error::Invalid { field, reason: "contains NUL" }) } else { Ok(()) }
}

//! A change computed down to its columns, before any database sees it.
//!
//! Values exist once: a commit returns the values that it binds, so nothing is copied.

use std::collections::BTreeSet;

use crate::change::{Change, Committed, Fence, Held, Use, check};
use crate::error::Result;
use crate::history::{GENESIS, HistoryRow, Sealed};
use crate::idempotency::Mark;
use crate::resource::{Content, Resource};
use crate::value::{Param, json_text, time_text, to_micros};

#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) committed: Committed,
    /// The computed columns.
    made: Made,
    /// The head that was read; none for an insert. The version that was read is one below the new one.
    pub(crate) expected_head: Option<String>,
    /// Type and payload of each effect.
    pub(crate) effects: Vec<(String, String)>,
    pub(crate) terms: Difference<(String, String)>,
    pub(crate) keys: Difference<String>,
    pub(crate) fence: Option<Fence>,
    pub(crate) holds: Vec<Held>,
    /// Uses that must not exist when it commits.
    pub(crate) unused: Vec<Use>,
    /// The request that it completes.
    pub(crate) mark: Option<Mark>,
}

#[derive(Debug)]
struct Made {
    /// The time of the change: of the resource and of the history row alike.
    at: String,
    state_changed_at: String,
    metadata: Option<String>,
    /// Whether all index entries except the due time stay as they are.
    keeps_names: bool,
    /// Columns that most changes leave as they are.
    rest: Option<Rest>,
}

#[derive(Debug)]
struct Rest {
    labels: String,
    fields: String,
    keys: String,
    created_at: String,
    due_at: Option<String>,
}

/// Additions to and removals from a set.
#[derive(Debug, Default)]
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

impl Change {
    pub(crate) fn prepare(self) -> Result<Prepared> {
        let Self { before, mut after, mut entry, effects, fence, holds } = self;
        entry.at = to_micros(entry.at);
        after.due_at = after.due_at.map(to_micros);
        check(before.as_ref(), &after, &entry, &holds)?;

        let row = HistoryRow {
            kind: after.kind.clone(),
            resource_id: after.id.clone(),
            sequence: before.as_ref().map_or(1, |before| before.version + 1),
            from_state: before.as_ref().map(|before| before.content.state.clone()),
            to_state: after.state.clone(),
            entry,
            hash: String::new(),
        };
        let metadata = &row.entry.metadata;
        let metadata = if metadata.is_null() { None } else { Some(json_text(metadata)?) };
        let at = time_text(row.entry.at);
        let previous = before.as_ref().map_or(GENESIS, |before| &before.head);
        let hash = Sealed::of(&row, metadata.as_deref(), &at).hash(previous);
        let row = HistoryRow { hash, ..row };

        let keeps_names = before.as_ref().is_some_and(|before| same_names(&before.content, &after));
        // A due time moves without a new version, so the one that was read may be outdated.
        let is_dated = |content: &Content| content.due_at.is_some();
        let is_same =
            keeps_names && !is_dated(&after) && !before.as_ref().is_some_and(|it| is_dated(&it.content));
        let (terms, keys) = match &before {
            _ if keeps_names => Default::default(),
            Some(before) => differences(&before.content, &after),
            None => (
                Difference::new(&BTreeSet::new(), &after.terms()),
                Difference::new(&BTreeSet::new(), &after.held_keys()),
            ),
        };
        let effects = effects.into_iter().map(|effect| Ok((effect.effect_type, json_text(&effect.payload)?)));
        let effects = effects.collect::<Result<Vec<_>>>()?;
        let (resource, expected_head) = resulting(before, after, &row);
        let state_changed_at = if resource.state_changed_at == row.entry.at {
            at.clone()
        } else {
            time_text(resource.state_changed_at)
        };
        let rest = if is_same { None } else { Some(Rest::of(&resource)?) };
        let made = Made { at, state_changed_at, metadata, keeps_names, rest };
        let committed = Committed { resource, row };
        let (unused, mark) = (Vec::new(), None);
        Ok(Prepared { committed, made, expected_head, effects, terms, keys, fence, holds, unused, mark })
    }
}

/// Whether a change keeps all index entries.
fn same_names(before: &Content, after: &Content) -> bool {
    before.name == after.name
        && before.deleted == after.deleted
        && before.labels == after.labels
        && before.fields == after.fields
        && before.keys == after.keys
}

fn differences(before: &Content, after: &Content) -> (Difference<(String, String)>, Difference<String>) {
    let terms = Difference::new(&before.terms(), &after.terms());
    (terms, Difference::new(&before.held_keys(), &after.held_keys()))
}

/// The resource after the change, and the head it had before.
fn resulting(before: Option<Resource>, after: Content, row: &HistoryRow) -> (Resource, Option<String>) {
    let now = row.entry.at;
    let (created_at, state_changed_at, expected_head) = match before {
        Some(before) if before.content.state == after.state => {
            (before.created_at, before.state_changed_at, Some(before.head))
        }
        Some(before) => (before.created_at, now, Some(before.head)),
        None => (now, now, None),
    };
    let (head, version) = (row.hash.clone(), row.sequence);
    let resource = Resource { content: after, version, head, created_at, updated_at: now, state_changed_at };
    (resource, expected_head)
}

impl Rest {
    fn of(resource: &Resource) -> Result<Self> {
        let content = &resource.content;
        Ok(Self {
            labels: json_text(&content.labels)?,
            fields: json_text(&content.fields)?,
            keys: json_text(&content.keys)?,
            created_at: time_text(resource.created_at),
            due_at: content.due_at.map(time_text),
        })
    }
}

impl Prepared {
    /// Whether it keeps all index entries of the resource.
    pub(crate) fn is_same_but_state(&self) -> bool {
        self.made.rest.is_none()
    }

    /// Whether it writes only the state, document and due time of a resource, and its history, and depends on
    /// no other row except a lease.
    pub(crate) fn is_move(&self) -> bool {
        let alone = self.holds.is_empty() && self.mark.is_none() && self.unused.is_empty();
        self.expected_head.is_some() && self.made.keeps_names && self.effects.is_empty() && alone
    }

    /// Whether it also keeps the due time, and has no lease.
    pub(crate) fn is_plain_move(&self) -> bool {
        self.is_move() && self.is_same_but_state() && self.fence.is_none()
    }

    /// The beat that it is based on, by the database's clock.
    pub(crate) fn beat(&self) -> Option<i64> {
        self.fence.as_ref().and_then(|fence| fence.beat).map(|beat| beat.0)
    }

    /// Whether it sets the due time, and the due time.
    pub(crate) fn due(&self) -> (bool, Param<'_>) {
        let rest = self.made.rest.as_ref();
        (rest.is_some(), Param::from(rest.and_then(|rest| rest.due_at.as_deref())))
    }

    /// Whether it may fail after something was written.
    pub(crate) fn may_fail_late(&self) -> bool {
        !self.keys.added.is_empty()
    }

    /// The columns that `resource_columns!` lists; nothing where [`Self::is_same_but_state`] leaves them alone.
    pub(crate) fn resource(&self) -> [Param<'_>; 15] {
        let Resource { content, version, head, .. } = &self.committed.resource;
        let rest = self.made.rest.as_ref();
        let of_rest = |column: fn(&Rest) -> &String| Param::from(rest.map(|rest| column(rest).as_str()));
        [
            Param::Text(&content.kind),
            Param::Text(&content.id),
            Param::Text(&content.name),
            Param::Int(*version),
            Param::Text(head),
            Param::Text(&content.state),
            Param::Text(content.document.as_str()),
            of_rest(|rest| &rest.labels),
            of_rest(|rest| &rest.fields),
            of_rest(|rest| &rest.keys),
            Param::Int(content.deleted.into()),
            of_rest(|rest| &rest.created_at),
            Param::Text(&self.made.at),
            Param::Text(&self.made.state_changed_at),
            Param::from(rest.and_then(|rest| rest.due_at.as_deref())),
        ]
    }

    /// The columns of every change: kind, id, version, head, state, document and times.
    pub(crate) fn moved(&self) -> [Param<'_>; 8] {
        let [kind, id, _, version, head, state, document, _, _, _, _, _, updated_at, state_changed_at, _] =
            self.resource();
        [kind, id, version, head, state, document, updated_at, state_changed_at]
    }

    /// Returns the columns that history has beyond the resource: type, state before, actor, comment, request.
    pub(crate) fn entry(&self) -> [Param<'_>; 7] {
        let HistoryRow { from_state, entry, .. } = &self.committed.row;
        [
            Param::Text(&entry.entry_type),
            Param::from(from_state.as_deref()),
            Param::Text(&entry.triggered_by),
            Param::from(entry.user_id.as_deref()),
            Param::from(entry.comment.as_deref()),
            Param::from(self.made.metadata.as_deref()),
            Param::from(entry.request_id.as_deref()),
        ]
    }

    /// The columns that `history_columns!` lists.
    pub(crate) fn history(&self) -> [Param<'_>; 13] {
        let [kind, id, version, head, state, _, at, _] = self.moved();
        let [entry_type, from, by, user, comment, metadata, request] = self.entry();
        [kind, id, version, entry_type, from, state, by, user, comment, metadata, request, at, head]
    }

    pub(crate) fn at(&self) -> Param<'_> {
        Param::Text(&self.made.at)
    }
}

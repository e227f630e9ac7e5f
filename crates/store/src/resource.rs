//! A resource of any kind, as the store keeps it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;

use crate::document::Document;
use crate::error::{Error, Result};
use crate::value::{Row, Texts, parse_json, parse_time};

/// The part of a resource that callers set.
#[derive(Clone, PartialEq)]
pub struct Content {
    /// The kind, such as `node`.
    pub kind: String,
    /// Unique within its kind; a UUIDv7, so that pages in order of ids are pages in order of creation.
    pub id: String,
    /// The name people use.
    pub name: String,
    /// The lifecycle state.
    pub state: String,
    /// The typed document of the kind.
    pub document: Document,
    /// Labels, found by selectors.
    pub labels: BTreeMap<String, String>,
    /// The filterable fields of the kind with their values, found by equality.
    pub fields: BTreeMap<String, String>,
    /// Keys: each belongs to one living resource of the kind.
    pub keys: BTreeSet<String>,
    /// A deleted resource keeps its row and its history, gives up its keys and is in no list.
    pub deleted: bool,
    /// When it is due; none for most kinds.
    pub due_at: Option<Timestamp>,
}

/// The document is omitted, because it may contain secrets.
impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Content");
        out.field("kind", &self.kind).field("id", &self.id).field("name", &self.name);
        out.field("state", &self.state).field("deleted", &self.deleted).finish_non_exhaustive()
    }
}

/// A resource as it was read or committed.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// The part set by callers.
    pub content: Content,
    /// Starts at 1 and grows by one with every change; also the sequence of the newest history row.
    pub version: i64,
    /// The hash of the newest history row.
    pub head: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// When it entered its state.
    pub state_changed_at: Timestamp,
}

impl Content {
    /// The index terms of a living resource: labels and fields, each under its own prefix.
    pub(crate) fn terms(&self) -> BTreeSet<(String, String)> {
        if self.deleted {
            return BTreeSet::new();
        }
        let labels = self.labels.iter().map(|(key, value)| (label_term(key), value.clone()));
        let fields = self.fields.iter().map(|(key, value)| (field_term(key), value.clone()));
        labels.chain(fields).collect()
    }

    /// The keys a living resource holds.
    pub(crate) fn held_keys(&self) -> BTreeSet<String> {
        if self.deleted { BTreeSet::new() } else { self.keys.clone() }
    }
}

pub(crate) fn label_term(key: &str) -> String {
    format!("label/{key}")
}

pub(crate) fn field_term(key: &str) -> String {
    format!("field/{key}")
}

impl Resource {
    /// Reads the same columns by position.
    pub(crate) fn from_columns<'a>(
        text: impl Fn(usize) -> Result<Option<&'a str>>,
        int: impl Fn(usize) -> Result<i64>,
    ) -> Result<Self> {
        let some = |column| text(column)?.ok_or_else(|| Error::Bug("a row lacks a text".to_owned()));
        let owned = |column| some(column).map(str::to_owned);
        let time = |column| parse_time(some(column)?);
        let content = Content {
            kind: owned(0)?,
            id: owned(1)?,
            name: owned(2)?,
            state: owned(5)?,
            document: Document::from_stored(owned(6)?),
            labels: parse_json(some(7)?)?,
            fields: parse_json(some(8)?)?,
            keys: parse_json(some(9)?)?,
            deleted: int(10)? != 0,
            due_at: text(14)?.map(parse_time).transpose()?,
        };
        Ok(Self {
            content,
            version: int(3)?,
            head: owned(4)?,
            created_at: time(11)?,
            updated_at: time(12)?,
            state_changed_at: time(13)?,
        })
    }

    /// Reads the columns that `resource_columns!` lists.
    pub(crate) fn from_row(row: &mut Row) -> Result<Self> {
        let (kind, id, name) = (row.text()?, row.text()?, row.text()?);
        let (version, head, state) = (row.int()?, row.text()?, row.text()?);
        let document = Document::from_stored(row.text()?);
        let (labels, fields): (Texts, Texts) = (row.json()?, row.json()?);
        let keys = row.json()?;
        let deleted = row.int()? != 0;
        let (created_at, updated_at, state_changed_at) = (row.time()?, row.time()?, row.time()?);
        let due_at = row.opt_time()?;
        let content = Content { kind, id, name, state, document, labels, fields, keys, deleted, due_at };
        Ok(Self { content, version, head, created_at, updated_at, state_changed_at })
    }
}

//! The history of a resource: one row per change, each sealed by a hash over itself and the row before.
//!
//! What must stay true: the encoding is unambiguous and the same on both databases, so a row that verifies on
//! one verifies on the other. It never changes; another encoding needs another domain string.

use jiff::Timestamp;

use crate::error::Result;
use crate::hash::Encoder;
use crate::value::{Row, params};

/// The type of rows that record a move from one state to another.
pub const TRANSITION: &str = "transition";

/// The hash before the first row of a resource.
pub(crate) const GENESIS: &str = "";

const DOMAIN: &str = "wardroom/history/1";

/// The caller's part of a history row; states and sequence come from the change itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// `registered`, [`TRANSITION`], `attempt`, `changed`, …
    pub entry_type: String,
    /// `admin`, `system`, `node_report`, …
    pub triggered_by: String,
    /// Always filled for people.
    pub user_id: Option<String>,
    /// The person's comment.
    pub comment: Option<String>,
    /// Details as JSON; `Null` for none.
    pub metadata: serde_json::Value,
    /// The request that caused it.
    pub request_id: Option<String>,
    /// When it was decided; kept with microseconds.
    pub at: Timestamp,
}

/// One committed history row.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryRow {
    /// The kind of the resource.
    pub kind: String,
    /// The id of the resource.
    pub resource_id: String,
    /// 1 for the first row of a resource, then without gaps.
    pub sequence: i64,
    /// The state before, unless the resource is new.
    pub from_state: Option<String>,
    /// The state after.
    pub to_state: String,
    /// The caller's part.
    pub entry: Entry,
    /// Hex SHA-256 over this row and the hash before.
    pub hash: String,
}

impl HistoryRow {
    /// A UUID (version 8) made of the hash: stable, and the same on both databases.
    #[must_use]
    pub fn id(&self) -> String {
        let hex = &self.hash;
        if hex.len() != 64 || !hex.is_ascii() {
            return hex.clone();
        }
        format!("{}-{}-8{}-8{}-{}", &hex[0..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..32])
    }

    /// Reads the columns that `history_columns!` lists.
    pub(crate) fn from_row(row: &mut Row) -> Result<Self> {
        RawRow::from_row(row)?.parse()
    }
}

/// The unparsed columns of a row, which the hash covers.
#[derive(Clone, Debug)]
pub(crate) struct RawRow {
    pub(crate) kind: String,
    pub(crate) resource_id: String,
    pub(crate) sequence: i64,
    pub(crate) entry_type: String,
    pub(crate) from_state: Option<String>,
    pub(crate) to_state: String,
    pub(crate) triggered_by: String,
    pub(crate) user_id: Option<String>,
    pub(crate) comment: Option<String>,
    pub(crate) metadata: Option<String>,
    pub(crate) request_id: Option<String>,
    pub(crate) created_at: String,
    pub(crate) hash: String,
}

/// The content that the hash of a row covers, borrowed.
pub(crate) struct Sealed<'a> {
    kind: &'a str,
    resource_id: &'a str,
    sequence: i64,
    entry_type: &'a str,
    from_state: Option<&'a str>,
    to_state: &'a str,
    triggered_by: &'a str,
    user_id: Option<&'a str>,
    comment: Option<&'a str>,
    metadata: Option<&'a str>,
    request_id: Option<&'a str>,
    created_at: &'a str,
}

impl<'a> Sealed<'a> {
    /// The row of a change, with the texts that its columns get.
    pub(crate) fn of(row: &'a HistoryRow, metadata: Option<&'a str>, created_at: &'a str) -> Self {
        let entry = &row.entry;
        Self {
            kind: &row.kind,
            resource_id: &row.resource_id,
            sequence: row.sequence,
            entry_type: &entry.entry_type,
            from_state: row.from_state.as_deref(),
            to_state: &row.to_state,
            triggered_by: &entry.triggered_by,
            user_id: entry.user_id.as_deref(),
            comment: entry.comment.as_deref(),
            metadata,
            request_id: entry.request_id.as_deref(),
            created_at,
        }
    }

    /// The hash it has after `previous`.
    pub(crate) fn hash(&self, previous: &str) -> String {
        let mut hash = Encoder::new(DOMAIN);
        hash.text(previous);
        hash.text(self.kind);
        hash.text(self.resource_id);
        hash.int(self.sequence);
        hash.text(self.entry_type);
        hash.optional(self.from_state);
        hash.text(self.to_state);
        hash.text(self.triggered_by);
        hash.optional(self.user_id);
        hash.optional(self.comment);
        hash.optional(self.metadata);
        hash.optional(self.request_id);
        hash.text(self.created_at);
        hash.finish()
    }
}

impl RawRow {
    /// The hash this row must have after `previous`.
    pub(crate) fn expected_hash(&self, previous: &str) -> String {
        let sealed = Sealed {
            kind: &self.kind,
            resource_id: &self.resource_id,
            sequence: self.sequence,
            entry_type: &self.entry_type,
            from_state: self.from_state.as_deref(),
            to_state: &self.to_state,
            triggered_by: &self.triggered_by,
            user_id: self.user_id.as_deref(),
            comment: self.comment.as_deref(),
            metadata: self.metadata.as_deref(),
            request_id: self.request_id.as_deref(),
            created_at: &self.created_at,
        };
        sealed.hash(previous)
    }

    pub(crate) fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self {
            kind: row.text()?,
            resource_id: row.text()?,
            sequence: row.int()?,
            entry_type: row.text()?,
            from_state: row.opt_text()?,
            to_state: row.text()?,
            triggered_by: row.text()?,
            user_id: row.opt_text()?,
            comment: row.opt_text()?,
            metadata: row.opt_text()?,
            request_id: row.opt_text()?,
            created_at: row.text()?,
            hash: row.text()?,
        })
    }

    fn parse(self) -> Result<HistoryRow> {
        let mut parsed = Row::new(params![&self.created_at, self.metadata.as_deref().unwrap_or("null")]);
        let entry = Entry {
            entry_type: self.entry_type,
            triggered_by: self.triggered_by,
            user_id: self.user_id,
            comment: self.comment,
            at: parsed.time()?,
            metadata: parsed.json()?,
            request_id: self.request_id,
        };
        let Self { kind, resource_id, sequence, from_state, to_state, hash, .. } = self;
        Ok(HistoryRow { kind, resource_id, sequence, from_state, to_state, entry, hash })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> HistoryRow {
        HistoryRow {
            kind: "node".to_owned(),
            resource_id: "01890000-0000-7000-8000-000000000001".to_owned(),
            sequence: 2,
            from_state: Some("pending".to_owned()),
            to_state: "installing".to_owned(),
            entry: Entry {
                entry_type: TRANSITION.to_owned(),
                triggered_by: "node_report".to_owned(),
                user_id: None,
                comment: Some("ü".to_owned()),
                metadata: serde_json::json!({ "attempt": 1 }),
                request_id: None,
                at: Timestamp::from_second(1_769_000_000).unwrap(),
            },
            hash: String::new(),
        }
    }

    fn sealed(row: &HistoryRow) -> String {
        let metadata = row.entry.metadata.to_string();
        Sealed::of(row, Some(&metadata), &crate::value::time_text(row.entry.at)).hash("before")
    }

    /// Existing rows must verify for ever: this hash never changes.
    #[test]
    fn the_encoding_is_pinned() {
        let hash = sealed(&row());
        assert_eq!(hash, "ac6f05e589c170b1f2e667f19efde56382e3b24401b3788434782644b5e576a2");
        let id = HistoryRow { hash, ..row() }.id();
        assert_eq!(id, "ac6f05e5-89c1-80b1-82e6-67f19efde563");
    }

    /// Neighbouring columns cannot trade characters, and nothing differs from an empty text.
    #[test]
    fn columns_cannot_run_into_each_other() {
        let changed = |change: fn(&mut HistoryRow)| {
            let mut row = row();
            change(&mut row);
            sealed(&row)
        };
        let hashes = [
            changed(|_| {}),
            changed(|row| (row.kind, row.resource_id) = ("nod".to_owned(), format!("e{}", row.resource_id))),
            changed(|row| row.entry.user_id = Some(String::new())),
            changed(|row| (row.entry.user_id, row.entry.comment) = (row.entry.comment.clone(), None)),
            changed(|row| (row.entry.comment, row.entry.request_id) = (None, row.entry.comment.clone())),
            changed(|row| row.sequence = 3),
        ];
        let different = std::collections::BTreeSet::from(hashes.clone());
        assert_eq!(different.len(), hashes.len());
    }
}

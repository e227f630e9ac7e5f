//! The history of a resource: one row per change, each sealed by a hash over itself and the row before.
//!
//! What must stay true: the encoding is unambiguous and the same on both databases, so a row that verifies on one
//! verifies on the other. It never changes; another encoding needs another domain string.

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::error::Result;
use crate::value::{Row, Value, json_text, params, time_text};

/// The type of rows that record a move from one state to another.
pub const TRANSITION: &str = "transition";

/// The hash before the first row of a resource.
pub(crate) const GENESIS: &str = "";

const DOMAIN: &str = "wardroom/history/1";

/// What the caller says about a change; states and sequence come from the change itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// `registered`, [`TRANSITION`], `attempt`, `changed`, …
    pub entry_type: String,
    /// `admin`, `system`, `node_report`, …
    pub triggered_by: String,
    /// Always filled for people.
    pub user_id: Option<String>,
    /// What the person said.
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
    /// What the caller said.
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

    /// Reads the columns of [`crate::sql::HISTORY_COLUMNS`].
    pub(crate) fn from_row(row: &mut Row) -> Result<Self> {
        RawRow::from_row(row)?.parse()
    }
}

/// A row as its columns are: what hashes cover, before anything is parsed.
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

impl RawRow {
    /// The row of a change, sealed.
    pub(crate) fn seal(row: &HistoryRow, previous: &str) -> Result<Self> {
        let entry = &row.entry;
        let metadata = if entry.metadata.is_null() { None } else { Some(json_text(&entry.metadata)?) };
        let mut raw = Self {
            kind: row.kind.clone(),
            resource_id: row.resource_id.clone(),
            sequence: row.sequence,
            entry_type: entry.entry_type.clone(),
            from_state: row.from_state.clone(),
            to_state: row.to_state.clone(),
            triggered_by: entry.triggered_by.clone(),
            user_id: entry.user_id.clone(),
            comment: entry.comment.clone(),
            metadata,
            request_id: entry.request_id.clone(),
            created_at: time_text(entry.at),
            hash: String::new(),
        };
        raw.hash = raw.expected_hash(previous);
        Ok(raw)
    }

    /// The hash this row must have after `previous`.
    pub(crate) fn expected_hash(&self, previous: &str) -> String {
        let mut hash = Encoder::new(DOMAIN);
        hash.text(previous);
        hash.text(&self.kind);
        hash.text(&self.resource_id);
        hash.int(self.sequence);
        hash.text(&self.entry_type);
        hash.optional(self.from_state.as_deref());
        hash.text(&self.to_state);
        hash.text(&self.triggered_by);
        hash.optional(self.user_id.as_deref());
        hash.optional(self.comment.as_deref());
        hash.optional(self.metadata.as_deref());
        hash.optional(self.request_id.as_deref());
        hash.text(&self.created_at);
        hash.finish()
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

    pub(crate) fn params(&self) -> Vec<Value> {
        params![
            &self.kind,
            &self.resource_id,
            self.sequence,
            &self.entry_type,
            self.from_state.as_ref(),
            &self.to_state,
            &self.triggered_by,
            self.user_id.as_ref(),
            self.comment.as_ref(),
            self.metadata.as_ref(),
            self.request_id.as_ref(),
            &self.created_at,
            &self.hash,
        ]
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

/// SHA-256 over parts that cannot run into each other: every text carries its length, every option a mark.
pub(crate) struct Encoder(Sha256);

impl Encoder {
    pub(crate) fn new(domain: &str) -> Self {
        let mut encoder = Self(Sha256::new());
        encoder.text(domain);
        encoder
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.0.update((text.len() as u64).to_be_bytes());
        self.0.update(text);
    }

    pub(crate) fn int(&mut self, value: i64) {
        self.0.update(value.to_be_bytes());
    }

    fn optional(&mut self, text: Option<&str>) {
        self.0.update([u8::from(text.is_some())]);
        if let Some(text) = text {
            self.text(text);
        }
    }

    pub(crate) fn finish(self) -> String {
        hex(&self.0.finalize())
    }
}

/// Lowercase hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing into a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

//! Checkpoints: a signed seal over every history row so far, in feed order.
//!
//! A chain alone cannot tell that its newest rows were cut off together with the head that named them; the
//! seal can, because it covers every row there ever was. What must stay true: a seal continues where the last
//! one ended, so it costs only the new rows; and a signature stays valid after a restore, so it covers the
//! number of rows and not positions in the feed.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::error::{Error, Result};
use crate::hash::{Encoder, hex};
use crate::history::RawRow;
use crate::location::Location;
use crate::session::Session;
use crate::sql;
use crate::store::Store;
use crate::value::{Row, params, time_text, to_micros};

const ROW_DOMAIN: &str = "wardroom/seal/1";
const SIGNED_DOMAIN: &str = "wardroom/checkpoint/1";

/// Rows read at a time while sealing.
const PAGE: i64 = 1000;

/// The key that signs checkpoints; it is kept outside the database.
#[derive(Clone)]
pub struct SealKey(Hmac<Sha256>);

impl SealKey {
    /// At least 32 bytes of randomness.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        let short = || Error::Invalid { field: "seal key", reason: "has fewer than 32 bytes" };
        let mac =
            Some(bytes).filter(|bytes| bytes.len() >= 32).and_then(|bytes| Hmac::new_from_slice(bytes).ok());
        mac.map(Self).ok_or_else(short)
    }

    fn mac(&self, message: &str) -> String {
        hex(&self.0.clone().chain_update(message).finalize().into_bytes())
    }
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey")
    }
}

/// One seal. As JSON it can be kept elsewhere and given to [`crate::verify()`] later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// 1, 2, 3, …
    pub number: i64,
    /// How many rows of the feed are sealed.
    pub row_count: i64,
    /// Hex SHA-256 over all of them.
    pub seal: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// Hex HMAC-SHA-256 over the fields above.
    pub signature: String,
}

impl Checkpoint {
    fn signed(&self) -> String {
        let mut encoder = Encoder::new(SIGNED_DOMAIN);
        encoder.int(self.number);
        encoder.int(self.row_count);
        encoder.text(&self.seal);
        encoder.text(&time_text(self.created_at));
        encoder.finish()
    }

    /// Whether the key signed this checkpoint. The caller has the key, so no constant time is needed.
    pub(crate) fn is_signed_by(&self, key: &SealKey) -> bool {
        self.signature == key.mac(&self.signed())
    }

    /// Reads number, row count, seal, time and signature.
    pub(crate) fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self {
            number: row.int()?,
            row_count: row.int()?,
            seal: row.text()?,
            created_at: row.time()?,
            signature: row.text()?,
        })
    }
}

/// The seal after one more row; the first one starts from an empty text.
pub(crate) fn seal_row(seal: &str, row: &RawRow) -> String {
    let mut encoder = Encoder::new(ROW_DOMAIN);
    encoder.text(seal);
    encoder.text(&row.kind);
    encoder.text(&row.resource_id);
    encoder.int(row.sequence);
    encoder.text(&row.hash);
    encoder.finish()
}

impl Store {
    /// Seals new rows of the feed. Returns none if there are none, or another server was first.
    pub async fn seal(&self, key: &SealKey, at: Timestamp) -> Result<Option<Checkpoint>> {
        let last = self.database.read_one(sql::CHECKPOINT_LAST, params![]).await?;
        let (mut place, last) = match last {
            Some(mut row) => ((row.int()?, row.int()?), Some(Checkpoint::from_row(&mut row)?)),
            None => ((0, 0), None),
        };
        let (number, sealed) = last.as_ref().map_or((1, 0), |last| (last.number + 1, last.row_count));
        let seal = last.map_or_else(String::new, |last| last.seal);
        let created_at = to_micros(at);
        let mut next = Checkpoint { number, row_count: sealed, seal, created_at, signature: String::new() };
        // The end is fixed first, so that servers that keep writing do not prolong it.
        let dialect = self.database.dialect();
        let tail = self.database.read_one(dialect.feed_tail, params![]).await?;
        let end = tail.map_or(Ok((0, 0)), |mut row| Ok::<_, Error>((row.int()?, row.int()?)))?;
        while place < end {
            for mut row in self.database.read(dialect.feed_after, params![place.0, place.1, PAGE]).await? {
                place = (row.int()?, row.int()?);
                next.seal = seal_row(&next.seal, &RawRow::from_row(&mut row)?);
                next.row_count += 1;
            }
        }
        if next.row_count == sealed {
            return Ok(None);
        }
        next.signature = key.mac(&next.signed());
        let Checkpoint { number, row_count, seal, created_at, signature } = &next;
        let params = params![*number, *row_count, place.0, place.1, seal, *created_at, signature];
        let stored = self.database.write(sql::CHECKPOINT_INSERT, params).await?;
        Ok(stored.first().map(|_| next))
    }

    /// The checkpoints above a number, in order.
    pub async fn checkpoints(&self, after: i64, limit: usize) -> Result<Vec<Checkpoint>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self.database.read(sql::CHECKPOINTS_AFTER, params![after, limit]).await?;
        rows.into_iter().map(|mut row| Checkpoint::from_row(&mut row)).collect()
    }
}

/// Every checkpoint of a database, in order; reads beside running servers.
pub async fn checkpoints(location: &Location) -> Result<Vec<Checkpoint>> {
    let session = Session::snapshot(location).await?;
    let mut found: Vec<Checkpoint> = Vec::new();
    loop {
        let after = found.last().map_or(0, |last| last.number);
        let rows = session.run(sql::CHECKPOINTS_AFTER, params![after, PAGE]).await?;
        if rows.is_empty() {
            return Ok(found);
        }
        for mut row in rows {
            found.push(Checkpoint::from_row(&mut row)?);
        }
    }
}

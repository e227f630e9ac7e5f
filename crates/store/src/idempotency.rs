//! Idempotency keys: the same request again gets the same answer, not a second effect.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::change::refuse_nul;
use crate::error::{Error, Result};
use crate::history::HistoryRow;
use crate::sql;
use crate::store::Store;
use crate::value::{Value, json_text, params};

/// A key within the scope of its sender, and the request it was sent with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The owner and route of the key: one caller cannot see another's answers.
    pub scope: String,
    /// The key.
    pub key: String,
    /// The hash of the request.
    pub request_hash: String,
}

/// The result of claiming a key.
#[derive(Clone, PartialEq, Eq)]
pub enum Claim {
    /// It is this caller's: do the work, then answer or release.
    Claimed,
    /// Another request with this key is under way.
    InFlight,
    /// It was done, with this answer.
    Answered(Answer),
    /// It was done, with this change; its answer is missing, or not stored yet.
    Done(Marker),
    /// The key was used for another request.
    OtherRequest,
}

/// The last change of a request, written in its commit: it proves that the request ran, even if the answer is
/// lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// The kind of the resource.
    pub kind: String,
    /// The id of the resource.
    pub id: String,
    /// The sequence of the change.
    pub sequence: i64,
    /// The type of the change, as history has it.
    pub entry_type: String,
}

/// A claimed key that a change carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The key.
    pub key: IdempotencyKey,
    /// How long it is remembered.
    pub until: Timestamp,
}

impl Mark {
    /// The key, the time and the marker of a change.
    pub(crate) fn params(&self, row: &HistoryRow) -> Result<Vec<Value>> {
        let (kind, id) = (row.kind.clone(), row.resource_id.clone());
        let (sequence, entry_type) = (row.sequence, row.entry.entry_type.clone());
        let marker = json_text(&Marker { kind, id, sequence, entry_type })?;
        let mut params = self.key.params();
        params.extend(params![marker, self.until]);
        Ok(params)
    }
}

/// An answer to a request.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body, or other data to repeat the answer.
    pub body: String,
}

/// Answers may show a secret once; they are never printed.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("status", &self.status).finish_non_exhaustive()
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claimed => f.write_str("Claimed"),
            Self::InFlight => f.write_str("InFlight"),
            Self::Done(marker) => f.debug_tuple("Done").field(marker).finish(),
            Self::Answered(answer) => f.debug_tuple("Answered").field(answer).finish(),
            Self::OtherRequest => f.write_str("OtherRequest"),
        }
    }
}

impl IdempotencyKey {
    fn params(&self) -> Vec<Value> {
        params![&self.scope, &self.key, &self.request_hash]
    }
}

impl Store {
    /// Claims a key until a time by which the work must be done or its worker has died.
    pub async fn claim_key(&self, key: &IdempotencyKey, now: Timestamp, until: Timestamp) -> Result<Claim> {
        refuse_nul("idempotency key", &key.key)?;
        refuse_nul("idempotency key", &key.scope)?;
        loop {
            let mut params = key.params();
            params.extend(params![now, until]);
            if !self.database.write(sql::IDEMPOTENCY_CLAIM, params).await?.is_empty() {
                return Ok(Claim::Claimed);
            }
            let found =
                self.database.read_one(sql::IDEMPOTENCY_FIND, params![&key.scope, &key.key, now]).await?;
            // Released in between: try to claim it again.
            let Some(mut row) = found else { continue };
            if row.text()? != key.request_hash {
                return Ok(Claim::OtherRequest);
            }
            return match (row.opt_int()?, row.opt_text()?, row.opt_text()?) {
                (Some(status), Some(body), _) => {
                    Ok(Claim::Answered(Answer { status: status_of(status)?, body }))
                }
                (_, _, Some(marker)) => marker_of(&marker).map(Claim::Done),
                _ => Ok(Claim::InFlight),
            };
        }
    }

    /// Keeps the answer of a claimed key until a time.
    pub async fn answer_key(&self, key: &IdempotencyKey, answer: &Answer, until: Timestamp) -> Result<()> {
        let mut params = key.params();
        params.extend(params![i64::from(answer.status), &answer.body, until]);
        self.database.write(sql::IDEMPOTENCY_ANSWER, params).await.map(drop)
    }

    /// Releases a claim without an answer, so that the request can be retried; not if it has changed
    /// something.
    pub async fn release_key(&self, key: &IdempotencyKey) -> Result<()> {
        self.database.write(sql::IDEMPOTENCY_RELEASE, key.params()).await.map(drop)
    }

    /// Forgets what has expired.
    pub async fn sweep_keys(&self, now: Timestamp) -> Result<usize> {
        Ok(self.database.write(sql::IDEMPOTENCY_SWEEP, params![now]).await?.len())
    }
}

fn marker_of(text: &str) -> Result<Marker> {
    serde_json::from_str(text).map_err(|error| Error::Bug(format!("a stored marker does not parse: {error}")))
}

fn status_of(status: i64) -> Result<u16> {
    u16::try_from(status).map_err(|_| Error::Bug(format!("{status} is no status")))
}

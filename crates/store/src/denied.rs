//! The deny set: resources that lately lost access, for servers that answer from memory.
//!
//! It is written by the transaction that takes the access away and is read whole, not through the feed: the
//! feed waits for the oldest running transaction, and a denial must not wait.

use std::time::Duration;

use crate::error::Result;
use crate::store::Store;
use crate::value::{Row, params};

/// How long a denial stays in the set. A server that has not read the set for longer must drop its cache.
const KEPT: Duration = Duration::from_secs(600);

/// A resource whose credentials from before this version are denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The kind.
    pub kind: String,
    /// The id.
    pub id: String,
    /// The version that took the access away.
    pub version: i64,
}

impl Store {
    /// How long a server may go without reading the deny set and miss nothing.
    pub const DENIED_FOR: Duration = KEPT;

    /// Returns recent denials. A read that starts after an acknowledged denial includes it.
    pub async fn denied(&self) -> Result<Vec<Denied>> {
        let denied = |mut row: Row| Ok(Denied { kind: row.text()?, id: row.text()?, version: row.int()? });
        let rows = self.database.read(self.database.dialect().denied, params![millis()]).await?;
        rows.into_iter().map(denied).collect()
    }

    /// Deletes denials that every server has read.
    pub async fn sweep_denied(&self) -> Result<()> {
        // Twice the time they are read, so that no reader misses one.
        self.database.write(self.database.dialect().denied_sweep, params![millis() * 2]).await.map(drop)
    }
}

fn millis() -> i64 {
    i64::try_from(KEPT.as_millis()).unwrap_or(i64::MAX / 2)
}

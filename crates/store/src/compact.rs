//! Writing a database anew, so that its files have nothing any more of what was overwritten in it.
//!
//! What must stay true: a database says that this is owed from before something is overwritten that nobody may read
//! until it was done. Whoever is killed in between leaves it to the next.

use crate::error::{Error, Result};
use crate::location::Location;
use crate::sql;
use crate::store::{Database, Store};
use crate::value::params;
use crate::{postgres, sqlite};

/// What became of what was owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compaction {
    /// Nothing was.
    NotOwed,
    /// It was done.
    Done,
    /// It would keep everybody waiting: it is left to [`compact`].
    Left,
}

impl Store {
    /// Notes that the database is to be written anew: what is overwritten from here on is not to be found in its files.
    pub async fn owe_compaction(&self) -> Result<()> {
        self.database.write(sql::COMPACTION_OWE, params![]).await.map(drop)
    }

    /// Does what is owed to an embedded database of so many bytes at most. Nobody else writes meanwhile.
    pub async fn compact_if_owed(&self, most: u64) -> Result<Compaction> {
        if self.database.read_one(sql::COMPACTION_OWED, params![]).await?.is_none() {
            return Ok(Compaction::NotOwed);
        }
        match &*self.database {
            Database::Sqlite(sqlite) if sqlite.size()? <= most => sqlite.compact().await?,
            Database::Sqlite(_) | Database::Postgres(_) => return Ok(Compaction::Left),
        }
        self.database.write(sql::COMPACTION_DONE, params![]).await?;
        Ok(Compaction::Done)
    }
}

/// Writes a database anew, whatever its size. An embedded one must have no server; those of a PostgreSQL wait.
pub async fn compact(location: &Location) -> Result<()> {
    match location {
        Location::Sqlite { dir } => {
            let dir = dir.clone();
            let compacted = tokio::task::spawn_blocking(move || sqlite::compact_alone(&dir)).await;
            compacted.map_err(|_| Error::Unavailable("it was given up".to_owned()))?
        }
        Location::Postgres { url } => {
            let connected = postgres::connect(url).await?;
            postgres::require_current(&connected.client).await?;
            for statement in postgres::dialect::COMPACT.into_iter().chain([sql::COMPACTION_DONE]) {
                postgres::query(&connected.client, statement, &[]).await?;
            }
            Ok(())
        }
    }
}

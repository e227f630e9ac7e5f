//! The file of last beats, separate from the database, so that its writes never delay a commit.
//!
//! Writes are not synced: after a crash of the machine the newest beats may be missing, which the grace after
//! a start covers.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

use super::connect::{keep_private, prepare_connection, sqlite_error};
use crate::error::{Error, Result};
use crate::liveness::{Seen, millis};

const SCHEMA: &str = "\
     CREATE TABLE IF NOT EXISTS liveness (kind TEXT NOT NULL, id TEXT NOT NULL, seen_at INTEGER NOT NULL, \
     every_seconds INTEGER NOT NULL, PRIMARY KEY (kind, id)) STRICT, WITHOUT ROWID";

const NOW: &str = "SELECT CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER)";

/// This process is the only writer, so a given beat is newer than the stored one, even if the clock jumped.
const NOTE: &str = "\
     INSERT INTO liveness (kind, id, seen_at, every_seconds) VALUES (?1, ?2, ?3, ?4) \
     ON CONFLICT (kind, id) DO UPDATE SET seen_at = excluded.seen_at, every_seconds = excluded.every_seconds";

const SEEN: &str = "SELECT id, seen_at, every_seconds FROM liveness WHERE kind = ?1";

const FORGET: &str = "DELETE FROM liveness WHERE kind = ?1 AND id = ?2";

#[derive(Clone, Debug)]
pub(super) struct Beats(Arc<Mutex<Connection>>);

impl Beats {
    pub(super) fn open(dir: &Path) -> Result<Self> {
        let path = dir.join("liveness.db");
        keep_private(&path)?;
        let connection = prepare_connection(Connection::open(&path).map_err(sqlite_error)?)?;
        for (name, value) in
            [("journal_mode", "WAL"), ("synchronous", "NORMAL"), ("journal_size_limit", "67108864")]
        {
            connection.pragma_update(None, name, value).map_err(sqlite_error)?;
        }
        connection.execute_batch(SCHEMA).map_err(sqlite_error)?;
        Ok(Self(Arc::new(Mutex::new(connection))))
    }

    pub(super) async fn note(&self, kind: &'static str, seen: Vec<Seen>) -> Result<()> {
        self.run(move |connection| {
            let now = now(connection)?;
            let transaction = connection.unchecked_transaction()?;
            let mut note = transaction.prepare_cached(NOTE)?;
            for Seen { id, age, every } in seen {
                note.execute((kind, &*id, now - millis(age), every))?;
            }
            drop(note);
            transaction.commit()
        })
        .await
    }

    pub(super) async fn seen(&self, kind: &'static str) -> Result<Vec<Seen>> {
        self.run(move |connection| {
            let now = now(connection)?;
            let mut seen = connection.prepare_cached(SEEN)?;
            let row = |row: &rusqlite::Row<'_>| {
                let age = u64::try_from(now - row.get::<_, i64>(1)?).unwrap_or(0);
                let id = row.get_ref(0)?.as_str()?.into();
                Ok(Seen { id, age: Duration::from_millis(age), every: row.get(2)? })
            };
            seen.query_map([kind], row)?.collect()
        })
        .await
    }

    pub(super) async fn forget(&self, kind: &'static str, id: &str) -> Result<()> {
        let id = id.to_owned();
        self.run(move |connection| connection.prepare_cached(FORGET)?.execute((kind, id)).map(drop)).await
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let connection = Arc::clone(&self.0);
        let run = move || work(&connection.lock().unwrap_or_else(PoisonError::into_inner));
        let ran = tokio::task::spawn_blocking(run).await;
        ran.map_err(|_| Error::Unavailable("statement timed out".to_owned()))?.map_err(sqlite_error)
    }
}

fn now(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached(NOW)?.query_row([], |row| row.get(0))
}

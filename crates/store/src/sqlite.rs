//! The embedded database: one writer thread, a few readers, one file.
//!
//! What must stay true: only this process writes the file (the lock says so), and only the writer thread
//! does.

mod beats;
mod connect;
pub(crate) mod dialect;
mod recent;
mod writer;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

pub(crate) use connect::query;
use connect::read_only;
#[cfg(test)]
pub(crate) use connect::{file, native};

use crate::beside::PreparedBeside;
use crate::error::{Error, Result};
use crate::liveness::Seen;
use crate::migrate;
use crate::prepared::Prepared;
use crate::resource::Resource;
use crate::sql;
use crate::value::{Row, Value, params};
use beats::Beats;
use recent::Recent;
use writer::{Done, Work, Writer};

/// Readers kept open, and long reads that run at once.
const READERS: usize = 4;

#[derive(Debug)]
pub(crate) struct Sqlite {
    writer: Writer,
    beats: Beats,
    readers: Arc<Readers>,
    recent: Arc<Recent>,
    long_reads: Arc<Semaphore>,
    _lock: File,
}

impl Sqlite {
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let (connection, lock) = exclusive(dir)?;
        let readers = Readers { path: connect::file(dir), idle: Mutex::new(Vec::new()) };
        let recent = Arc::<Recent>::default();
        Ok(Self {
            writer: Writer::spawn(connection, Arc::clone(&recent))?,
            beats: Beats::open(dir)?,
            readers: Arc::new(readers),
            recent,
            long_reads: Arc::new(Semaphore::new(READERS)),
            _lock: lock,
        })
    }

    /// A point read on the calling thread: the page cache is faster than another thread.
    pub(crate) fn read_now(&self, sql: &str, params: &[Value]) -> Result<Vec<Row>> {
        self.readers.with(|connection| query(connection, sql, params))
    }

    /// The most common read: from memory if changed recently, otherwise straight from the page to the
    /// resource.
    pub(crate) fn get(&self, kind: &str, id: &str) -> Result<Option<Resource>> {
        if let Some(found) = self.recent.get(kind, id) {
            return Ok(Some(Resource::clone(&found)));
        }
        self.readers.with(|connection| connect::get(connection, kind, id))
    }

    /// A read of any length, off the calling thread.
    pub(crate) async fn read(&self, sql: String, params: Vec<Value>) -> Result<Vec<Row>> {
        let readers = Arc::clone(&self.readers);
        let permit = Arc::clone(&self.long_reads).acquire_owned().await;
        let read = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            readers.with(|connection| query(connection, &sql, &params))
        });
        read.await.map_err(|_| Error::Unavailable("read timed out".to_owned()))?
    }

    pub(crate) async fn write(&self, sql: &'static str, params: Vec<Value>) -> Result<Vec<Row>> {
        match self.writer.send(Work::Statement(sql, params)).await? {
            Done::Rows(rows) => Ok(rows),
            Done::Changes(_) => Err(Error::Bug("the writer did something else".to_owned())),
        }
    }

    pub(crate) async fn note_seen(&self, kind: &'static str, seen: Vec<Seen>) -> Result<()> {
        self.beats.note(kind, seen).await
    }

    pub(crate) async fn seen(&self, kind: &'static str) -> Result<Vec<Seen>> {
        self.beats.seen(kind).await
    }

    pub(crate) async fn forget_seen(&self, kind: &'static str, id: &str) -> Result<()> {
        self.beats.forget(kind, id).await
    }

    /// The statement takes the leases and returns ids; the resources are read once the leases are durable.
    pub(crate) async fn claim_due(&self, sql: &'static str, params: Vec<Value>) -> Result<Vec<Row>> {
        let (Value::Text(kind), holder) = (params[0].clone(), params[1].clone()) else {
            return Err(Error::Bug("a claim names no kind".to_owned()));
        };
        let mut claimed = Vec::new();
        for mut lease in self.write(sql, params).await? {
            let (epoch, id) = (lease.int()?, lease.text()?);
            match self.read_now(dialect::DUE, &params![&kind, &id])?.pop() {
                Some(due) => {
                    claimed.push(Row::new([Value::Int(epoch)].into_iter().chain(due.rest()).collect()));
                }
                // Its due time changed meanwhile: free the lease for the next claim.
                None => {
                    let released = params![format!("{kind}/{id}"), holder.clone(), epoch];
                    self.write(sql::LEASE_RELEASE, released).await?;
                }
            }
        }
        Ok(claimed)
    }

    /// Commits all changes and observations or none; returns when they are durable.
    pub(crate) async fn commit(
        &self,
        changes: Vec<Prepared>,
        beside: Vec<PreparedBeside>,
    ) -> Result<Vec<Prepared>> {
        let kept = changes.iter().map(|change| Arc::new(change.committed.resource.clone())).collect();
        match self.writer.send(Work::Commit(changes, kept, beside)).await? {
            Done::Changes(changes) => Ok(changes),
            Done::Rows(_) => Err(Error::Bug("the writer did something else".to_owned())),
        }
    }
}

/// A connection that reads the database of a folder, also beside its server.
pub(crate) fn existing(dir: &Path) -> Result<Connection> {
    let connection = read_only(&connect::file(dir))?;
    migrate::require_current(connect::schema_version(&connection)?)?;
    Ok(connection)
}

/// A migrated database that no server uses; the lock must outlive the connection.
pub(crate) fn exclusive(dir: &Path) -> Result<(Connection, File)> {
    connect::require_version()?;
    let lock = connect::lock(dir)?;
    Ok((connect::migrated(&connect::file(dir))?, lock))
}

#[derive(Debug)]
struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    /// Never waits for another reader: when all are busy, one more is opened.
    fn with<T>(&self, read: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let connection = match taken {
            Some(connection) => connection,
            None => read_only(&self.path)?,
        };
        let found = read(&connection);
        let mut idle = idle();
        if idle.len() < READERS {
            idle.push(connection);
        }
        found
    }
}

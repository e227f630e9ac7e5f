//! One connection in one transaction, for backup, restore and verification.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;

use crate::error::{Error, Result};
use crate::location::Location;
use crate::postgres::{self, Connected};
use crate::sql::Dialect;
use crate::sqlite;
use crate::value::{Row, Value, params};

/// A transaction that ends with the session; only [`Session::commit`] keeps what it wrote.
#[derive(Debug)]
pub(crate) enum Session {
    Sqlite { connection: Arc<Mutex<Connection>>, _lock: Option<File> },
    Postgres(Connected),
}

impl Session {
    /// Reads one state of everything, also beside running servers.
    pub(crate) async fn snapshot(location: &Location) -> Result<Self> {
        let session = match location {
            Location::Sqlite { dir } => Self::sqlite(sqlite::existing(dir)?, None),
            Location::Postgres { url } => {
                let connected = postgres::connect(url).await?;
                postgres::require_current(&connected.client).await?;
                Self::Postgres(connected)
            }
        };
        session.run(session.dialect().begin_snapshot, params![]).await?;
        Ok(session)
    }

    /// Opens a database for writing, migrated if needed, without other writers.
    pub(crate) async fn alone(location: &Location) -> Result<Self> {
        let session = match location {
            Location::Sqlite { dir } => {
                let (connection, lock) = sqlite::exclusive(dir)?;
                Self::sqlite(connection, Some(lock))
            }
            Location::Postgres { url } => Self::Postgres(postgres::connect_migrated(url).await?),
        };
        for begin in session.dialect().begin_alone {
            session.run(begin, params![]).await?;
        }
        Ok(session)
    }

    pub(crate) async fn commit(self) -> Result<()> {
        self.run("COMMIT", params![]).await.map(drop)
    }

    pub(crate) fn dialect(&self) -> &'static Dialect {
        match self {
            Self::Sqlite { .. } => &sqlite::dialect::DIALECT,
            Self::Postgres(_) => &postgres::dialect::DIALECT,
        }
    }

    pub(crate) async fn run(&self, sql: &str, params: Vec<Value>) -> Result<Vec<Row>> {
        match self {
            Self::Sqlite { connection, .. } => {
                let (connection, sql) = (Arc::clone(connection), sql.to_owned());
                let run = move || {
                    let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                    sqlite::query(&connection, &sql, &params)
                };
                let ran = tokio::task::spawn_blocking(run).await;
                ran.map_err(|_| Error::Unavailable("statement timed out".to_owned()))?
            }
            Self::Postgres(connected) => postgres::query(&connected.client, sql, &params).await,
        }
    }

    fn sqlite(connection: Connection, lock: Option<File>) -> Self {
        Self::Sqlite { connection: Arc::new(Mutex::new(connection)), _lock: lock }
    }
}

const PAGE: usize = 1000;

/// The key of a row, from which the next page starts.
type Key<T> = Box<dyn Fn(&T) -> Vec<Value> + Send>;

/// Reads everything a statement can reach by its keyset, a page at a time.
pub(crate) struct Stream<T> {
    sql: String,
    after: Vec<Value>,
    key: Key<T>,
    parse: fn(Row) -> Result<T>,
    page: VecDeque<T>,
    ended: bool,
}

impl<T> Stream<T> {
    /// The statement takes the key as its first parameters and the number of rows as its last.
    pub(crate) fn new(
        sql: impl Into<String>,
        after: Vec<Value>,
        key: impl Fn(&T) -> Vec<Value> + Send + 'static,
        parse: fn(Row) -> Result<T>,
    ) -> Self {
        Self { sql: sql.into(), after, key: Box::new(key), parse, page: VecDeque::new(), ended: false }
    }

    pub(crate) async fn next(&mut self, session: &Session) -> Result<Option<T>> {
        if self.page.is_empty() && !self.ended {
            let mut params = self.after.clone();
            params.push(Value::Int(PAGE as i64));
            let rows = session.run(&self.sql, params).await?;
            self.ended = rows.len() < PAGE;
            self.page = rows.into_iter().map(self.parse).collect::<Result<_>>()?;
            self.after = self.page.back().map_or_else(Vec::new, &self.key);
        }
        Ok(self.page.pop_front())
    }
}

//! PostgreSQL, shared by any number of servers.
//!
//! What must stay true: a commit is one statement, by itself or with what others commit at the same moment (`lanes.rs`,
//! `moves.rs`), so that it is one round trip and one transaction, and its answer comes after the server has made it
//! durable.

mod commit;
mod connect;
mod connector;
pub(crate) mod dialect;
mod error;
mod lanes;
mod moves;
mod pulse;
mod together;
mod transport;

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Client, HookError, Object, Pool, PoolError, Runtime};
use tokio_postgres::types::{ToSql, Type};

pub(crate) use connect::{Connected, connect, connect_migrated, query, require_current};

use crate::error::{Error, Result};
use crate::prepared::Prepared;
use crate::value::{Row, Value};
use connector::Connector;
use error::{commit_error, read_only, retryable, server_error};
use lanes::Lanes;
use moves::Moved;
use pulse::Pulse;

/// Many writers, because they wait for the disk and share its syncs; readers never wait behind a writer.
const WRITERS: usize = 24;
const READERS: usize = 6;
/// For [`Postgres::reserved`]: one for each loop that uses it.
const RESERVED: usize = 4;
/// Two, so that one gathers changes while the other waits for the disk.
const LANES: usize = 2;
const WAIT: Duration = Duration::from_secs(10);
/// How long a statement may take before its connection is closed: longer than [`dialect::WRITER`] waits for a
/// lock, so that PostgreSQL's own error comes first.
const LIMIT: Duration = Duration::from_secs(25);
const ATTEMPTS: usize = 10;

#[derive(Clone)]
pub(crate) struct Postgres {
    writers: Pool,
    readers: Pool,
    reserved: Pool,
    moves: Arc<Lanes<Prepared, (Prepared, Moved)>>,
    _pulse: Arc<Pulse>,
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postgres").finish_non_exhaustive()
    }
}

impl Postgres {
    pub(crate) async fn open(url: &str) -> Result<Self> {
        connect_migrated(url).await?;
        let connector = connect::connector(url)?;
        let pool = |size, settings| pool(&connector, size, settings);
        let lanes = pool(LANES, dialect::LANE)?;
        let moves = Lanes::open(LANES, moves::MOST, move |changes| moves::make(lanes.clone(), changes));
        let (writers, readers) = (pool(WRITERS, dialect::WRITER)?, pool(READERS, "")?);
        let reserved = pool(RESERVED, dialect::WRITER)?;
        let pulse = Arc::new(Pulse::spawn(&connector));
        Ok(Self { writers, readers, reserved, moves: Arc::new(moves), _pulse: pulse })
    }

    /// The same over connections that requests do not use.
    pub(crate) fn reserved(&self) -> Self {
        let pool = || self.reserved.clone();
        Self { writers: pool(), readers: pool(), reserved: pool(), ..self.clone() }
    }

    async fn client(&self) -> Result<Client> {
        client(&self.writers).await
    }

    /// Runs one of the constant statements that only read.
    pub(crate) async fn read<P: ToSql + Sync>(&self, sql: &str, params: &[P]) -> Result<Vec<Row>> {
        Box::pin(ran(&self.readers, sql, params)).await.map_err(Failed::into_error)
    }

    pub(crate) async fn run<P: ToSql + Sync>(&self, sql: &str, params: &[P]) -> Result<Vec<Row>> {
        Box::pin(ran(&self.writers, sql, params)).await.map_err(Failed::into_error)
    }

    /// Runs a statement built for one call: planned for its values, and not cached.
    pub(crate) async fn run_once(&self, sql: &str, params: &[Value]) -> Result<Vec<Row>> {
        let client = Box::pin(client(&self.readers)).await?;
        let typed = params.iter().map(|value| (value, type_of(value)));
        let ran = limited(async {
            let rows = client.query_typed_raw(sql, typed).await.map_err(Failed::Server)?;
            connect::collect(rows).await.map_err(Failed::Server)
        });
        match ran.await {
            Ok(rows) => rows.iter().map(connect::from_postgres).collect(),
            Err(failed) => Err(give_up(client, failed).into_error()),
        }
    }

    /// Commits one change, in a batch with concurrent ones if possible.
    pub(crate) async fn commit(&self, change: Prepared) -> Result<Prepared> {
        let change = if change.is_move() {
            match self.moves.ask(change).await? {
                (change, Moved::Made) => return Ok(change),
                (change, Moved::Left) => change,
                (_, Moved::Refused(why)) => return Err(Error::Unavailable(why)),
                (_, Moved::CutShort(wait)) => return Err(Error::CutShort(wait)),
                (_, Moved::Unknown(why)) => return Err(Error::Unanswered(why)),
            }
        } else {
            change
        };
        Box::pin(self.commit_alone(&change)).await.map(|()| change)
    }

    /// Commits one statement; no row back means that another writer was first.
    async fn commit_alone(&self, change: &Prepared) -> Result<()> {
        if !commit::locks(change).is_empty() {
            return self.commit_together(std::slice::from_ref(change), &[]).await;
        }
        let mark = commit::mark(change)?;
        let (sql, params) = commit::statement(change, &mark);
        let ran = ran(&self.writers, sql, &params).await;
        match ran.map_err(Failed::into_commit_error) {
            Ok(rows) if !rows.is_empty() => Ok(()),
            Ok(_) => Err(self.lost(change).await?),
            Err(Error::Conflict) => Err(self.taken(change).await?),
            Err(error) => Err(error),
        }
    }

    /// Returns why no row came back: the lease was lost, or another writer was first.
    async fn lost(&self, change: &Prepared) -> Result<Error> {
        if let Some(fence) = &change.fence
            && self.run(dialect::FENCE, &commit::fence_params(fence)).await?.is_empty()
        {
            return Ok(Error::Fenced { lease: fence.lease.clone() });
        }
        Ok(Error::Conflict)
    }

    /// Returns the holder of a key of the change; a conflict if the key is free again, so that the caller
    /// decides again.
    async fn taken(&self, change: &Prepared) -> Result<Error> {
        for key in &change.keys.added {
            let params = crate::value::params![&change.committed.row.kind, key];
            if let Some(mut row) = self.run(crate::sql::KEY_HOLDER, &params).await?.pop() {
                return Ok(Error::KeyTaken { key: key.clone(), holder: row.text()? });
            }
        }
        Ok(Error::Conflict)
    }
}

fn pool(connector: &Arc<Connector>, size: usize, settings: &str) -> Result<Pool> {
    let builder = Pool::builder(connect::manager(connector));
    let builder = builder.max_size(size).post_create(connect::settings(settings));
    let builder = builder.wait_timeout(Some(WAIT)).create_timeout(Some(WAIT)).runtime(Runtime::Tokio1);
    builder.build().map_err(|error| Error::Bug(format!("no pool: {error}")))
}

async fn client(pool: &Pool) -> Result<Client> {
    pool.get().await.map_err(|error| match error {
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
            server_error(error)
        }
        PoolError::Timeout(_)
        | PoolError::Closed
        | PoolError::NoRuntimeSpecified
        | PoolError::PostCreateHook(HookError::Message(_)) => Error::Unavailable(error.to_string()),
    })
}

/// Runs one of the constant statements, and repeats it after serialization failures. Callers box it, because
/// its size would be part of every request, also on SQLite.
async fn ran<P: ToSql + Sync>(pool: &Pool, sql: &str, params: &[P]) -> Result<Vec<Row>, Failed> {
    let client = client(pool).await.map_err(Failed::Store)?;
    let mut attempt = 1;
    loop {
        match run_on(&client, sql, params).await {
            Err(Failed::Server(error)) if retryable(&error) && attempt < ATTEMPTS => attempt += 1,
            Err(failed) => return Err(give_up(client, failed)),
            Ok(rows) => return Ok(rows),
        }
    }
}

/// Closes a connection that is unusable after a failure.
fn give_up(client: Client, failed: Failed) -> Failed {
    if failed.spoils_connection() {
        drop(Object::take(client));
    }
    failed
}

/// Limits the wait for the server's answer.
async fn limited<T>(answer: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
    tokio::time::timeout(LIMIT, answer).await.unwrap_or(Err(Failed::Late))
}

/// Runs one of the constant statements on one connection, prepared once for it.
async fn run_on<P: ToSql + Sync>(client: &Client, sql: &str, params: &[P]) -> Result<Vec<Row>, Failed> {
    let ran = limited(async {
        let statement = client.prepare_cached(sql).await.map_err(Failed::Server)?;
        let rows = client.query_raw(&statement, params).await.map_err(Failed::Server)?;
        connect::collect(rows).await.map_err(Failed::Server)
    });
    let rows = ran.await?;
    rows.iter().map(connect::from_postgres).collect::<Result<_>>().map_err(Failed::Store)
}

/// A failure of a statement.
enum Failed {
    Server(tokio_postgres::Error),
    /// The server did not answer within [`LIMIT`].
    Late,
    Store(Error),
}

const LATE: &str = "no answer in time";

impl Failed {
    /// Whether the connection must be closed: the server is read-only, and a new connection may reach the
    /// primary; or it did not answer.
    fn spoils_connection(&self) -> bool {
        match self {
            Self::Server(error) => read_only(error),
            Self::Late => true,
            Self::Store(_) => false,
        }
    }

    fn into_error(self) -> Error {
        match self {
            Self::Server(error) => server_error(error),
            Self::Late => Error::Unavailable(LATE.to_owned()),
            Self::Store(error) => error,
        }
    }

    /// The same of a statement that commits.
    fn into_commit_error(self) -> Error {
        match self {
            Self::Server(error) => commit_error(error),
            Self::Late => Error::Unanswered(LATE.to_owned()),
            Self::Store(error) => error,
        }
    }
}

fn type_of(value: &Value) -> Type {
    match value {
        Value::Int(_) => Type::INT8,
        Value::Null | Value::Text(_) => Type::TEXT,
        Value::Texts(_) => Type::TEXT_ARRAY,
    }
}

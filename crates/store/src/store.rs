//! The store itself: reads, and the one way to change something.

use std::sync::Arc;

use tokio::sync::watch;

use crate::beside::{Beside, PreparedBeside};
use crate::change::{Change, Committed, Use};
use crate::condition;
use crate::error::Result;
use crate::guards;
use crate::history::HistoryRow;
use crate::idempotency::Mark;
use crate::listener::{CommitListener, Listeners};
use crate::location::Location;
use crate::postgres::{self, Postgres};
use crate::prepared::Prepared;
use crate::query::{List, Page};
use crate::resource::{Resource, field_term, label_term};
use crate::session::Session;
use crate::sql::{self, Dialect};
use crate::sqlite::{self, Sqlite};
use crate::value::{Param, Row, Value, params};

/// A handle on one database; clones share it.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) database: Arc<Database>,
    pub(crate) epoch: Arc<str>,
    pub(crate) hint: watch::Sender<u64>,
    mended: Arc<[&'static str]>,
    listeners: Listeners,
}

#[derive(Debug)]
pub(crate) enum Database {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

/// Which rows of a resource's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// All of them.
    All,
    /// Only moves from one state to another.
    Transitions,
}

/// How many living resources of a kind are in a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateCount {
    /// The kind.
    pub kind: String,
    /// The state.
    pub state: String,
    /// How many.
    pub count: i64,
}

impl Store {
    /// Opens the database, creating and migrating it as needed.
    pub async fn open(location: &Location) -> Result<Self> {
        let database = match location {
            Location::Sqlite { dir } => Database::Sqlite(Sqlite::open(dir)?),
            Location::Postgres { url } => Database::Postgres(Postgres::open(url).await?),
        };
        let epoch = one(database.read(sql::EPOCH, params![]).await?)?.text()?;
        let mended = guards::mend(&database).await?.into();
        let (database, hint) = (Arc::new(database), watch::Sender::new(0));
        let store = Self { database, epoch: epoch.into(), hint, mended, listeners: Listeners::default() };
        store.spawn_poller();
        Ok(store)
    }

    /// Returns whether several servers may use the database at the same moment; if not, all that is leased or claimed at a
    /// start was left by a server that is gone.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        match &*self.database {
            Database::Sqlite(_) => false,
            Database::Postgres(_) => true,
        }
    }

    /// Tells `listener` of every commit of this handle and its clones, before the caller of the commit is told.
    pub fn listen(&self, listener: Arc<dyn CommitListener>) {
        self.listeners.add(listener);
    }

    /// Checks that there is a database of this version, without creating one.
    ///
    /// # Errors Returns an error if there is none, or of another version.
    pub async fn require(location: &Location) -> Result<()> {
        Session::snapshot(location).await.map(drop)
    }

    /// The triggers that were missing at the start and were created again.
    #[must_use]
    pub fn mended(&self) -> &[&'static str] {
        &self.mended
    }

    /// The same database over connections that requests do not use, for the few loops that every request
    /// relies on. Each of them sends one statement at a time.
    #[must_use]
    pub fn reserved(&self) -> Self {
        let database = match &*self.database {
            Database::Sqlite(_) => Arc::clone(&self.database),
            Database::Postgres(postgres) => Arc::new(Database::Postgres(postgres.reserved())),
        };
        Self { database, ..self.clone() }
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<()> {
        self.database.read_one(sql::EPOCH, params![]).await.map(drop)
    }

    /// Reads one resource, deleted or not.
    pub async fn get(&self, kind: &str, id: &str) -> Result<Option<Resource>> {
        // Nothing has a name with NUL in it, and PostgreSQL would not take one.
        if id.contains('\0') || kind.contains('\0') {
            return Ok(None);
        }
        match &*self.database {
            Database::Sqlite(sqlite) => sqlite.get(kind, id),
            Database::Postgres(postgres) => {
                let found = postgres.read(sql::RESOURCE, &[Param::Text(kind), Param::Text(id)]).await?.pop();
                found.map(|mut row| Resource::from_row(&mut row)).transpose()
            }
        }
    }

    /// Reads the living resource that has a key.
    pub async fn get_by_key(&self, kind: &str, key: &str) -> Result<Option<Resource>> {
        if key.contains('\0') {
            return Ok(None);
        }
        let rows = self.database.read_one(sql::RESOURCE_BY_KEY, params![kind, key]).await?;
        rows.map(|mut row| Resource::from_row(&mut row)).transpose()
    }

    /// Reads one page of living resources.
    pub async fn list(&self, list: &List) -> Result<Page> {
        let statement = list.statement()?;
        let rows = self.database.read_once(statement.sql, statement.params).await?;
        let more = rows.len() > list.limit;
        let rows = rows.into_iter().take(list.limit);
        let items = rows.map(|mut row| Resource::from_row(&mut row)).collect::<Result<Vec<_>>>()?;
        let next = items.last().filter(|_| more).map(|last| last.content.id.clone());
        Ok(Page { items, next })
    }

    /// Counts living resources by kind and state.
    pub async fn count_by_state(&self) -> Result<Vec<StateCount>> {
        let rows = self.database.read(sql::COUNT_BY_STATE, params![]).await?;
        let count =
            |mut row: Row| Ok(StateCount { kind: row.text()?, state: row.text()?, count: row.int()? });
        rows.into_iter().map(count).collect()
    }

    /// Counts living resources of a kind by zone: the value of a label, or else of a field.
    pub async fn count_by_zone(&self, kind: &str, label: &str, field: &str) -> Result<Vec<(String, i64)>> {
        let params = params![kind, label_term(label), field_term(field)];
        let rows = self.database.read(sql::COUNT_BY_ZONE, params).await?;
        rows.into_iter().map(|mut row| Ok((row.text()?, row.int()?))).collect()
    }

    /// Reads the history of one resource, newest first, and how many rows there are in all.
    pub async fn history(
        &self,
        kind: &str,
        id: &str,
        rows: Rows,
        limit: usize,
        offset: usize,
    ) -> Result<(Vec<HistoryRow>, i64)> {
        crate::change::refuse_nul("kind", kind)?;
        crate::change::refuse_nul("id", id)?;
        let (page, total) = match rows {
            Rows::All => (sql::HISTORY, sql::HISTORY_TOTAL),
            Rows::Transitions => (sql::TRANSITIONS, sql::TRANSITIONS_TOTAL),
        };
        let window = [limit, offset].map(|number| Value::Int(i64::try_from(number).unwrap_or(i64::MAX)));
        let mut params = params![kind, id];
        let total = one(self.database.read(total, params.clone()).await?)?.int()?;
        params.extend(window);
        let rows = self.database.read(page, params).await?;
        let rows = rows.into_iter().map(|mut row| HistoryRow::from_row(&mut row));
        Ok((rows.collect::<Result<_>>()?, total))
    }

    /// The id of the newest resource that had a name and is deleted.
    pub async fn last_deleted(&self, kind: &str, name: &str) -> Result<Option<String>> {
        Ok(self.deleted(kind, name, 1).await?.pop())
    }

    /// The ids of resources that had a name and are deleted, the newest first.
    pub async fn deleted(&self, kind: &str, name: &str, most: i64) -> Result<Vec<String>> {
        if name.contains('\0') || kind.contains('\0') {
            return Ok(Vec::new());
        }
        let rows = self.database.read(sql::LAST_DELETED, params![kind, name, most]).await?;
        rows.into_iter().map(|mut row| row.text()).collect()
    }

    /// Some resources of one kind, in any order; those that do not exist are left out.
    pub async fn get_all(&self, kind: &str, ids: &[String]) -> Result<Vec<Resource>> {
        match &*self.database {
            Database::Sqlite(sqlite) => {
                ids.iter().filter_map(|id| sqlite.get(kind, id).transpose()).collect()
            }
            Database::Postgres(postgres) => {
                let ids = ids.iter().filter(|id| !id.contains('\0')).map(String::as_str).collect();
                let params = [Param::Text(kind), Param::Texts(ids)];
                let found = postgres.read(postgres::dialect::RESOURCES, &params).await?;
                found.into_iter().map(|mut row| Resource::from_row(&mut row)).collect()
            }
        }
    }

    /// Commits one change; when this returns, it is durable and every later read sees it.
    pub fn commit(&self, change: Change) -> impl Future<Output = Result<Committed>> + Send + use<'_> {
        self.commit_unused(change, Vec::new(), None)
    }

    /// Commits one change unless a living resource uses the changed one; a change that adds a reference must
    /// hold it. It completes a request: later requests with its key get this answer.
    ///
    /// The change is prepared at once, so that a waiting caller holds no copy of it.
    pub fn commit_unused(
        &self,
        change: Change,
        unused: Vec<Use>,
        mark: Option<Mark>,
    ) -> impl Future<Output = Result<Committed>> + Send + use<'_> {
        let mut changes = [change];
        let checked = condition::check(&mut changes);
        let [change] = changes;
        let pending = self.listeners.begins(std::slice::from_ref(&change));
        let prepared = checked.and_then(|()| prepare(change, unused, mark));
        async move {
            let committed = match prepared {
                Ok(prepared) => self.write_one(prepared).await,
                Err(error) => Err(error),
            };
            condition::committed(&committed);
            pending.end(&committed, |committed| vec![&committed.resource]);
            committed
        }
    }

    async fn write_one(&self, prepared: Vec<Prepared>) -> Result<Committed> {
        let committed = match &*self.database {
            Database::Sqlite(sqlite) => sqlite.commit(prepared, Vec::new()).await?,
            Database::Postgres(postgres) => {
                let mut committed = Vec::new();
                for prepared in prepared {
                    committed.push(Box::pin(postgres.commit(prepared)).await?);
                }
                committed
            }
        };
        self.hint.send_modify(|count| *count += 1);
        one(committed).map(|prepared| prepared.committed)
    }

    /// Commits changes of different resources, all or none; none may hold a resource that another one
    /// changes.
    pub async fn commit_together(&self, changes: Vec<Change>) -> Result<Vec<Committed>> {
        self.commit_together_for(changes, None).await
    }

    /// Commits together and completes a request: later requests with its key get the first change.
    pub async fn commit_together_for(
        &self,
        changes: Vec<Change>,
        mark: Option<Mark>,
    ) -> Result<Vec<Committed>> {
        self.commit_beside(changes, Vec::new(), mark).await
    }

    /// The same, with observations that are kept beside resources, all or nothing; there may be no change at all. It is a
    /// conflict when another writer had its turn at the observations of one of them.
    pub async fn commit_beside(
        &self,
        mut changes: Vec<Change>,
        beside: Vec<Beside>,
        mark: Option<Mark>,
    ) -> Result<Vec<Committed>> {
        condition::check(&mut changes)?;
        let beside = beside.into_iter().map(Beside::prepare).collect::<Result<Vec<_>>>()?;
        let pending = self.listeners.begins(&changes);
        let committed = self.write_together(changes, beside, mark).await;
        condition::committed(&committed);
        pending.end(&committed, |committed| committed.iter().map(|one| &one.resource).collect());
        committed
    }

    async fn write_together(
        &self,
        changes: Vec<Change>,
        beside: Vec<PreparedBeside>,
        mark: Option<Mark>,
    ) -> Result<Vec<Committed>> {
        let mut prepared = changes.into_iter().map(Change::prepare).collect::<Result<Vec<_>>>()?;
        if let Some(first) = prepared.first_mut() {
            first.mark = mark;
        }
        let committed = match &*self.database {
            Database::Sqlite(sqlite) => sqlite.commit(prepared, beside).await?,
            Database::Postgres(postgres) => {
                Box::pin(postgres.commit_together(&prepared, &beside)).await?;
                prepared
            }
        };
        if !committed.is_empty() {
            self.hint.send_modify(|count| *count += 1);
        }
        Ok(committed.into_iter().map(|prepared| prepared.committed).collect())
    }

    /// Commits many changes separately, and returns their outcomes in order.
    pub async fn commit_all(&self, changes: Vec<Change>) -> Vec<Result<Committed>> {
        use futures_util::stream::{StreamExt as _, iter};
        iter(changes).map(|change| self.commit(change)).buffered(AT_ONCE).collect().await
    }
}

/// How many changes of one call are queued at once; the rest of the queue is for other callers.
const AT_ONCE: usize = 256;

impl Database {
    pub(crate) fn dialect(&self) -> &'static Dialect {
        match self {
            Self::Sqlite(_) => &sqlite::dialect::DIALECT,
            Self::Postgres(_) => &postgres::dialect::DIALECT,
        }
    }

    /// A read of one row by an index.
    pub(crate) async fn read_one(&self, sql: &'static str, params: Vec<Value>) -> Result<Option<Row>> {
        let mut rows = match self {
            Self::Sqlite(sqlite) => sqlite.read_now(sql, &params)?,
            Self::Postgres(postgres) => postgres.read(sql, &params).await?,
        };
        Ok(rows.pop())
    }

    pub(crate) async fn read(&self, sql: &'static str, params: Vec<Value>) -> Result<Vec<Row>> {
        match self {
            Self::Sqlite(sqlite) => sqlite.read(sql.to_owned(), params).await,
            Self::Postgres(postgres) => postgres.read(sql, &params).await,
        }
    }

    /// A read whose statement was built for this call.
    pub(crate) async fn read_once(&self, sql: String, params: Vec<Value>) -> Result<Vec<Row>> {
        match self {
            Self::Sqlite(sqlite) => sqlite.read(sql, params).await,
            Self::Postgres(postgres) => postgres.run_once(&sql, &params).await,
        }
    }

    /// The epoch and the resource of each lease that was taken.
    pub(crate) async fn claim_due(&self, params: Vec<Value>) -> Result<Vec<Row>> {
        let sql = self.dialect().due_claim;
        match self {
            Self::Sqlite(sqlite) => sqlite.claim_due(sql, params).await,
            Self::Postgres(postgres) => postgres.run(sql, &params).await,
        }
    }

    /// One statement that writes, in a transaction of its own.
    pub(crate) async fn write(&self, sql: &'static str, params: Vec<Value>) -> Result<Vec<Row>> {
        match self {
            Self::Sqlite(sqlite) => sqlite.write(sql, params).await,
            Self::Postgres(postgres) => postgres.run(sql, &params).await,
        }
    }
}

/// Prepares the single change of a commit, boxed so that it is not moved.
fn prepare(change: Change, unused: Vec<Use>, mark: Option<Mark>) -> Result<Vec<Prepared>> {
    for used in &unused {
        crate::change::refuse_nul("fields", &used.value)?;
    }
    let mut prepared = change.prepare()?;
    (prepared.unused, prepared.mark) = (unused, mark);
    Ok(vec![prepared])
}

/// The row of a statement that always has one.
pub(crate) fn one<T>(rows: Vec<T>) -> Result<T> {
    let first = rows.into_iter().next();
    first.ok_or_else(|| crate::error::Error::Bug("a statement that always has a row had none".to_owned()))
}

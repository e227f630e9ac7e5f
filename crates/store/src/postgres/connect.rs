//! Connections to PostgreSQL, and values on their way there and back.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, RecyclingMethod};
use futures_util::TryStreamExt as _;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Config, RowStream};

use super::connector::{Connector, ForPool, Opened, REACH};
use super::error::server_error;
use super::transport::Transport;
use super::{WAIT, dialect};
use crate::error::{Error, Result};
use crate::migrate;
use crate::value::{Param, Row, Value};

/// Any number that nothing else in the database locks.
const MIGRATION_LOCK: &str = "SELECT pg_advisory_lock(7712038841)";
const MIGRATION_UNLOCK: &str = "SELECT pg_advisory_unlock(7712038841)";

/// How long sent data may stay unacknowledged by the server's system.
const VANISHED: Duration = Duration::from_secs(15);

/// Settings that must not depend on the database or the role. Each statement sees what was committed before
/// it (`together.rs`), and a commit is answered when it is on disk. They are set on the open connection,
/// because poolers refuse settings in the start-up message.
const SETTINGS: &str = "SET default_transaction_isolation = 'read committed'; \
                        SELECT set_config('synchronous_commit', \
                        coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), false)";

/// Refuses a standby: it shows less than was acknowledged elsewhere, so no request is served from it. The
/// error is the one that a change would get.
const PRIMARY: &str = "DO $$ BEGIN IF pg_is_in_recovery() THEN RAISE 'the database is a standby' \
                       USING ERRCODE = 'read_only_sql_transaction'; END IF; END $$";

/// Returns the connector of a URL.
pub(super) fn connector(url: &str) -> Result<Arc<Connector>> {
    let invalid = |_| Error::Invalid { field: "database URL", reason: "is not a PostgreSQL URL" };
    let mut config: Config = url.parse().map_err(invalid)?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(REACH);
    }
    config.application_name("wardroom");
    let hosts = config.get_hosts().len().max(config.get_hostaddrs().len());
    if hosts > 1 && !url.contains("target_session_attrs=") {
        // The primary may change; use the host that takes changes.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    // Detect a vanished server sooner than the system's defaults.
    config.keepalives_idle(VANISHED).tcp_user_timeout(VANISHED);
    let transport = Transport::choose(&mut config)?;
    Ok(Connector::new(&config, transport))
}

/// The checks and settings of a new connection of a pool.
pub(super) fn settings(further: &str) -> Hook {
    let settings = format!("{PRIMARY}; {SETTINGS}; {further}");
    Hook::async_fn(move |client, _| {
        let settings = settings.clone();
        Box::pin(async move {
            let told = tokio::time::timeout(WAIT, client.batch_execute(&settings)).await;
            let late = |_| HookError::message("the database did not take settings in time");
            told.map_err(late)?.map_err(HookError::Backend)
        })
    })
}

/// How a pool makes its connections. The configuration is the connector's.
pub(super) fn manager(connector: &Arc<Connector>) -> Manager {
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    Manager::from_connect(Config::new(), ForPool(Arc::clone(connector)), recycling)
}

/// A connection of its own, with the task that drives it; both end together.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) client: Client,
    driver: tokio::task::JoinHandle<()>,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Opens a connection for a session, whose statements may take hours: a backup, or the writing anew of a table.
pub(crate) async fn connect(url: &str) -> Result<Connected> {
    let Opened { client, driver, .. } = connector(url)?.open().await.map_err(server_error)?;
    let connected = Connected { client, driver };
    let told = tokio::time::timeout(WAIT, connected.client.batch_execute(SETTINGS)).await;
    let late = |_| Error::Unavailable("the database did not take settings in time".to_owned());
    told.map_err(late)?.map_err(server_error)?;
    Ok(connected)
}

/// A connection to a database of the newest schema. Replicas that start together take turns.
pub(crate) async fn connect_migrated(url: &str) -> Result<Connected> {
    let mut connected = connect(url).await?;
    let client = &mut connected.client;
    require_durable(client).await?;
    require_writable(client).await?;
    client.batch_execute(MIGRATION_LOCK).await.map_err(server_error)?;
    migrate::refuse_newer(schema_version(client).await?)?;
    let migrated = migrate::postgres_runner().run_async(client).await;
    migrated.map_err(|error| Error::Bug(format!("a migration failed: {error}")))?;
    client.batch_execute(MIGRATION_UNLOCK).await.map_err(server_error)?;
    require_own_transactions(client).await?;
    Ok(connected)
}

/// Refuses a copy by `pg_dump`: the feed orders history by transaction ids, which such a copy does not keep.
async fn require_own_transactions(client: &Client) -> Result<()> {
    let row = client.query_one(dialect::FOREIGN_TRANSACTIONS, &[]).await.map_err(server_error)?;
    if row.get::<_, bool>(0) {
        let reason =
            "its history was copied from another PostgreSQL server; restore a Wardroom backup instead";
        return Err(Error::Unsafe(reason.to_owned()));
    }
    Ok(())
}

/// Refuses `fsync = off`, which can lose acknowledged commits.
async fn require_durable(client: &Client) -> Result<()> {
    let row = client.query_one("SHOW fsync", &[]).await.map_err(server_error)?;
    match row.get::<_, &str>(0) {
        "off" => {
            Err(Error::Unsafe("fsync is off, so acknowledged changes may be lost; set it to on".to_owned()))
        }
        _ => Ok(()),
    }
}

/// Refuses a read-only database before a migration fails.
async fn require_writable(client: &Client) -> Result<()> {
    let row = client.query_one("SHOW transaction_read_only", &[]).await.map_err(server_error)?;
    if row.get::<_, &str>(0) == "on" { Err(Error::ReadOnly) } else { Ok(()) }
}

/// Refuses a database this program cannot read as it is.
pub(crate) async fn require_current(client: &Client) -> Result<()> {
    migrate::require_current(schema_version(client).await?)
}

/// 0 for a database that was never migrated.
async fn schema_version(client: &Client) -> Result<i64> {
    let exists = "SELECT to_regclass('refinery_schema_history') IS NOT NULL";
    let row = client.query_one(exists, &[]).await.map_err(server_error)?;
    if !row.get::<_, bool>(0) {
        return Ok(0);
    }
    let row = client.query_one(migrate::SCHEMA_VERSION, &[]).await.map_err(server_error)?;
    Ok(row.get(0))
}

/// Runs one statement on one connection and reads all its rows.
pub(crate) async fn query(client: &Client, sql: &str, params: &[Value]) -> Result<Vec<Row>> {
    let rows = client.query_raw(sql, params).await.map_err(server_error)?;
    collect(rows).await.map_err(server_error)?.iter().map(from_postgres).collect()
}

pub(super) async fn collect(rows: RowStream) -> Result<Vec<tokio_postgres::Row>, tokio_postgres::Error> {
    rows.try_collect().await
}

pub(super) fn from_postgres(row: &tokio_postgres::Row) -> Result<Row> {
    let value = |column| row.try_get::<_, Value>(column).map_err(|error| Error::Bug(error.to_string()));
    Ok(Row::new((0..row.len()).map(value).collect::<Result<_>>()?))
}

type Fault = Box<dyn StdError + Sync + Send>;

impl<'a> FromSql<'a> for Value {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Fault> {
        if *ty == Type::INT8 {
            i64::from_sql(ty, raw).map(Self::Int)
        } else {
            String::from_sql(ty, raw).map(Self::Text)
        }
    }

    fn from_sql_null(_: &Type) -> Result<Self, Fault> {
        Ok(Self::Null)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::INT8 || <String as FromSql<'_>>::accepts(ty)
    }
}

impl ToSql for Param<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Fault> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(value) => value.to_sql_checked(ty, out),
            Self::Text(text) => text.to_sql_checked(ty, out),
            Self::Texts(texts) => texts.to_sql_checked(ty, out),
            Self::Ints(values) => values.to_sql_checked(ty, out),
            Self::Column(texts) => texts.to_sql_checked(ty, out),
        }
    }

    /// Each variant checks for itself.
    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl ToSql for Value {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Fault> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(value) => value.to_sql_checked(ty, out),
            Self::Text(text) => text.to_sql_checked(ty, out),
            Self::Texts(texts) => texts.to_sql_checked(ty, out),
        }
    }

    /// Each variant checks for itself.
    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

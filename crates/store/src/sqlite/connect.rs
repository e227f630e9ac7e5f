//! Connections to the embedded database, and statements on them.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql, params_from_iter};

use super::dialect;
use crate::error::{Error, Result};
use crate::migrate;
use crate::resource::Resource;
use crate::value::{Param, Row, Value};

/// Older versions can corrupt a write-ahead log when two connections race.
const OLDEST_SAFE: i32 = 3_051_003;

pub(crate) fn require_version() -> Result<()> {
    if rusqlite::version_number() >= OLDEST_SAFE {
        return Ok(());
    }
    Err(Error::Unsafe(format!("SQLite {} has a known corruption race", rusqlite::version())))
}

pub(crate) fn file(dir: &Path) -> PathBuf {
    dir.join("wardroom.db")
}

/// Creates the folder and locks it for one server; the lock ends with the process.
pub(super) fn lock(dir: &Path) -> Result<File> {
    create_private(dir).map_err(Error::file(dir))?;
    let path = dir.join("wardroom.lock");
    let lock = File::create(&path).map_err(Error::file(&path))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(Error::InUse(dir.to_owned())),
        Err(TryLockError::Error(source)) => Err(Error::File { path, source }),
    }
}

fn create_private(dir: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// A connection that may write, durable before a commit returns, to a database of the newest schema.
pub(super) fn migrated(path: &Path) -> Result<Connection> {
    let mut connection = writable(path)?;
    migrate::refuse_newer(schema_version(&connection)?)?;
    let migrated = migrate::sqlite_runner().run(&mut connection);
    migrated.map_err(|error| Error::Bug(format!("a migration failed: {error}")))?;
    Ok(connection)
}

/// Makes the file before SQLite does, so that only its owner can read it.
pub(super) fn keep_private(path: &Path) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let file = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    file.map(drop).map_err(Error::file(path))
}

fn writable(path: &Path) -> Result<Connection> {
    keep_private(path)?;
    let connection = Connection::open(path).map_err(sqlite_error)?;
    let set = |name, value: &str| connection.pragma_update(None, name, value).map_err(sqlite_error);
    set("journal_mode", "WAL")?;
    set("synchronous", "FULL")?;
    // A long read makes the log grow; afterwards it shrinks again.
    set("journal_size_limit", "67108864")?;
    // Fewer checkpoints: pages that change with every commit are copied back less often, and no write runs
    // meanwhile.
    set("wal_autocheckpoint", "8192")?;
    prepare_connection(connection)
}

/// A connection that cannot write, also beside a running server.
pub(super) fn read_only(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // The operating system's error says more than SQLite's.
    let opened = Connection::open_with_flags(path, flags).map_err(|error| match File::open(path) {
        Ok(_) => sqlite_error(error),
        Err(source) => Error::file(path)(source),
    });
    prepare_connection(opened?)
}

pub(super) fn prepare_connection(connection: Connection) -> Result<Connection> {
    connection.busy_timeout(Duration::from_secs(10)).map_err(sqlite_error)?;
    connection.set_prepared_statement_cache_capacity(64);
    // Plans must not depend on values; otherwise SQLite plans again for each value that may fit a partial
    // index.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(sqlite_error)?;
    Ok(connection)
}

/// 0 for a database that was never migrated.
pub(crate) fn schema_version(connection: &Connection) -> Result<i64> {
    let exists = "SELECT count(*) FROM sqlite_schema WHERE name = 'refinery_schema_history'";
    let count = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(sqlite_error);
    if count(exists)? == 0 { Ok(0) } else { count(migrate::SCHEMA_VERSION) }
}

/// Runs one statement and reads all its rows.
pub(crate) fn query(connection: &Connection, sql: &str, params: &[Value]) -> Result<Vec<Row>> {
    let mut statement = connection.prepare_cached(&native(sql)).map_err(sqlite_error)?;
    let columns = statement.column_count();
    let mut rows = statement.query(params_from_iter(params)).map_err(sqlite_error)?;
    let mut read = Vec::new();
    while let Some(row) = rows.next().map_err(sqlite_error)? {
        let values =
            (0..columns).map(|column| row.get_ref(column).map_err(sqlite_error).and_then(from_sqlite));
        read.push(Row::new(values.collect::<Result<_>>()?));
    }
    Ok(read)
}

pub(super) fn get(connection: &Connection, kind: &str, id: &str) -> Result<Option<Resource>> {
    let mut statement = connection.prepare_cached(dialect::RESOURCE).map_err(sqlite_error)?;
    let mut rows = statement.query([kind, id]).map_err(sqlite_error)?;
    let Some(row) = rows.next().map_err(sqlite_error)? else { return Ok(None) };
    let text = |column| match row.get_ref(column).map_err(sqlite_error)? {
        ValueRef::Text(text) => std::str::from_utf8(text).map(Some).map_err(not_text),
        ValueRef::Null => Ok(None),
        ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Blob(_) => {
            Err(Error::Bug("a column of an unknown type".to_owned()))
        }
    };
    let int = |column| row.get::<_, i64>(column).map_err(sqlite_error);
    Resource::from_columns(text, int).map(Some)
}

fn not_text(error: std::str::Utf8Error) -> Error {
    Error::Bug(format!("stored text is not UTF-8: {error}"))
}

/// Runs one statement of SQLite's own and counts the rows it changed.
pub(super) fn execute<'a>(
    connection: &Connection,
    sql: &str,
    params: impl IntoIterator<Item = Param<'a>>,
) -> Result<usize> {
    let mut statement = connection.prepare_cached(sql).map_err(sqlite_error)?;
    statement.execute(params_from_iter(params)).map_err(sqlite_error)
}

/// Replaces `$1`, which SQLite takes for a name, by `?1`.
pub(crate) fn native(sql: &str) -> String {
    sql.replace('$', "?")
}

fn from_sqlite(value: ValueRef<'_>) -> Result<Value> {
    match value {
        ValueRef::Null => Ok(Value::Null),
        ValueRef::Integer(value) => Ok(Value::Int(value)),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => Ok(Value::Text(text.to_owned())),
            Err(error) => Err(not_text(error)),
        },
        ValueRef::Real(_) | ValueRef::Blob(_) => Err(Error::Bug("a column of an unknown type".to_owned())),
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Null => Ok(ToSqlOutput::Borrowed(ValueRef::Null)),
            Self::Int(value) => Ok(ToSqlOutput::Borrowed(ValueRef::Integer(*value))),
            Self::Text(text) => Ok(ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes()))),
            Self::Texts(_) => Err(rusqlite::Error::ToSqlConversionFailure("SQLite has no arrays".into())),
        }
    }
}

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Null => Ok(ToSqlOutput::Borrowed(ValueRef::Null)),
            Self::Int(value) => Ok(ToSqlOutput::Borrowed(ValueRef::Integer(*value))),
            Self::Text(text) => Ok(ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes()))),
            Self::Texts(_) | Self::Ints(_) | Self::Column(_) => {
                Err(rusqlite::Error::ToSqlConversionFailure("SQLite has no arrays".into()))
            }
        }
    }
}

/// Sorts an error: failures of the machine are `Unavailable`, mistakes of the program are bugs.
pub(crate) fn sqlite_error(error: rusqlite::Error) -> Error {
    const MACHINE: [ErrorCode; 10] = [
        ErrorCode::CannotOpen,
        ErrorCode::DatabaseBusy,
        ErrorCode::DatabaseCorrupt,
        ErrorCode::DatabaseLocked,
        ErrorCode::DiskFull,
        ErrorCode::FileLockingProtocolFailed,
        ErrorCode::NotADatabase,
        ErrorCode::OutOfMemory,
        ErrorCode::ReadOnly,
        ErrorCode::SystemIoFailure,
    ];
    if error.sqlite_error_code().is_some_and(|code| MACHINE.contains(&code)) {
        Error::Unavailable(error.to_string())
    } else {
        Error::Bug(error.to_string())
    }
}

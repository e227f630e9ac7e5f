//! PostgreSQL's errors, sorted by how a caller reacts to them.

use std::error::Error as _;
use std::io;

use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::WrongType;

use crate::error::{Error, Wait};

/// The same statement may succeed when it is sent again: nothing of it has happened.
pub(super) fn retryable(error: &tokio_postgres::Error) -> bool {
    let again = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
    error.code().is_some_and(|code| again.contains(code))
}

/// Classes of errors that are about the server and not about the statement: connection, resources, operator
/// intervention, system; then transactions that stayed in conflict.
const SERVER: [&str; 5] = ["08", "53", "57", "58", "40"];

/// Classes that say that there is no such database, or that we may not use it.
const ADDRESS: [&str; 2] = ["3D", "28"];

/// Where two living resources meet over a key; every other unique index is guarded by the version check.
const KEYS: &str = "resource_keys_pkey";

/// A key that is taken is a conflict, for the caller to look into.
pub(super) fn server_error(error: tokio_postgres::Error) -> Error {
    match error.as_db_error() {
        Some(said) if said.constraint() == Some(KEYS) => Error::Conflict,
        Some(_) if read_only(&error) => Error::ReadOnly,
        Some(said) if *said.code() == SqlState::LOCK_NOT_AVAILABLE => Error::CutShort(Wait::Lock),
        Some(said) if *said.code() == SqlState::QUERY_CANCELED => Error::CutShort(Wait::Statement),
        Some(said) if SERVER.iter().any(|class| said.code().code().starts_with(class)) => {
            Error::Unavailable(said.message().to_owned())
        }
        Some(said) if ADDRESS.iter().any(|class| said.code().code().starts_with(class)) => {
            Error::Unavailable(format!("{}; is server.database_url (--database-url) right?", said.message()))
        }
        Some(said) => Error::Bug(format!("{} ({})", said.message(), said.code().code())),
        None if error.source().is_some_and(|source| source.is::<WrongType>()) => {
            Error::Bug(error.to_string())
        }
        None if no_primary(&error) => Error::ReadOnly,
        None => Error::Unavailable(with_cause(&error)),
    }
}

/// Whether the server refused a change because it is read-only. Another server may lead by now, or its
/// settings may have changed for new connections.
pub(super) fn read_only(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
}

/// How the driver says that it found none that takes changes; what the operating system forbids has a number.
fn no_primary(error: &tokio_postgres::Error) -> bool {
    let said = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    said.is_some_and(|said| said.kind() == io::ErrorKind::PermissionDenied && said.raw_os_error().is_none())
}

/// The same as [`server_error`] of a statement that commits: without the server's word it may have been made. What
/// ends a connection may come after the commit.
pub(super) fn commit_error(error: tokio_postgres::Error) -> Error {
    let said_no = error.as_db_error().is_some_and(|said| said.parsed_severity() == Some(Severity::Error));
    let sorted = server_error(error);
    if let (false, Error::Unavailable(why)) = (said_no, &sorted) {
        return Error::Unanswered(why.clone());
    }
    sorted
}

/// The driver's own words rarely say what happened underneath.
fn with_cause(error: &tokio_postgres::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

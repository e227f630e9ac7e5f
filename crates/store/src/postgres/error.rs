//! PostgreSQL's errors, sorted by how a caller reacts to them.

use std::error::Error as _;
use std::io;

use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::WrongType;

use crate::error::{Error, Wait};

/// Whether the statement had no effect and may succeed when repeated.
pub(super) fn retryable(error: &tokio_postgres::Error) -> bool {
    let again = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
    error.code().is_some_and(|code| again.contains(code))
}

/// Error classes of the server: connection, resources, operator intervention, system; and serialization
/// failures.
const SERVER: [&str; 5] = ["08", "53", "57", "58", "40"];

/// Error classes for a missing database or missing rights.
const ADDRESS: [&str; 2] = ["3D", "28"];

/// The unique index of keys; the version check covers every other one.
const KEYS: &str = "resource_keys_pkey";

/// Converts an error; a taken key is a conflict, which the caller resolves.
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

/// Whether the server refused a change because it is read-only: the primary may have changed.
pub(super) fn read_only(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
}

/// Recognises the driver's error that no host takes changes.
fn no_primary(error: &tokio_postgres::Error) -> bool {
    let said = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    said.is_some_and(|said| said.kind() == io::ErrorKind::PermissionDenied && said.raw_os_error().is_none())
}

/// As [`server_error`], for a statement that commits: without the server's answer it may have been made,
/// because a connection may end after the commit.
pub(super) fn commit_error(error: tokio_postgres::Error) -> Error {
    let said_no = error.as_db_error().is_some_and(|said| said.parsed_severity() == Some(Severity::Error));
    let sorted = server_error(error);
    if let (false, Error::Unavailable(why)) = (said_no, &sorted) {
        return Error::Unanswered(why.clone());
    }
    sorted
}

/// Adds the cause to the driver's text.
fn with_cause(error: &tokio_postgres::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

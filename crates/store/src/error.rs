//! Errors of the store, sorted by how a caller reacts to them.

use std::fmt;
use std::path::PathBuf;

/// Shorthand for this crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The errors of the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another writer changed or created the resource first: read it again and decide again.
    #[error("another request changed the resource first")]
    Conflict,
    /// Another living resource of the kind has this key.
    #[error("the key {key:?} belongs to {holder}")]
    KeyTaken {
        /// The key in question.
        key: String,
        /// The id of the resource that has it.
        holder: String,
    },
    /// A resource is still in use and cannot be removed.
    #[error("{kind} {id} uses it")]
    Used {
        /// The kind of the user.
        kind: String,
        /// The id of the user.
        id: String,
    },
    /// The change was made under a dry run, so nothing is written.
    #[error("a dry run writes nothing")]
    DryRun,
    /// The member is not at the version that the change was asked for.
    #[error("the resource has another version than the caller saw")]
    Moved,
    /// Another holder has the lease that the change was made under.
    #[error("the lease {lease:?} was lost to another holder")]
    Fenced {
        /// The name of that lease.
        lease: String,
    },
    /// The caller sent a value that cannot be stored.
    #[error("{field}: {reason}")]
    Invalid {
        /// Which part of the input.
        field: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A feed cursor of another epoch, or no cursor at all: start again from the beginning or from the tail.
    #[error("the cursor does not belong to this feed")]
    ForeignCursor,
    /// The database cannot be reached or refuses to work now.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// A commit was sent and not answered: it may have happened, or may still happen. Read before you retry.
    #[error("the outcome of the change is unknown, because the database did not answer: {0}")]
    Unanswered(String),
    /// The database timed out, and changed nothing.
    #[error("the database timed out: {0}")]
    CutShort(Wait),
    /// The database takes no changes from us.
    #[error(
        "the database is read-only: it is a standby, or default_transaction_read_only is on; name the primary in \
         server.database_url (of several hosts the one that takes changes is used), or ALTER the role and the \
         database to SET default_transaction_read_only = off"
    )]
    ReadOnly,
    /// A newer program has migrated this database.
    #[error("the database has schema {found}, this program knows schemas up to {known}")]
    NewerSchema {
        /// The version in the database.
        found: i64,
        /// The newest version this program knows.
        known: i64,
    },
    /// The database is older than this program, and no server has been started on it yet.
    #[error(
        "the database has schema {found}, this program needs {known}; start the server once to migrate it"
    )]
    OlderSchema {
        /// The version in the database.
        found: i64,
        /// The version this program needs.
        known: i64,
    },
    /// A second server on one embedded database.
    #[error("{} is in use by another server: stop that one, or give this one a folder of its own (server.data_dir, --data-dir)", .0.display())]
    InUse(PathBuf),
    /// The setup of the database breaks a promise of the store.
    #[error("the database is not safe to use: {0}")]
    Unsafe(String),
    /// The target of a restore has something in it.
    #[error("the target of the restore is not empty")]
    NotEmpty,
    /// A backup that is cut, altered or of a format this program does not know.
    #[error("the backup cannot be used: {0}")]
    Damaged(String),
    /// A file operation failed.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The store and its database disagree in a way that should be impossible.
    #[error("bug in the store: {0}")]
    Bug(String),
}

/// The wait that timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Another session holds a lock for too long.
    Lock,
    /// The end of a statement.
    Statement,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lock => "a session holds a lock for longer than lock_timeout; pg_blocking_pids() names it",
            Self::Statement => {
                "a statement took longer than statement_timeout, or was cancelled; pg_stat_activity shows what it waits for"
            }
        })
    }
}

impl Error {
    /// Whether caches must be read again after this failure of a commit: it may have happened, or the
    /// database refuses every change now.
    #[must_use]
    pub fn leaves_doubt(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Unanswered(_) | Self::CutShort(_) | Self::ReadOnly)
    }

    /// Attaches the path to what the operating system said.
    pub(crate) fn file(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}

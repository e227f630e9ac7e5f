//! Where a store keeps its data.

use std::fmt;
use std::path::PathBuf;

/// The embedded database in a folder, or a PostgreSQL server.
#[derive(Clone, PartialEq, Eq)]
pub enum Location {
    /// SQLite in the file `wardroom.db` of this folder, which is created when missing.
    Sqlite {
        /// The folder.
        dir: PathBuf,
    },
    /// PostgreSQL; any number of servers may share it.
    Postgres {
        /// A connection URL, password included.
        url: String,
    },
}

impl Location {
    /// Returns whether several servers may use the database at the same moment.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        match self {
            Self::Sqlite { .. } => false,
            Self::Postgres { .. } => true,
        }
    }
}

/// The URL may hold a password, so it is never printed.
impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite { dir } => f.debug_struct("Sqlite").field("dir", dir).finish(),
            Self::Postgres { .. } => f.debug_struct("Postgres").finish_non_exhaustive(),
        }
    }
}

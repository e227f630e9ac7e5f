//! Migrations, run at start.
//!
//! What must stay true: a schema that a newer program made is refused. From release 0.1.0 on a migration is never changed
//! or removed, and only expands what an older program still reads.

use crate::error::{Error, Result};

mod embedded {
    pub(super) mod sqlite {
        refinery::embed_migrations!("../../migrations/sqlite");
    }
    pub(super) mod postgres {
        refinery::embed_migrations!("../../migrations/postgres");
    }
}

pub(crate) fn sqlite_runner() -> refinery::Runner {
    embedded::sqlite::migrations::runner()
}

pub(crate) fn postgres_runner() -> refinery::Runner {
    embedded::postgres::migrations::runner()
}

/// The newest schema this program knows; both databases number theirs alike.
pub(crate) fn known() -> i64 {
    sqlite_runner().get_migrations().iter().map(|migration| i64::from(migration.version())).max().unwrap_or(0)
}

/// Refuses a schema from the future.
pub(crate) fn refuse_newer(found: i64) -> Result<()> {
    if found > known() { Err(Error::NewerSchema { found, known: known() }) } else { Ok(()) }
}

/// Refuses anything but the schema this program knows.
pub(crate) fn require_current(found: i64) -> Result<()> {
    refuse_newer(found)?;
    if found < known() { Err(Error::OlderSchema { found, known: known() }) } else { Ok(()) }
}

/// The same question on both databases once the table exists.
pub(crate) const SCHEMA_VERSION: &str =
    "SELECT coalesce(max(CAST(version AS BIGINT)), 0) FROM refinery_schema_history";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_databases_have_the_same_migrations() {
        let names = |runner: refinery::Runner| {
            runner.get_migrations().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(names(sqlite_runner()), names(postgres_runner()));
    }
}

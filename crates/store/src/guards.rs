//! The triggers that keep history and checkpoints append-only.
//!
//! A database user with rights on the schema can drop them, so a verification reports missing ones, and a
//! start creates them again. A test compares their text with the migrations.

use crate::error::Result;
use crate::sql::Dialect;
use crate::store::Database;
use crate::value::{Row, params};

/// A trigger, and the statement that makes it.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) name: &'static str,
    pub(crate) make: &'static str,
}

/// Returns the missing triggers, by the rows of [`Dialect::guards_there`].
pub(crate) fn missing(dialect: &'static Dialect, there: Vec<Row>) -> Result<Vec<&'static Guard>> {
    let there = there.into_iter().map(|mut row| row.text()).collect::<Result<Vec<_>>>()?;
    Ok(dialect.guards.iter().filter(|guard| !there.iter().any(|name| name == guard.name)).collect())
}

/// Creates missing triggers; returns their names.
pub(crate) async fn mend(database: &Database) -> Result<Vec<&'static str>> {
    let dialect = database.dialect();
    let missing = missing(dialect, database.read(dialect.guards_there, params![]).await?)?;
    for guard in &missing {
        database.write(guard.make, params![]).await?;
    }
    Ok(missing.iter().map(|guard| guard.name).collect())
}

#[cfg(test)]
mod tests {
    use crate::{migrate, postgres, sqlite};

    #[test]
    fn guards_are_those_of_the_migrations() {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for (dialect, runner) in [
            (&sqlite::dialect::DIALECT, migrate::sqlite_runner()),
            (&postgres::dialect::DIALECT, migrate::postgres_runner()),
        ] {
            let migrations: String =
                runner.get_migrations().iter().filter_map(|migration| migration.sql()).collect();
            let migrations = words(&migrations);
            for guard in dialect.guards {
                let made = words(guard.make).replace("OR REPLACE TRIGGER", "TRIGGER");
                assert!(made.starts_with(&format!("CREATE TRIGGER {} ", guard.name)), "{made}");
                assert!(migrations.contains(&made), "{made}");
            }
            for table in ["history", "checkpoints"] {
                let guards = migrations.matches(&format!("CREATE TRIGGER {table}_")).count();
                let known = dialect.guards.iter().filter(|guard| guard.name.starts_with(table)).count();
                assert_eq!(guards, known, "{table}");
            }
        }
    }
}

//! Changing a database behind the store's back, past the triggers that forbid it.

use crate::database::Database;

pub(crate) struct Tampering<'a>(&'a Database);

impl Tampering<'_> {
    pub(crate) async fn execute(&self, sql: &str) {
        let off = match self.0 {
            Database::Sqlite(_) => "",
            Database::Postgres(_) => "SET session_replication_role = replica;",
        };
        self.0.execute(&format!("{off} {sql}")).await.unwrap();
    }
}

/// A session that the append-only triggers do not stop.
pub(crate) async fn tampering(database: &Database) -> Tampering<'_> {
    if let Database::Sqlite(_) = database {
        for table in ["history", "checkpoints"] {
            for change in ["update", "delete", "replace"] {
                database.execute(&format!("DROP TRIGGER {table}_no_{change}")).await.unwrap();
            }
        }
    }
    Tampering(database)
}

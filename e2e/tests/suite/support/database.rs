//! The database of a site, and SQL behind the back of its servers.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use super::site::Backend;

#[derive(Debug)]
pub(crate) enum Database {
    Sqlite { dir: PathBuf },
    Postgres { url: String, admin: String, name: String },
}

impl Database {
    /// A fresh one for each test.
    pub(crate) fn create(backend: Backend, dir: &Path) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        if backend == Backend::Sqlite {
            return Self::Sqlite { dir: dir.to_owned() };
        }
        let admin = std::env::var("WARDROOM_TEST_POSTGRES")
            .expect("WARDROOM_TEST_POSTGRES names no PostgreSQL to test with: run ./dev test");
        let name = format!("e2e_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        run(&admin, &format!("CREATE DATABASE {name}")).unwrap();
        let (base, query) = admin.split_once('?').unwrap_or((&admin, ""));
        let server = base.rsplit_once('/').unwrap().0;
        Self::Postgres { url: format!("{server}/{name}?{query}"), name, admin: admin.clone() }
    }

    pub(crate) fn url(&self) -> Option<&str> {
        match self {
            Self::Sqlite { .. } => None,
            Self::Postgres { url, .. } => Some(url),
        }
    }

    /// Runs SQL behind the back of the servers.
    pub(crate) fn execute(&self, sql: &str) -> Result<(), String> {
        match self {
            Self::Sqlite { dir } => {
                let connection = rusqlite::Connection::open(dir.join("wardroom.db")).unwrap();
                connection.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
                connection.execute_batch(sql).map_err(|error| error.to_string())
            }
            Self::Postgres { url, .. } => run(url, sql),
        }
    }

    /// The text that a query of one row has.
    pub(crate) fn text(&self, sql: &str) -> String {
        match self {
            Self::Sqlite { dir } => {
                let connection = rusqlite::Connection::open(dir.join("wardroom.db")).unwrap();
                connection.query_row(sql, [], |row| row.get(0)).unwrap()
            }
            Self::Postgres { url, .. } => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime
                    .block_on(async { connect(url).await.unwrap().query_one(sql, &[]).await.unwrap().get(0) })
            }
        }
    }

    /// Does something while a transaction of PostgreSQL holds the locks that a statement takes.
    pub(crate) fn hold<T>(&self, sql: &str, run: impl FnOnce() -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let url = self.url().expect("only PostgreSQL has such locks");
        let client = runtime.block_on(connect(url)).unwrap();
        runtime.block_on(client.batch_execute(&format!("BEGIN; {sql}"))).unwrap();
        let done = run();
        runtime.block_on(client.batch_execute("COMMIT")).unwrap();
        done
    }

    /// Everything in a PostgreSQL, as text.
    pub(crate) fn dump(&self) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = connect(self.url().expect("only PostgreSQL is asked")).await.unwrap();
            let tables = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'";
            let mut dump = String::new();
            for table in client.query(tables, &[]).await.unwrap() {
                let table: String = table.get(0);
                let rows = client.query(&format!("SELECT t::text FROM {table} t"), &[]).await.unwrap();
                rows.iter().for_each(|row| dump += row.get::<_, &str>(0));
            }
            dump
        })
    }

    /// Returns whether a session waits for a lock of PostgreSQL.
    pub(crate) fn waits(&self) -> bool {
        let waiting =
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        self.count(waiting) > 0
    }

    /// How many rows a query of PostgreSQL has.
    pub(crate) fn count(&self, sql: &str) -> usize {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = connect(self.url().expect("only PostgreSQL is asked")).await.unwrap();
            client.query(sql, &[]).await.unwrap().len()
        })
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Self::Postgres { admin, name, .. } = self {
            // The rest is removed with the cluster.
            let _ = run(admin, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
        }
    }
}

fn run(url: &str, sql: &str) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = connect(url).await?;
        client.batch_execute(sql).await.map_err(|error| format!("{error:?}"))
    })
}

async fn connect(url: &str) -> Result<tokio_postgres::Client, String> {
    let connected = tokio_postgres::connect(url, tokio_postgres::NoTls).await;
    let (client, connection) = connected.map_err(|error| error.to_string())?;
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

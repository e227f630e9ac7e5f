//! A database of its own for each test, on either side.

use std::sync::atomic::{AtomicUsize, Ordering};

use wardroom_store::{Location, Store};

/// Holds what must live as long as the test.
pub(crate) enum Database {
    Sqlite(tempfile::TempDir),
    Postgres(Cluster),
}

impl Database {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(crate) async fn postgres() -> Self {
        Self::Postgres(Cluster::create().await)
    }

    pub(crate) fn location(&self) -> Location {
        match self {
            Self::Sqlite(dir) => Location::Sqlite { dir: dir.path().to_owned() },
            Self::Postgres(cluster) => Location::Postgres { url: cluster.url.clone() },
        }
    }

    pub(crate) async fn open(&self) -> Store {
        Store::open(&self.location()).await.unwrap()
    }

    /// Runs SQL behind the store's back.
    pub(crate) async fn execute(&self, sql: &str) -> Result<(), String> {
        match self {
            Self::Sqlite(dir) => {
                let connection = rusqlite::Connection::open(dir.path().join("wardroom.db")).unwrap();
                connection.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
                connection.execute_batch(sql).map_err(|error| error.to_string())
            }
            Self::Postgres(cluster) => {
                let client = connect(&cluster.url).await;
                client.batch_execute(sql).await.map_err(|error| format!("{error:?}"))
            }
        }
    }
}

pub(crate) struct Cluster {
    pub(crate) url: String,
    admin: String,
    name: String,
}

impl Cluster {
    async fn create() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let admin = std::env::var("WARDROOM_TEST_POSTGRES")
            .expect("WARDROOM_TEST_POSTGRES names no PostgreSQL to test with: run ./dev test");
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("store_test_{}_{count}", std::process::id());
        connect(&admin).await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let (base, query) = admin.split_once('?').unwrap_or((&admin, ""));
        let server = base.rsplit_once('/').expect("an URL with a database").0;
        Self { url: format!("{server}/{name}?{query}"), name, admin: admin.clone() }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let (admin, name) = (self.admin.clone(), self.name.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
                connect(&admin).await.batch_execute(&drop).await.unwrap();
            });
        });
        drop(thread.join());
    }
}

pub(crate) async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    client
}

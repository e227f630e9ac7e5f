//! Shared by tests of several modules.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A new database in the PostgreSQL for tests; dropped with this value.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) url: String,
    admin: String,
    name: String,
}

pub(crate) async fn database() -> Database {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let admin = std::env::var("WARDROOM_TEST_POSTGRES")
        .expect("WARDROOM_TEST_POSTGRES names no PostgreSQL to test with: run ./dev test");
    let name = format!("server_test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    execute(&admin, &format!("CREATE DATABASE {name}")).await;
    let (base, query) = admin.split_once('?').unwrap_or((&admin, ""));
    let server = base.rsplit_once('/').expect("a URL with a database").0;
    Database { url: format!("{server}/{name}?{query}"), name, admin: admin.clone() }
}

pub(crate) async fn execute(url: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    let (done, _) = tokio::join!(
        async {
            let done = client.batch_execute(sql).await;
            drop(client);
            done
        },
        connection
    );
    done.unwrap();
}

impl Drop for Database {
    fn drop(&mut self) {
        let (admin, name) = (self.admin.clone(), self.name.clone());
        // A new runtime: the current one may be shutting down.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(execute(&admin, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")));
        });
        // A database that cannot be dropped goes with its cluster.
        let _ = dropped.join();
    }
}

//! What tests of several modules need.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A database of its own in the PostgreSQL that tests are given; what is left of it goes with its cluster.
pub(crate) async fn database() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let admin = std::env::var("WARDROOM_TEST_POSTGRES")
        .expect("WARDROOM_TEST_POSTGRES names no PostgreSQL to test with: run ./dev test");
    let (client, connection) = tokio_postgres::connect(&admin, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    let name = format!("server_test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    format!("{}/{name}", admin.rsplit_once('/').unwrap().0)
}

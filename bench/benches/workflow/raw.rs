//! A plain loop that claims and advances the same rows, without Wardroom.

use std::{
    path::Path,
    time::{Duration, Instant},
};

const ROWS: i64 = 64;

const CLAIM: &str = "INSERT INTO leases (name, holder, epoch, expires_at) VALUES ($1, 'loop', 1, 0) \
     ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, epoch = leases.epoch + 1";
const READ: &str = "SELECT version, document FROM resources WHERE kind = 'run' AND id = $1";
const ADVANCE: &str = "UPDATE resources SET version = version + 1, document = $1, updated_at = $2, due_at = $2 \
     WHERE kind = 'run' AND id = $3 AND version = $4";
const RECORD: &str = "INSERT INTO history (kind, resource_id, sequence, type, from_state, to_state, triggered_by, \
     metadata, created_at, hash) VALUES ('run', $1, CAST($2 AS bigint) + 1, 'attempt', 'running', 'running', 'workflow', \
     '{\"stage\":\"configure_storage\",\"attempt\":1,\"outcome\":\"done\"}', $3, $1)";
const TIME: &str = "2026-01-01T00:00:00.000000Z";

fn id_of(number: i64) -> String {
    format!("01900000-0000-7000-8000-{number:012x}")
}

/// Advances a second on the database in a folder.
pub(crate) fn sqlite(folder: &Path, period: Duration) -> f64 {
    use rusqlite::{Connection, params};
    let connection = Connection::open(folder.join("wardroom.db")).unwrap();
    connection.pragma_update(None, "synchronous", "FULL").unwrap();
    connection.busy_timeout(period).unwrap();
    let mut done = 0;
    let began = Instant::now();
    while began.elapsed() < period {
        let id = id_of(done % ROWS);
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        connection.prepare_cached(CLAIM).unwrap().execute([format!("run/{id}")]).unwrap();
        let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
        let (version, document) = connection.prepare_cached(READ).unwrap().query_row([&id], row).unwrap();
        let advance = params![document, TIME, id, version];
        assert_eq!(connection.prepare_cached(ADVANCE).unwrap().execute(advance).unwrap(), 1);
        connection.prepare_cached(RECORD).unwrap().execute(params![id, version, TIME]).unwrap();
        connection.execute_batch("COMMIT").unwrap();
        done += 1;
    }
    done as f64 / began.elapsed().as_secs_f64()
}

/// Advances a second by so many connections, each with rows of its own.
pub(crate) async fn postgres(url: &str, clients: usize, period: Duration) -> f64 {
    let began = Instant::now();
    let loops = (0..clients).map(|number| tokio::spawn(one_client(url.to_owned(), number, period)));
    let mut done = 0;
    for one in loops.collect::<Vec<_>>() {
        done += one.await.unwrap();
    }
    done as f64 / began.elapsed().as_secs_f64()
}

async fn one_client(url: String, number: usize, period: Duration) -> u64 {
    let mut client = connect(&url).await;
    let [claim, read, advance, record] = [
        client.prepare(CLAIM).await.unwrap(),
        client.prepare(READ).await.unwrap(),
        client.prepare(ADVANCE).await.unwrap(),
        client.prepare(RECORD).await.unwrap(),
    ];
    let first = i64::try_from(number).unwrap() * ROWS;
    let mut done = 0;
    let began = Instant::now();
    while began.elapsed() < period {
        let id = id_of((first + i64::try_from(done).unwrap() % ROWS) % 1000);
        let transaction = client.transaction().await.unwrap();
        transaction.execute(&claim, &[&format!("run/{id}")]).await.unwrap();
        let row = transaction.query_one(&read, &[&id]).await.unwrap();
        let (version, document): (i64, String) = (row.get(0), row.get(1));
        let advanced = transaction.execute(&advance, &[&document, &TIME, &id, &version]).await.unwrap();
        assert_eq!(advanced, 1);
        transaction.execute(&record, &[&id, &version, &TIME]).await.unwrap();
        transaction.commit().await.unwrap();
        done += 1;
    }
    done
}

async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    client
}

/// A database of its own in the cluster.
pub(crate) async fn new_database(admin: &str) -> String {
    let name = format!("workflow_{}", std::process::id());
    connect(admin).await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let (base, query) = admin.split_once('?').unwrap_or((admin, ""));
    let server = base.rsplit_once('/').unwrap().0;
    format!("{server}/{name}?{query}")
}

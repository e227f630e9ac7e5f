//! The same rows without Wardroom.

use crate::fleet::{KIND, Where, id, new_database};

/// Rows in one statement, or transaction.
const BATCH: usize = 10_000;

pub(crate) async fn insert(at: &Where, rows: usize) {
    match at {
        Where::Sqlite => sqlite(rows),
        Where::Postgres(admin) => postgres(&new_database(admin).await, rows).await,
    }
}

fn sqlite(rows: usize) {
    let folder = tempfile::tempdir().unwrap();
    let connection = rusqlite::Connection::open(folder.path().join("raw.db")).unwrap();
    connection.pragma_update(None, "journal_mode", "WAL").unwrap();
    connection.pragma_update(None, "synchronous", "NORMAL").unwrap();
    connection
        .execute_batch("CREATE TABLE raw (kind TEXT, id TEXT, seen_at INTEGER, every_seconds INTEGER, PRIMARY KEY (kind, id)) STRICT, WITHOUT ROWID")
        .unwrap();
    for first in (0..rows).step_by(BATCH) {
        let transaction = connection.unchecked_transaction().unwrap();
        let mut insert = transaction.prepare_cached("INSERT INTO raw VALUES (?1, ?2, ?3, ?4)").unwrap();
        for member in first..rows.min(first + BATCH) {
            insert.execute((KIND, id(member), 1_790_000_000_000_i64, 30)).unwrap();
        }
        drop(insert);
        transaction.commit().unwrap();
    }
}

/// Reads every row of what members were heard; answers how many there are.
pub(crate) async fn read(url: &str) -> usize {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    let query = "SELECT id, seen_at, every_seconds FROM liveness WHERE kind = $1";
    let rows = client.query(query, &[&KIND]).await.unwrap();
    let ids = rows.iter().filter(|row| !row.get::<_, String>(0).is_empty() && row.get::<_, i64>(1) > 0);
    ids.count()
}

/// Makes the rows of so many members older than their rule allows.
pub(crate) async fn make_older(url: &str, members: usize) {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    let update = "UPDATE liveness SET seen_at = seen_at - 100000 WHERE kind = $1 AND id < $2";
    client.execute(update, &[&KIND, &id(members)]).await.unwrap();
}

async fn postgres(url: &str, rows: usize) {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    client
        .batch_execute("CREATE TABLE raw (kind text, id text, seen_at bigint, every_seconds bigint, PRIMARY KEY (kind, id))")
        .await
        .unwrap();
    let insert = "INSERT INTO raw SELECT $1, id, 1790000000000, 30 FROM unnest($2::text[]) AS member (id)";
    let insert = client.prepare(insert).await.unwrap();
    for first in (0..rows).step_by(BATCH) {
        let ids: Vec<String> = (first..rows.min(first + BATCH)).map(id).collect();
        client.execute(&insert, &[&KIND, &ids]).await.unwrap();
    }
}

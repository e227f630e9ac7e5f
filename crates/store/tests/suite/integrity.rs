//! History cannot be changed unnoticed.

use wardroom_store::{CheckpointFault, Fault, Report, RowFault, SealKey, verify};

use crate::database::Database;
use crate::sample::{at, created, entry, feed_of, id, moved, to_state};
use crate::tampering::tampering;

fn key() -> SealKey {
    SealKey::new(&[7; 32]).unwrap()
}

async fn check(database: &Database) -> Report {
    verify(&database.location(), Some(&key()), &[]).await.unwrap()
}

fn row(number: usize, sequence: i64, reason: RowFault) -> Option<Fault> {
    Some(Fault::Row { kind: "node".to_owned(), resource_id: id(number), sequence, reason })
}

fn checkpoint(number: i64, reason: CheckpointFault) -> Option<Fault> {
    Some(Fault::Checkpoint { number, reason })
}

/// Three resources with three rows each, sealed after the first two rounds.
async fn filled(database: &Database) {
    let store = database.open().await;
    let mut resources = vec![];
    for number in 1..=3 {
        resources.push(created(&store, number).await);
    }
    for (round, state) in ["pending", "installing"].into_iter().enumerate() {
        for resource in &mut resources {
            let mut change = to_state(resource, state);
            change.entry = entry("transition");
            change.entry.comment = Some("because".to_owned());
            change.entry.metadata = serde_json::json!({ "round": round });
            *resource = store.commit(change).await.unwrap().resource;
        }
        feed_of(&store, 6 + 3 * round).await;
        let sealed = store.seal(&key(), at(1)).await.unwrap().unwrap();
        assert_eq!(sealed.number, i64::try_from(round).unwrap() + 1);
    }
    assert_eq!(store.seal(&key(), at(2)).await.unwrap(), None);
    assert_eq!(store.checkpoints(0, 10).await.unwrap().len(), 2);
}

pub(crate) async fn an_honest_history_verifies(database: Database) {
    filled(&database).await;
    let store = database.open().await;
    let unsealed = created(&store, 4).await;
    moved(&store, &unsealed, "pending").await;
    let expected = Report { resources: 4, rows: 11, checkpoints: 2, sealed_rows: 9, fault: None };
    assert_eq!(check(&database).await, expected);
    feed_of(&store, 11).await;
    let (one, other) = (key(), key());
    let sealed = tokio::join!(store.seal(&one, at(3)), store.seal(&other, at(3)));
    assert!(sealed.0.unwrap().is_some() != sealed.1.unwrap().is_some(), "of two seals at once, one succeeds");
    drop(store);
    assert_eq!(check(&database).await, Report { checkpoints: 3, sealed_rows: 11, ..expected });
}

pub(crate) async fn history_is_append_only(database: Database) {
    filled(&database).await;
    let statements = [
        "UPDATE history SET comment = 'x' WHERE sequence = 1",
        "DELETE FROM history WHERE sequence = 3",
        "UPDATE checkpoints SET row_count = 0",
        "DELETE FROM checkpoints",
    ];
    for statement in statements {
        let refused = database.execute(statement).await.unwrap_err();
        assert!(refused.contains("append-only"), "{statement}: {refused}");
    }
    let further: &[&str] = match database {
        Database::Postgres(_) => &[
            "TRUNCATE history",
            "INSERT INTO checkpoints SELECT * FROM checkpoints ON CONFLICT (number) DO UPDATE SET row_count = 0",
        ],
        // Each of the keys that a row could be replaced by, and a place between those that there are.
        Database::Sqlite(_) => &[
            "INSERT OR REPLACE INTO history SELECT * FROM history WHERE sequence = 2",
            "REPLACE INTO history (kind, resource_id, sequence, type, to_state, triggered_by, created_at, hash) \
             SELECT kind, resource_id, sequence, type, 'elsewhere', triggered_by, created_at, hash FROM history",
            "REPLACE INTO history (position, kind, resource_id, sequence, type, to_state, triggered_by, created_at, \
             hash) SELECT 1, 'node', 'new', 1, 'made', 'new', 'admin', '', ''",
            "INSERT INTO history (position, kind, resource_id, sequence, type, to_state, triggered_by, created_at, \
             hash) SELECT -7, 'node', 'new', 1, 'made', 'new', 'admin', '', ''",
            "REPLACE INTO checkpoints SELECT * FROM checkpoints",
        ],
    };
    for statement in further {
        let refused = database.execute(statement).await.unwrap_err();
        assert!(refused.contains("append-only"), "{statement}: {refused}");
    }
    let expected = Report { resources: 3, rows: 9, checkpoints: 2, sealed_rows: 9, fault: None };
    assert_eq!(check(&database).await, expected);
}

/// Faults beside the missing triggers, which have to be dropped to tamper with an embedded database.
async fn beside_guards(database: &Database) -> Option<Fault> {
    let fault = check(database).await.fault;
    let unguarded = matches!(fault, Some(Fault::Unguarded { .. }));
    assert_eq!(unguarded, matches!(database, Database::Sqlite(_)), "{fault:?}");
    fault.filter(|_| !unguarded)
}

pub(crate) async fn every_column_is_sealed(database: Database) {
    filled(&database).await;
    let columns = [
        ("type", "'x'"),
        ("from_state", "'x'"),
        ("from_state", "NULL"),
        ("to_state", "'x'"),
        ("triggered_by", "'x'"),
        ("user_id", "NULL"),
        ("comment", "''"),
        ("metadata", "NULL"),
        ("request_id", "'x'"),
        ("created_at", "'2020-01-01T00:00:00.000000Z'"),
        ("hash", "'x'"),
    ];
    let place = format!("WHERE resource_id = '{}' AND sequence = 2", id(2));
    let session = tampering(&database).await;
    for (column, value) in columns {
        session.execute(&format!("CREATE TABLE kept AS SELECT * FROM history {place}")).await;
        session.execute(&format!("UPDATE history SET {column} = {value} {place}")).await;
        assert_eq!(check(&database).await.fault, row(2, 2, RowFault::Altered), "{column}");
        let old = format!("(SELECT kept.{column} FROM kept)");
        session.execute(&format!("UPDATE history SET {column} = {old} {place}; DROP TABLE kept")).await;
        assert_eq!(beside_guards(&database).await, None, "{column} put back");
    }
}

pub(crate) async fn a_missing_row_is_named(database: Database) {
    filled(&database).await;
    let session = tampering(&database).await;
    session.execute(&format!("DELETE FROM history WHERE resource_id = '{}' AND sequence = 2", id(2))).await;
    assert_eq!(check(&database).await.fault, row(2, 2, RowFault::Missing));
    session.execute(&format!("DELETE FROM history WHERE resource_id = '{}'", id(1))).await;
    assert_eq!(check(&database).await.fault, row(1, 1, RowFault::Missing));
}

pub(crate) async fn a_cut_tail_is_noticed(database: Database) {
    filled(&database).await;
    let session = tampering(&database).await;
    session.execute(&format!("DELETE FROM history WHERE resource_id = '{}' AND sequence = 3", id(2))).await;
    assert_eq!(check(&database).await.fault, row(2, 2, RowFault::HeadDiffers));
    let head = "(SELECT hash FROM history WHERE resource_id = resources.id AND sequence = 2)";
    let rewind =
        format!("UPDATE resources SET version = 2, state = 'pending', head = {head} WHERE id = '{}'", id(2));
    session.execute(&rewind).await;
    assert_eq!(check(&database).await.fault, checkpoint(2, CheckpointFault::SealDiffers));
}

pub(crate) async fn a_cut_resource_is_noticed(database: Database) {
    filled(&database).await;
    let session = tampering(&database).await;
    session.execute(&format!("DELETE FROM resources WHERE id = '{}'", id(3))).await;
    assert_eq!(check(&database).await.fault, row(3, 3, RowFault::ResourceGone));
    session.execute(&format!("DELETE FROM history WHERE resource_id = '{}'", id(3))).await;
    assert_eq!(check(&database).await.fault, checkpoint(1, CheckpointFault::SealDiffers));
}

pub(crate) async fn another_order_is_noticed(database: Database) {
    filled(&database).await;
    let session = tampering(&database).await;
    session.execute("UPDATE history SET position = 1000 WHERE position = 2").await;
    session.execute("UPDATE history SET position = 2 WHERE position = 3").await;
    if let Database::Postgres(_) = database {
        session.execute("UPDATE history SET xid = (SELECT min(xid) FROM history) WHERE position < 3").await;
    }
    assert_eq!(check(&database).await.fault, checkpoint(1, CheckpointFault::SealDiffers));
}

pub(crate) async fn checkpoints_cannot_be_forged(database: Database) {
    filled(&database).await;
    let other = SealKey::new(&[8; 32]).unwrap();
    let report = verify(&database.location(), Some(&other), &[]).await.unwrap();
    assert_eq!(report.fault, checkpoint(1, CheckpointFault::BadSignature));

    let store = database.open().await;
    let exported = store.checkpoints(0, 10).await.unwrap();
    drop(store);
    let session = tampering(&database).await;
    session.execute("DELETE FROM checkpoints WHERE number = 1").await;
    assert_eq!(check(&database).await.fault, checkpoint(1, CheckpointFault::Missing));

    session.execute("DELETE FROM checkpoints; DELETE FROM history; DELETE FROM resources").await;
    assert_eq!(beside_guards(&database).await, None, "nothing is left to tell");
    let report = verify(&database.location(), Some(&key()), &exported).await.unwrap();
    assert_eq!(report.fault, checkpoint(1, CheckpointFault::SealDiffers));
}

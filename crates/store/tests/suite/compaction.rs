//! Writing a database anew: owed until it was done, and done by whoever can.

use wardroom_store::{Answer, Claim, Compaction, Error, IdempotencyKey, Location, compact};

use crate::database::Database;
use crate::sample::{at, created};

const ANY_SIZE: u64 = u64::MAX;

/// What is too large to keep a start waiting, and what is not ours, is left, and not forgotten, until somebody does it.
pub(crate) async fn is_owed_until_it_is_done(database: Database) {
    let store = database.open().await;
    created(&store, 1).await;
    assert_eq!(store.compact_if_owed(ANY_SIZE).await.unwrap(), Compaction::NotOwed);
    for _ in 0..2 {
        store.owe_compaction().await.unwrap();
        assert_eq!(store.compact_if_owed(0).await.unwrap(), Compaction::Left);
    }
    drop(store);
    let store = database.open().await;
    assert_eq!(store.compact_if_owed(0).await.unwrap(), Compaction::Left, "nobody remembers it");
    if matches!(database, Database::Sqlite(_)) {
        assert!(matches!(compact(&database.location()).await, Err(Error::InUse(_))));
    }
    drop(store);
    compact(&database.location()).await.unwrap();
    let store = database.open().await;
    assert_eq!(store.compact_if_owed(0).await.unwrap(), Compaction::NotOwed);
    created(&store, 2).await;
}

/// A folder without a database stays one.
#[tokio::test]
async fn nothing_is_made_where_nothing_is() {
    let dir = tempfile::tempdir().unwrap();
    let location = Location::Sqlite { dir: dir.path().to_owned() };
    assert!(matches!(compact(&location).await, Err(Error::File { .. })));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// What was answered goes; that it was answered stays.
pub(crate) async fn answers_are_forgotten_by_what_is_in_them(database: Database) {
    let store = database.open().await;
    let key = |name: &str| {
        let (scope, request_hash) = ("me".to_owned(), "hash".to_owned());
        IdempotencyKey { scope, key: name.to_owned(), request_hash }
    };
    for (name, body) in [("one", r#"{"secret":"in-clear"}"#), ("two", r#"{"name":"n"}"#)] {
        assert_eq!(store.claim_key(&key(name), at(1), at(9)).await.unwrap(), Claim::Claimed);
        let answer = Answer { status: 200, body: body.to_owned() };
        store.answer_key(&key(name), &answer, at(9)).await.unwrap();
    }
    assert_eq!(store.forget_answers(r#"%"secret":"%"#).await.unwrap(), 1);
    for (name, left) in [("one", ""), ("two", r#"{"name":"n"}"#)] {
        let answer = Answer { status: 200, body: left.to_owned() };
        assert_eq!(store.claim_key(&key(name), at(2), at(9)).await.unwrap(), Claim::Answered(answer));
    }
    assert!(store.knows_key("me", "one", at(2)).await.unwrap());
    assert!(!store.knows_key("me", "three", at(2)).await.unwrap());
    assert!(!store.knows_key("me", "one", at(10)).await.unwrap(), "its time is over");
}

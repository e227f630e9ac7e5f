//! Backups: whole, portable, and refused when they are not.

use std::path::PathBuf;

use wardroom_store::{Document, Error, Observation, Rows, SealKey, Store, backup, restore, verify};

use crate::database::Database;
use crate::sample::{at, create, created, feed_of, id, moved, node};

fn key() -> SealKey {
    SealKey::new(&[7; 32]).unwrap()
}

async fn filled(store: &Store) {
    for number in 1..=5 {
        let resource = created(store, number).await;
        moved(store, &resource, "pending").await;
    }
    let mut change = create(node(6));
    change.effects =
        vec![wardroom_store::Effect { effect_type: "call".to_owned(), payload: serde_json::json!([1]) }];
    change.after.due_at = Some(at(7));
    store.commit(change).await.unwrap();
    let effect = store.claim_effects("one", std::time::Duration::from_secs(60), 1, &["call"]).await.unwrap();
    store.retry_effect(effect[0].id, "one", at(8), "not now").await.unwrap();
    assert!(store.observe(&seen()).await.unwrap());
    feed_of(store, 11).await;
    store.seal(&key(), at(1)).await.unwrap().unwrap();
    created(store, 8).await;
    feed_of(store, 12).await;
}

fn seen() -> Observation {
    Observation {
        kind: "node".to_owned(),
        resource_id: id(1),
        source: "agent".to_owned(),
        version: 1,
        document: Document::of(&"up").unwrap(),
        observed_at: at(1),
        received_at: at(2),
    }
}

/// Restores what `from` has into `to` and compares everything a reader can see.
async fn carries_over(from: Database, to: Database) {
    let (folder, file) = target();
    let store = from.open().await;
    filled(&store).await;
    backup(&from.location(), &file).await.unwrap();
    let cursor = store.feed_tail().await.unwrap();

    restore(&file, &to.location()).await.unwrap();
    let report =
        verify(&to.location(), Some(&key()), &store.checkpoints(0, 10).await.unwrap()).await.unwrap();
    assert_eq!((report.fault, report.rows, report.sealed_rows), (None, 12, 11));

    let copy = to.open().await;
    assert!(matches!(copy.feed_after(&cursor, 1).await, Err(Error::ForeignCursor)));
    let rows =
        |items: Vec<wardroom_store::FeedItem>| items.into_iter().map(|item| item.row).collect::<Vec<_>>();
    assert_eq!(rows(feed_of(&copy, 12).await), rows(feed_of(&store, 12).await));
    for number in 1..=6 {
        assert_eq!(
            copy.get("node", &id(number)).await.unwrap(),
            store.get("node", &id(number)).await.unwrap()
        );
    }
    assert_eq!(copy.observations("node", &id(1)).await.unwrap(), [seen()]);
    let progress = store.effects_of("node", &id(6)).await.unwrap();
    assert_eq!(progress[0].last_error.as_deref(), Some("not now"));
    assert_eq!(copy.effects_of("node", &id(6)).await.unwrap(), progress);
    assert_eq!(copy.pending_effects(0, 9).await.unwrap(), store.pending_effects(0, 9).await.unwrap());

    // The copy lives on: chains, seals, effects and keys go on where they ended.
    let before = copy.get("node", &id(1)).await.unwrap().unwrap();
    moved(&copy, &before, "installing").await;
    assert_eq!(copy.history("node", &id(1), Rows::All, 9, 0).await.unwrap().1, 3);
    let mut change = create(node(7));
    change.effects = copy.pending_effects(0, 1).await.unwrap().into_iter().map(|task| task.effect).collect();
    copy.commit(change).await.unwrap();
    assert!(matches!(copy.commit(create(node(1))).await, Err(Error::Conflict)));
    feed_of(&copy, 14).await;
    copy.seal(&key(), at(2)).await.unwrap().unwrap();
    let report = verify(&to.location(), Some(&key()), &[]).await.unwrap();
    assert_eq!((report.fault, report.sealed_rows, report.checkpoints), (None, 14, 2));
    drop(copy);
    assert!(matches!(restore(&file, &to.location()).await, Err(Error::NotEmpty)));
    drop(folder);
}

pub(crate) async fn carries_over_to_sqlite(database: Database) {
    carries_over(database, Database::sqlite()).await;
}

pub(crate) async fn carries_over_to_postgres(database: Database) {
    carries_over(database, Database::postgres().await).await;
}

/// Backup and verification each see one state of everything, whatever is being written.
pub(crate) async fn is_one_state_while_servers_write(database: Database) {
    let (_folder, file) = target();
    let store = database.open().await;
    let mut writers = tokio::task::JoinSet::new();
    for number in 1..=8 {
        let store = store.clone();
        writers.spawn(async move {
            let mut resource = created(&store, number).await;
            loop {
                let state = format!("state-{}", resource.version % 7);
                resource = moved(&store, &resource, &state).await.resource;
            }
        });
    }
    feed_grows_to(&store, 200).await;
    for round in 0..3 {
        store.seal(&key(), at(round)).await.unwrap();
        let report = verify(&database.location(), Some(&key()), &[]).await.unwrap();
        assert_eq!(report.fault, None);
    }
    backup(&database.location(), &file).await.unwrap();
    writers.shutdown().await;
    let copy = Database::sqlite();
    restore(&file, &copy.location()).await.unwrap();
    let report = verify(&copy.location(), Some(&key()), &[]).await.unwrap();
    assert_eq!((report.fault, report.resources), (None, 8));
    assert!(report.rows >= 200 && report.checkpoints >= 1, "{} rows", report.rows);
}

/// Of several backups to one target one is kept, whole, and nothing is left of the others.
pub(crate) async fn one_of_many_to_one_target_is_kept(database: Database) {
    let (folder, file) = target();
    filled(&database.open().await).await;
    let location = database.location();
    let backups = tokio::join!(
        backup(&location, &file),
        backup(&location, &file),
        backup(&location, &file),
        backup(&location, &file)
    );
    let mut kept = 0;
    for backup in [backups.0, backups.1, backups.2, backups.3] {
        match backup {
            Ok(()) => kept += 1,
            Err(Error::File { path, source }) => {
                assert_eq!((path, source.kind()), (file.clone(), std::io::ErrorKind::AlreadyExists));
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(kept, 1);
    let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(names.collect::<Vec<_>>(), std::slice::from_ref(&file));
    let copy = Database::sqlite();
    restore(&file, &copy.location()).await.unwrap();
    assert_eq!(verify(&copy.location(), Some(&key()), &[]).await.unwrap().rows, 12);
}

async fn feed_grows_to(store: &Store, rows: usize) {
    while store.feed_after(&store.feed_start(), rows).await.unwrap().len() < rows {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

fn target() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wardroom.backup");
    (folder, file)
}

pub(crate) async fn damage_is_noticed_before_anything_is_written(database: Database) {
    let (_folder, file) = target();
    let source = Database::sqlite();
    let store = source.open().await;
    filled(&store).await;
    backup(&source.location(), &file).await.unwrap();
    assert!(matches!(backup(&source.location(), &file).await, Err(Error::File { .. })), "never overwritten");

    let whole = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let damaged = [
        String::new(),
        "{}".to_owned(),
        whole.replacen("pending", "retired", 1),
        lines[..lines.len() - 1].join("\n"),
        lines[..lines.len() / 2].join("\n"),
        whole.replacen("wardroom backup 1", "wardroom backup 9", 1),
        [&lines[..3], &lines[4..]].concat().join("\n"),
    ];
    for text in damaged {
        std::fs::write(&file, &text).unwrap();
        assert!(matches!(restore(&file, &database.location()).await, Err(Error::Damaged(_))), "{text}");
    }
    std::fs::write(&file, whole.replacen("\"schema\":", "\"schema\":99", 1)).unwrap();
    assert!(matches!(restore(&file, &database.location()).await, Err(Error::NewerSchema { .. })));

    // A newer schema has columns that the backup does not name.
    drop(database.open().await);
    database.execute("ALTER TABLE resources ADD COLUMN added TEXT NOT NULL DEFAULT 'x'").await.unwrap();
    std::fs::write(&file, &whole).unwrap();
    restore(&file, &database.location()).await.unwrap();
    assert_eq!(database.open().await.get("node", &id(1)).await.unwrap().unwrap().version, 2);
}

//! The feed: every change once, in one order, and never behind a reader's back.

use std::time::Duration;

use wardroom_store::{Cursor, Error, FeedItem, Store};

use crate::database::{Database, connect};
use crate::sample::{create, created, feed_of, id, moved, node};

/// How long a hint may take on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(60);

async fn read_all(store: &Store, page: usize) -> Vec<FeedItem> {
    let (mut items, mut cursor) = (vec![], store.feed_start());
    loop {
        let next = store.feed_after(&cursor, page).await.unwrap();
        let Some(last) = next.last() else { return items };
        cursor = last.cursor.to_string().parse().unwrap();
        items.extend(next);
    }
}

pub(crate) async fn pages_join_without_gaps(database: Database) {
    let store = database.open().await;
    let first = created(&store, 1).await;
    let second = created(&store, 2).await;
    moved(&store, &first, "pending").await;
    feed_of(&store, 3).await;
    let tail = store.feed_tail().await.unwrap();
    moved(&store, &second, "pending").await;

    feed_of(&store, 4).await;
    let items = read_all(&store, 1).await;
    let seen: Vec<_> = items.iter().map(|item| (&*item.row.resource_id, item.row.sequence)).collect();
    let (one, two) = (&*first.content.id, &*second.content.id);
    assert_eq!(seen, [(one, 1), (two, 1), (one, 2), (two, 2)]);
    assert_eq!(store.feed_after(&tail, 10).await.unwrap(), items[3..]);

    let newest = store.history_before(None, 3).await.unwrap();
    let older = store.history_before(Some(&newest[2].cursor), 3).await.unwrap();
    let mut backwards: Vec<_> = newest.into_iter().chain(older).collect();
    backwards.reverse();
    assert_eq!(backwards, items);
}

pub(crate) async fn some_kinds_are_read_without_the_others(database: Database) {
    let store = database.open().await;
    let mut wanted = vec![];
    for number in 1..=9 {
        let kind = ["node", "gpu-node", "node-group"][number % 3];
        let content = wardroom_store::Content { kind: kind.to_owned(), ..node(number) };
        store.commit(create(content)).await.unwrap();
        if kind == "node" {
            wanted.push(id(number));
        }
    }
    feed_of(&store, 9).await;
    let (mut seen, mut from) = (vec![], store.feed_start());
    for page in 1..=3 {
        let (items, next) = store.feed_of(&["node"], &from, 2).await.unwrap();
        assert_eq!(items.len(), [2, 1, 0][page - 1], "page {page}");
        seen.extend(items.into_iter().map(|item| item.row.resource_id));
        from = next;
    }
    assert_eq!(seen, wanted);
    assert_eq!(from, store.feed_tail().await.unwrap(), "the others are passed by");
    let (both, _) = store.feed_of(&["gpu-node", "node"], &store.feed_start(), 10).await.unwrap();
    assert_eq!(both.len(), 6);
}

/// A reader that has seen a change in the feed finds it in the resource: the cache is never older.
pub(crate) async fn changes_in_the_feed_can_be_read(database: Database) {
    let store = database.open().await;
    let mut writers = vec![];
    for number in 1..=8 {
        let (store, mut resource) = (store.clone(), created(&store, number).await);
        writers.push(tokio::spawn(async move {
            for turn in 0..150 {
                let state = ["pending", "discovered"][turn % 2];
                resource = moved(&store, &resource, state).await.resource;
            }
        }));
    }
    while writers.iter().any(|writer| !writer.is_finished()) {
        for item in store.history_before(None, 3).await.unwrap() {
            let found = store.get(&item.row.kind, &item.row.resource_id).await.unwrap().unwrap();
            assert!(found.version >= item.row.sequence, "{} < {}", found.version, item.row.sequence);
        }
        tokio::task::yield_now().await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
}

pub(crate) async fn refuses_foreign_cursors(database: Database) {
    let store = database.open().await;
    let own = store.feed_start().to_string();
    let (cut, changed) = (&own[..own.len() - 1], own.replacen(".0", ".1", 1));
    for text in ["", "x", "0.0", "0123456789abcdef.0.0", "0123456789abcdef.-1.0", "a.1.1.1", cut, &changed] {
        let refused = match text.parse::<Cursor>() {
            Ok(cursor) => store.feed_after(&cursor, 1).await.map(drop),
            Err(error) => Err(error),
        };
        assert!(matches!(refused, Err(Error::ForeignCursor)), "{text:?}");
    }
}

pub(crate) async fn hints_at_new_changes(database: Database) {
    let store = database.open().await;
    let mut hint = store.watch();
    tokio::time::sleep(Duration::from_millis(600)).await;
    hint.mark_unchanged();
    created(&store, 1).await;
    tokio::time::timeout(PATIENCE, hint.changed()).await.unwrap().unwrap();
}

/// Two servers on one PostgreSQL: each sees the other's commits, by itself.
pub(crate) async fn two_servers_share_one_feed(database: Database) {
    let (one, two) = (database.open().await, database.open().await);
    let mut hint = two.watch();
    tokio::time::sleep(Duration::from_millis(600)).await;
    hint.mark_unchanged();
    let before = created(&one, 1).await;
    tokio::time::timeout(PATIENCE, hint.changed()).await.unwrap().unwrap();
    feed_of(&two, 1).await;

    let racers = (0..50).map(|racer| {
        let store = if racer % 2 == 0 { one.clone() } else { two.clone() };
        let change = crate::sample::to_state(&before, "pending");
        tokio::spawn(async move { store.commit(change).await.is_ok() })
    });
    let mut won = 0;
    for racer in racers.collect::<Vec<_>>() {
        won += usize::from(racer.await.unwrap());
    }
    assert_eq!(won, 1);
}

/// A reader keeps up while both servers write: it must have seen everything, in the order that a later reader
/// sees.
pub(crate) async fn a_busy_feed_loses_nothing(database: Database) {
    let stores = [database.open().await, database.open().await];
    let reader = {
        let store = stores[0].clone();
        tokio::spawn(async move {
            let (mut seen, mut cursor) = (vec![], store.feed_start());
            while seen.len() < 16 * 26 {
                let items = store.feed_after(&cursor, 7).await.unwrap();
                cursor = items.last().map_or(cursor, |item| item.cursor.clone());
                seen.extend(items);
            }
            seen
        })
    };
    let writers = (1..=16).map(|number| {
        let store = stores[number % 2].clone();
        tokio::spawn(async move {
            let mut resource = created(&store, number).await;
            for round in 0..25 {
                resource = moved(&store, &resource, &format!("state-{round}")).await.resource;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let seen = tokio::time::timeout(Duration::from_secs(30), reader).await.unwrap().unwrap();
    assert_eq!(seen, read_all(&stores[1], 1000).await);
}

/// A transaction that took its position early and commits late must not be passed by.
pub(crate) async fn a_slow_transaction_is_waited_for(database: Database) {
    let store = database.open().await;
    let slow = slow_transaction(&database).await;
    created(&store, 1).await;
    let early = store.feed_after(&store.feed_start(), 10).await.unwrap();
    let cursor = early.last().map_or(store.feed_start(), |item| item.cursor.clone());
    let mut seen: Vec<_> = early.into_iter().map(|item| item.row.resource_id).collect();
    slow.batch_execute("COMMIT").await.unwrap();
    feed_of(&store, 2).await;
    let late = store.feed_after(&cursor, 10).await.unwrap();
    seen.extend(late.into_iter().map(|item| item.row.resource_id));
    assert_eq!(seen, ["slow".to_owned(), crate::sample::id(1)]);
}

/// The same for readers of some kinds: neither they nor those of other kinds go past it.
pub(crate) async fn a_slow_transaction_is_waited_for_by_kind(database: Database) {
    let store = database.open().await;
    let slow = slow_transaction(&database).await;
    created(&store, 1).await;
    let (early, from) = store.feed_of(&["node"], &store.feed_start(), 10).await.unwrap();
    let (none, elsewhere) = store.feed_of(&["gpu-node"], &store.feed_start(), 10).await.unwrap();
    assert_eq!((early, none), (vec![], vec![]), "what came after it is not to be seen before it");
    slow.batch_execute("COMMIT").await.unwrap();
    feed_of(&store, 2).await;
    for place in [from, elsewhere] {
        let (late, next) = store.feed_of(&["node"], &place, 1).await.unwrap();
        let (last, _) = store.feed_of(&["node"], &next, 1).await.unwrap();
        let seen: Vec<_> = late.into_iter().chain(last).map(|item| item.row.resource_id).collect();
        assert_eq!(seen, ["slow".to_owned(), id(1)]);
    }
}

/// The session is named wherever it is, also in another database of the same server.
pub(crate) async fn the_session_that_holds_back_the_feed_is_named(database: Database) {
    let store = database.open().await;
    created(&store, 1).await;
    feed_of(&store, 1).await;
    assert_eq!(store.feed_held_back().await.unwrap(), None);
    let slow = slow_transaction(&database).await;
    assert_eq!(store.feed_held_back().await.unwrap(), None, "no change waits for it yet");
    created(&store, 2).await;
    let pid: i32 = slow.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let expected = format!("the session with pid {pid}");
    // The oldest transaction of the whole cluster is named: tests beside this one come and go.
    let mut held = store.feed_held_back().await.unwrap().unwrap();
    for _ in 0..600 {
        if held.by == expected {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        held = store.feed_held_back().await.unwrap().unwrap();
    }
    assert_eq!(held.by, expected);
    slow.batch_execute("ROLLBACK").await.unwrap();
    feed_of(&store, 2).await;
    assert_eq!(store.feed_held_back().await.unwrap(), None);
}

/// A transaction that holds a position in the feed and has not committed.
async fn slow_transaction(database: &Database) -> tokio_postgres::Client {
    let Database::Postgres(cluster) = database else { panic!("PostgreSQL only") };
    let slow = connect(&cluster.url).await;
    slow.batch_execute(
        "BEGIN; INSERT INTO history \
         (kind, resource_id, sequence, type, to_state, triggered_by, created_at, hash) \
         VALUES ('node', 'slow', 1, 'registered', 'discovered', 'admin', '2026-01-01T00:00:00.000000Z', 'h')",
    )
    .await
    .unwrap();
    slow
}

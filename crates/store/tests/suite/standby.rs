//! Servers that follow another one, or keep less than they say, and what they may be asked.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wardroom_store::{Error, Location, Store};

use crate::database::Database;
use crate::private::{Private, url};
use crate::sample::{create, created, id, moved, node, to_state};

/// The primary is away for a moment: no request is served from its standby, then or later.
pub(crate) async fn a_standby_serves_no_request() {
    let primary = Private::create().await;
    let standby = primary.standby();
    let store = Store::open(&Location::Postgres { url: url(&[&primary, &standby]) }).await.unwrap();
    let before = created(&store, 1).await;
    standby.wait_until("SELECT to_regclass('resources') IS NOT NULL").await;
    standby.wait_until("SELECT count(*) = 1 FROM resources").await;
    standby.execute("SELECT pg_wal_replay_pause()").await;

    primary.stop();
    for _ in 0..20 {
        let refused = store.get("node", &id(1)).await;
        assert!(matches!(refused, Err(Error::ReadOnly | Error::Unavailable(_))), "{refused:?}");
    }
    let refused = store.commit(create(node(2))).await.map(drop);
    assert!(matches!(refused, Err(Error::ReadOnly | Error::Unavailable(_))), "{refused:?}");
    primary.start();
    let after = moved(&store, &before, "pending").await.resource;
    let reads: Vec<_> = (0..60).map(|_| store.get("node", &before.content.id)).collect();
    for found in futures_util::future::join_all(reads).await {
        assert_eq!(found.unwrap().as_ref(), Some(&after));
    }
    for number in 3..13 {
        created(&store, number).await;
    }
    // Also when the standby is named first.
    let other = Store::open(&Location::Postgres { url: url(&[&standby, &primary]) }).await.unwrap();
    assert_eq!(other.get("node", &id(1)).await.unwrap(), Some(after));
}

/// The primary takes connections and answers nothing any more: its standby takes over, and writes go there.
pub(crate) async fn a_hung_primary_is_left_for_its_standby() {
    let primary = Private::create().await;
    let standby = primary.standby();
    let store = Store::open(&Location::Postgres { url: url(&[&primary, &standby]) }).await.unwrap();
    let before = created(&store, 1).await;
    standby.wait_until("SELECT to_regclass('resources') IS NOT NULL").await;
    standby.wait_until("SELECT count(*) = 1 FROM resources").await;
    primary.pause();
    let hung = begun(&store);
    standby.execute("SELECT pg_promote()").await;
    writes_are_back(&store, hung).await;
    assert_eq!(store.get("node", &id(1)).await.unwrap(), Some(before));
    // A server that starts now is not kept by the first host either.
    let started = Store::open(&Location::Postgres { url: url(&[&primary, &standby]) }).await.unwrap();
    created(&started, 80).await;
}

/// What is between a server and its database passes nothing on any more, and another way leads there.
pub(crate) async fn a_silent_way_is_left_for_another(database: Database) {
    let Database::Postgres(cluster) = &database else { panic!("PostgreSQL only") };
    let (over, is_silent) = silent_way(&cluster.url);
    let store = Store::open(&Location::Postgres { url: over }).await.unwrap();
    created(&store, 1).await;
    is_silent.store(true, Ordering::SeqCst);
    let hung = begun(&store);
    writes_are_back(&store, hung).await;
}

/// A database that stands still for longer than a server waits for a sign of life, and goes on: so do its connections.
pub(crate) async fn a_paused_server_keeps_its_connections() {
    let only = Private::create().await;
    let store = Store::open(&Location::Postgres { url: url(&[&only]) }).await.unwrap();
    created(&store, 1).await;
    only.pause();
    let commit = tokio::spawn({
        let store = store.clone();
        async move { store.commit(create(node(2))).await }
    });
    tokio::time::sleep(Duration::from_secs(6)).await;
    only.go_on();
    commit.await.unwrap().unwrap();
    created(&store, 3).await;
}

type Hung = Vec<tokio::task::JoinHandle<bool>>;

/// Reads and writes that were begun and not answered.
fn begun(store: &Store) -> Hung {
    let begin = |number: usize| {
        let store = store.clone();
        tokio::spawn(async move {
            let known = id(1);
            let (get, commit) = (store.get("node", &known), store.commit(create(node(100 + number))));
            let together =
                store.commit_together(vec![create(node(200 + number)), create(node(300 + number))]);
            let (get, commit, together) = tokio::join!(get, commit, together);
            get.is_ok() && commit.is_ok() && together.is_ok()
        })
    };
    (0..30).map(begin).collect()
}

/// Writes and reads are back soon after another server takes changes. Without limits of its own a client would wait for
/// many minutes; the bound leaves room for a busy machine.
async fn writes_are_back(store: &Store, hung: Hung) {
    let written = async {
        let mut number = 1000;
        while store.commit(create(node(number))).await.is_err() {
            number += 1;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        for hung in hung {
            hung.await.unwrap();
        }
        // Unused connections are closed a moment later.
        while store.get("node", &id(1)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(45), written)
        .await
        .expect("writes are not back, and many times 5 seconds have passed");
}

/// A URL that leads to a database in two ways, and what silences the first one.
fn silent_way(url: &str) -> (String, Arc<AtomicBool>) {
    let (head, rest) = url.split_once('@').unwrap();
    let (target, tail) = rest.split_once('/').unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let over = format!("{head}@{},{target}/{tail}", listener.local_addr().unwrap());
    let (target, is_silent) = (target.to_owned(), Arc::new(AtomicBool::new(false)));
    let silenced = Arc::clone(&is_silent);
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let far = TcpStream::connect(&target).unwrap();
            let (near_again, far_again) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            for (mut from, mut to) in [(near, far), (far_again, near_again)] {
                let is_silent = Arc::clone(&silenced);
                std::thread::spawn(move || {
                    let mut bytes = [0; 4096];
                    while let Ok(count @ 1..) = from.read(&mut bytes) {
                        if !is_silent.load(Ordering::SeqCst) && to.write_all(&bytes[..count]).is_err() {
                            break;
                        }
                    }
                });
            }
        }
    });
    (over, is_silent)
}

/// As after a switch: the only host is a standby for a while, then it leads again.
pub(crate) async fn a_primary_that_returns_is_used_again() {
    let only = Private::create().await;
    let location = Location::Postgres { url: url(&[&only]) };
    let store = Store::open(&location).await.unwrap();
    let before = created(&store, 1).await;
    only.stop();
    only.demote();
    only.start();
    let refused = store.commit(create(node(2))).await.map(drop);
    let found = store.get("node", &id(1)).await.map(drop);
    for refused in [refused, found, Store::open(&location).await.map(drop)] {
        assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
    }
    only.execute("SELECT pg_promote()").await;
    assert_eq!(store.get("node", &id(1)).await.unwrap().as_ref(), Some(&before));
    moved(&store, &before, "pending").await;
}

/// The defaults of connections are changed while a server runs: commits wait for the disk all the same. A
/// server does not start where the whole database does not wait.
pub(crate) async fn an_acknowledged_commit_is_on_disk() {
    let database = Private::create().await;
    let location = Location::Postgres { url: url(&[&database]) };
    let store = Store::open(&location).await.unwrap();
    database.execute("ALTER DATABASE postgres SET synchronous_commit = off").await;
    let (one, two) = (created(&store, 1).await, created(&store, 2).await);
    let tell = "CREATE TABLE told (setting TEXT); CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                INSERT INTO told VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$; \
                CREATE TRIGGER tell BEFORE INSERT ON history FOR EACH ROW EXECUTE FUNCTION tell()";
    database.execute(tell).await;
    moved(&store, &one, "pending").await;
    created(&store, 3).await;
    store.commit_together(vec![to_state(&two, "pending"), create(node(4))]).await.unwrap();
    database.wait_until("SELECT count(*) = 4 AND bool_and(setting = 'on') FROM told").await;

    database.execute("ALTER SYSTEM SET fsync = off").await;
    database.execute("SELECT pg_reload_conf()").await;
    database.wait_until("SELECT current_setting('fsync') = 'off'").await;
    let refused = Store::open(&location).await.map(drop);
    assert!(matches!(refused, Err(Error::Unsafe(_))), "{refused:?}");
}

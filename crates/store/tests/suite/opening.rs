//! Starting: migrations, versions, and databases that are in use already.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use wardroom_store::{Error, Fault, Location, Store, backup, verify};

use crate::database::Database;
use crate::sample::{created, moved};

pub(crate) async fn opens_again_with_everything_in_place(database: Database) {
    let store = database.open().await;
    let kept = created(&store, 1).await;
    let cursor = store.feed_start();
    drop(store);
    let store = database.open().await;
    assert_eq!(store.get("node", &kept.content.id).await.unwrap(), Some(kept));
    store.feed_after(&cursor, 1).await.unwrap();
}

pub(crate) async fn refuses_a_newer_schema(database: Database) {
    drop(database.open().await);
    let insert = "INSERT INTO refinery_schema_history (version, name, applied_on, checksum) \
                  VALUES (999, 'later', '2030-01-01T00:00:00Z', '1')";
    database.execute(insert).await.unwrap();
    let refused = [
        Store::open(&database.location()).await.map(drop),
        verify(&database.location(), None, &[]).await.map(drop),
        backup(&database.location(), std::path::Path::new("never-written")).await,
    ];
    for refused in refused {
        assert!(matches!(refused, Err(Error::NewerSchema { found: 999, .. })), "{refused:?}");
    }
}

pub(crate) async fn one_server_per_folder(database: Database) {
    let store = database.open().await;
    assert!(matches!(Store::open(&database.location()).await, Err(Error::InUse(_))));
    drop(store);
    database.open().await;
}

pub(crate) async fn replicas_may_start_together(database: Database) {
    let starts = (0..6).map(|_| {
        let location = database.location();
        tokio::spawn(async move { Store::open(&location).await.unwrap() })
    });
    let mut stores = vec![];
    for start in starts.collect::<Vec<_>>() {
        stores.push(start.await.unwrap());
    }
    created(&stores[0], 1).await;
    assert_eq!(stores[5].count_by_state().await.unwrap().len(), 1);
}

pub(crate) async fn says_when_there_is_no_database() {
    let url = "postgres://ada:secret@127.0.0.1:1/none".to_owned();
    let location = Location::Postgres { url };
    let refused = Store::open(&location).await.unwrap_err();
    assert!(matches!(refused, Error::Unavailable(_)), "{refused:?}");
    assert!(!format!("{location:?} {refused:?}").contains("secret"));
}

/// A user that may change the schema can drop the triggers of history: that is a fault, and mended by the
/// next start.
pub(crate) async fn makes_guards_again_that_were_taken(database: Database) {
    let store = database.open().await;
    assert_eq!(store.mended(), [""; 0]);
    created(&store, 1).await;
    drop(store);
    let (taken, names): (_, &[&str]) = match &database {
        Database::Sqlite(_) => (
            "DROP TRIGGER history_no_update; DROP TRIGGER checkpoints_no_replace",
            &["history_no_update", "checkpoints_no_replace"],
        ),
        Database::Postgres(_) => (
            "DROP TRIGGER history_append_only ON history; \
             ALTER TABLE checkpoints DISABLE TRIGGER checkpoints_append_only",
            &["history_append_only", "checkpoints_append_only"],
        ),
    };
    database.execute(taken).await.unwrap();
    let fault = verify(&database.location(), None, &[]).await.unwrap().fault.unwrap();
    assert_eq!(fault, Fault::Unguarded { triggers: names.to_vec() });
    assert!(names.iter().all(|name| fault.to_string().contains(name)), "{fault}");
    let store = database.open().await;
    assert_eq!(store.mended(), names);
    assert_eq!(verify(&database.location(), None, &[]).await.unwrap().fault, None);
    let refused = database.execute("UPDATE history SET comment = 'other'").await.unwrap_err();
    assert!(refused.contains("append-only"), "{refused}");
}

/// A URL that names the wrong thing is the operator's to mend, and no bug.
pub(crate) async fn says_what_is_wrong_with_the_url(database: Database) {
    let Database::Postgres(cluster) = &database else { panic!("PostgreSQL only") };
    let (head, tail) = cluster.url.split_once('@').unwrap();
    let (host, query) =
        (tail.split_once('/').unwrap().0, tail.split_once('?').map_or("", |(_, query)| query));
    let nobody = format!("{}//nobody_here:wrong@{tail}", head.split_once("//").unwrap().0);
    for (url, what) in
        [(format!("{head}@{host}/no_such_database?{query}"), "no_such_database"), (nobody, "nobody_here")]
    {
        let refused = Store::open(&Location::Postgres { url }).await.unwrap_err();
        assert!(matches!(refused, Error::Unavailable(_)), "{refused:?}");
        let said = refused.to_string();
        assert!(said.contains(what) && said.contains("--database-url"), "{said}");
    }
}

pub(crate) async fn recovers_when_its_connections_are_cut(database: Database) {
    let store = database.open().await;
    let before = created(&store, 1).await;
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    database.execute(cut).await.unwrap();
    for _ in 0..50 {
        match store.get("node", &before.content.id).await {
            Ok(found) => {
                assert_eq!(found, Some(before));
                return;
            }
            Err(Error::Unavailable(_)) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("the store never recovered");
}

/// Programs between a server and its database refuse connections that begin with settings.
pub(crate) async fn starts_without_settings(database: Database) {
    let Database::Postgres(cluster) = &database else { panic!("PostgreSQL only") };
    let location = Location::Postgres { url: over_pooler(&cluster.url) };
    let store = Store::open(&location).await.unwrap();
    let node = created(&store, 1).await;
    moved(&store, &node, "pending").await;
    assert_eq!(verify(&location, None, &[]).await.unwrap().fault, None);
}

/// The URL of something that passes connections on, but for those that begin with settings.
fn over_pooler(url: &str) -> String {
    let (head, rest) = url.split_once('@').unwrap();
    let (target, tail) = rest.split_once('/').unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let over = format!("{head}@{}/{tail}", listener.local_addr().unwrap());
    let target = target.to_owned();
    thread::spawn(move || {
        for mut near in listener.incoming().map_while(Result::ok) {
            let target = target.clone();
            thread::spawn(move || {
                let mut first = [0; 4096];
                let Ok(count @ 1..) = near.read(&mut first) else { return };
                let first = &first[..count];
                if first.windows(9).any(|window| window == b"\0options\0") {
                    let said = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0";
                    let length = u32::try_from(said.len() + 4).unwrap().to_be_bytes();
                    let _ = near.write_all(&[&b"E"[..], &length, said].concat());
                    return;
                }
                let mut far = TcpStream::connect(target).unwrap();
                far.write_all(first).unwrap();
                let (mut near_again, mut far_again) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                thread::spawn(move || std::io::copy(&mut far_again, &mut near_again));
                let _ = std::io::copy(&mut near, &mut far);
                let _ = far.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    over
}

pub(crate) async fn refuses_history_of_another_cluster(database: Database) {
    let store = database.open().await;
    created(&store, 1).await;
    drop(store);
    let session = crate::tampering::tampering(&database).await;
    session.execute("UPDATE history SET xid = xid + 1000000000").await;
    let refused = Store::open(&database.location()).await;
    assert!(matches!(refused, Err(Error::Unsafe(_))), "{refused:?}");
}

//! Servers that follow another one, or keep less than they say, and what they may be asked.

use wardroom_store::{Error, Location, Store};

use crate::private::{Private, url};
use crate::sample::{create, created, id, moved, node, to_state};

/// The primary is away for a moment: nobody is served from its standby, then or later.
pub(crate) async fn a_standby_answers_for_nobody() {
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

/// As after a switch: the only host is a standby for a while, then it leads again.
pub(crate) async fn who_leads_again_is_used_again() {
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

/// Somebody changes what connections begin with while a server runs: commits wait for the disk all the same. Where the
/// whole database does not, nobody starts.
pub(crate) async fn what_is_acknowledged_is_on_disk() {
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

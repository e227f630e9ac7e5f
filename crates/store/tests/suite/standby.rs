//! Servers that follow another one, and what they may be asked.

use wardroom_store::{Error, Location, Store};

use crate::private::{Private, url};
use crate::sample::{create, created, id, moved, node};

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

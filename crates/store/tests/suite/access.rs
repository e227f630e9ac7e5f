//! Idempotency keys and leases.

use std::time::Duration;

use wardroom_store::{Answer, Claim, Error, IdempotencyKey};

use crate::database::Database;
use crate::sample::{at, created, to_state};

fn key(request_hash: &str) -> IdempotencyKey {
    let [scope, key, request_hash] = ["ada POST /nodes", "k", request_hash].map(str::to_owned);
    IdempotencyKey { scope, key, request_hash }
}

pub(crate) async fn one_request_per_key(database: Database) {
    let store = database.open().await;
    let racers = (0..20).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { store.claim_key(&key("a"), at(0), at(60)).await.unwrap() })
    });
    let mut claims = vec![];
    for racer in racers.collect::<Vec<_>>() {
        claims.push(racer.await.unwrap());
    }
    assert_eq!(claims.iter().filter(|claim| **claim == Claim::Claimed).count(), 1);
    assert_eq!(claims.iter().filter(|claim| **claim == Claim::InFlight).count(), 19);
    assert_eq!(store.claim_key(&key("b"), at(0), at(60)).await.unwrap(), Claim::OtherRequest);

    store.release_key(&key("a")).await.unwrap();
    assert_eq!(store.claim_key(&key("b"), at(0), at(60)).await.unwrap(), Claim::Claimed);
    let answer = Answer { status: 201, body: "secret".to_owned() };
    store.answer_key(&key("b"), &answer, at(1000)).await.unwrap();
    store.release_key(&key("b")).await.unwrap();
    assert_eq!(store.claim_key(&key("b"), at(500), at(560)).await.unwrap(), Claim::Answered(answer.clone()));
    assert_eq!(store.claim_key(&key("a"), at(500), at(560)).await.unwrap(), Claim::OtherRequest);
    assert!(!format!("{answer:?}").contains("secret"));

    assert_eq!(store.claim_key(&key("a"), at(1000), at(1060)).await.unwrap(), Claim::Claimed);
    assert_eq!(store.sweep_keys(at(1059)).await.unwrap(), 0);
    assert_eq!(store.sweep_keys(at(1060)).await.unwrap(), 1);
}

/// For a caller that knows that the holder is gone: the next one need not wait, and has another epoch.
pub(crate) async fn a_lease_of_any_holder_can_be_ended(database: Database) {
    let store = database.open().await;
    let hour = Duration::from_secs(3600);
    let dead = store.acquire_lease("discovery", "dead", hour).await.unwrap().unwrap();
    store.acquire_lease("discovery/1", "other", hour).await.unwrap().unwrap();
    store.void_lease("discovery").await.unwrap();
    let next = store.acquire_lease("discovery", "next", hour).await.unwrap().unwrap();
    assert_eq!(next.epoch, dead.epoch + 1);
    assert_eq!(store.acquire_lease("discovery/1", "next", hour).await.unwrap(), None, "no other one");
}

pub(crate) async fn leases_change_hands_with_a_new_epoch(database: Database) {
    let store = database.open().await;
    let minute = Duration::from_secs(60);
    let first = store.acquire_lease("sweep", "one", minute).await.unwrap().unwrap();
    assert_eq!(store.acquire_lease("sweep", "two", minute).await.unwrap(), None);
    assert_eq!(store.acquire_lease("sweep", "one", minute).await.unwrap().unwrap().epoch, first.epoch);
    for other in ["swee", "sweep/1", "sweq"] {
        store.acquire_lease(other, "two", minute).await.unwrap();
    }
    let listed = store.leases("sweep").await.unwrap();
    assert!(listed[0].remaining > Duration::from_secs(50) && listed[0].holder == "one");
    assert_eq!(
        listed.iter().map(|lease| &*lease.name).collect::<Vec<_>>(),
        ["sweep", "sweep/1"],
        "and no other"
    );

    let node = created(&store, 1).await;
    let mut change = to_state(&node, "pending");
    change.fence = Some(first.fence());
    let node = store.commit(change.clone()).await.unwrap().resource;
    assert!(matches!(store.commit(change).await, Err(Error::Conflict)));

    assert!(store.release_lease(&first).await.unwrap());
    let second = store.acquire_lease("sweep", "two", Duration::from_millis(30)).await.unwrap().unwrap();
    assert_eq!(second.epoch, first.epoch + 1);
    assert!(!store.release_lease(&first).await.unwrap());
    let mut change = to_state(&node, "installing");
    change.fence = Some(first.fence());
    assert!(matches!(store.commit(change).await, Err(Error::Fenced { .. })));

    tokio::time::sleep(Duration::from_millis(60)).await;
    let third = store.acquire_lease("sweep", "two", minute).await.unwrap().unwrap();
    assert_eq!(third.epoch, second.epoch + 1, "it had lapsed");
}

/// The holder of a lease from before it was forgotten is still fenced off.
pub(crate) async fn an_epoch_never_comes_back(database: Database) {
    let store = database.open().await;
    let node = created(&store, 1).await;
    let instant = Duration::from_millis(1);
    let old = store.acquire_lease("task/1", "one", instant).await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(store.sweep_leases(Duration::ZERO).await.unwrap(), 1);
    let new = store.acquire_lease("task/1", "two", Duration::from_secs(60)).await.unwrap().unwrap();
    assert!(new.epoch > old.epoch, "{} after {}", new.epoch, old.epoch);
    let mut change = to_state(&node, "pending");
    change.fence = Some(old.fence());
    assert!(matches!(store.commit(change).await, Err(Error::Fenced { .. })));
}

pub(crate) async fn one_holder_per_lease(database: Database) {
    let store = database.open().await;
    let racers = (0..30).map(|racer| {
        let store = store.clone();
        tokio::spawn(async move {
            let holder = format!("server-{racer}");
            store.acquire_lease("sweep", &holder, Duration::from_secs(60)).await.unwrap().is_some()
        })
    });
    let mut holders = 0;
    for racer in racers.collect::<Vec<_>>() {
        holders += usize::from(racer.await.unwrap());
    }
    assert_eq!(holders, 1);
}

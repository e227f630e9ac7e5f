//! Tokens, idempotency keys and leases.

use std::time::Duration;

use wardroom_store::{Answer, Claim, Error, IdempotencyKey, Rows, TOKEN_KIND, Token};

use crate::database::Database;
use crate::sample::{at, created, entry, id, to_state};

fn token(number: usize) -> Token {
    Token {
        id: id(number),
        name: format!("token {number}"),
        hash: format!("hash-{number}"),
        roles: ["operator".to_owned()].into(),
        kinds: Some(["node".to_owned()].into()),
        expires_at: Some(at(1_000_000)),
        revoked_at: None,
        created_by: "ada".to_owned(),
    }
}

pub(crate) async fn tokens_are_found_by_hash_and_revoked_once(database: Database) {
    let store = database.open().await;
    for number in 1..=3 {
        assert_eq!(store.create_token(token(number), entry("credential")).await.unwrap(), token(number));
    }
    let twin = Token { hash: "hash-1".to_owned(), ..token(4) };
    assert!(matches!(store.create_token(twin, entry("credential")).await, Err(Error::KeyTaken { .. })));
    assert_eq!(store.token_by_hash("hash-2").await.unwrap(), Some(token(2)));
    assert_eq!(store.token_by_hash("hash-9").await.unwrap(), None);

    let revoked = Token { revoked_at: Some(at(0)), ..token(2) };
    for _ in 0..2 {
        assert_eq!(store.revoke_token(&id(2), entry("credential")).await.unwrap().as_ref(), Some(&revoked));
    }
    assert_eq!(store.token_by_hash("hash-2").await.unwrap().as_ref(), Some(&revoked));
    assert_eq!(store.revoke_token(&id(9), entry("credential")).await.unwrap(), None);
    assert_eq!(store.history(TOKEN_KIND, &id(2), Rows::All, 10, 0).await.unwrap().1, 2);
    let (page, next) = store.tokens(None, 2).await.unwrap();
    assert_eq!(page, [token(1), revoked]);
    assert_eq!(store.tokens(next.as_deref(), 2).await.unwrap(), (vec![token(3)], None));
    assert!(!format!("{:?}", token(1)).contains("hash-1"));
}

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

pub(crate) async fn leases_change_hands_with_a_new_epoch(database: Database) {
    let store = database.open().await;
    let minute = Duration::from_secs(60);
    let first = store.acquire_lease("sweep", "one", minute).await.unwrap().unwrap();
    assert_eq!(first.epoch, 1);
    assert_eq!(store.acquire_lease("sweep", "two", minute).await.unwrap(), None);
    assert_eq!(store.acquire_lease("sweep", "one", minute).await.unwrap().unwrap().epoch, 1);
    let listed = store.leases().await.unwrap();
    assert!(listed[0].remaining > Duration::from_secs(50) && listed[0].holder == "one");

    let node = created(&store, 1).await;
    let mut change = to_state(&node, "pending");
    change.fence = Some(first.fence());
    let node = store.commit(change.clone()).await.unwrap().resource;
    assert!(matches!(store.commit(change).await, Err(Error::Conflict)));

    assert!(store.release_lease(&first).await.unwrap());
    let second = store.acquire_lease("sweep", "two", Duration::from_millis(30)).await.unwrap().unwrap();
    assert_eq!(second.epoch, 2);
    assert!(!store.release_lease(&first).await.unwrap());
    let mut change = to_state(&node, "installing");
    change.fence = Some(first.fence());
    assert!(matches!(store.commit(change).await, Err(Error::Fenced { .. })));

    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(store.acquire_lease("sweep", "two", minute).await.unwrap().unwrap().epoch, 3, "it had lapsed");
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

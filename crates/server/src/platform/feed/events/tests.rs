//! Followers of a feed that does not stand still, with a ring that they fall out of all the time.

use std::{sync::Arc, time::Duration};

use jiff::SignedDuration;
use tokio::{sync::watch, task::JoinSet};
use wardroom_core::table::Role;
use wardroom_store::{Change, Content, Cursor, Location, Store};

use super::{follower::Follower, tail};
use crate::platform::{
    app::{App, by_system},
    config::{self, Sources},
    identity::{
        auth::{Identity, Principal, TokenDocument},
        secret::Key,
        token,
    },
    testing,
    work::jobs::server_record,
};

/// How many changes a resource gets in these tests.
const CHANGES: usize = 60;

struct Server {
    app: App,
    principal: Principal,
    _jobs: JoinSet<()>,
    /// Ends the job when it is gone.
    _stop: watch::Sender<bool>,
    _folder: tempfile::TempDir,
}

async fn server(location: Option<Location>) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let location = location.unwrap_or(Location::Sqlite { dir: folder.path().to_owned() });
    let config = config::resolve(&Sources::default(), crate::kinds::KINDS).unwrap();
    let key = Key::create(&folder.path().join("server.key")).unwrap();
    let app = App::new(Store::open(&location).await.unwrap(), config, key, crate::kinds::KINDS);
    let expires_at = app.now() + SignedDuration::from_hours(1);
    let (role, group_id, adapter) = (Role::Auditor, None, None);
    let document = TokenDocument { role, kinds: Vec::new(), group_id, adapter, expires_at };
    let content = token::content(&app.key, "follower", &document, "wrt_follower").unwrap();
    let made = app.create(content, by_system(&app, "registered", serde_json::Value::Null)).await.unwrap();
    let principal = Principal::Token(Arc::new(Identity::of(&made).unwrap()));
    let (stop, stopped) = watch::channel(false);
    let mut jobs = JoinSet::new();
    jobs.spawn(tail::run(app.clone(), stopped));
    Server { app, principal, _jobs: jobs, _stop: stop, _folder: folder }
}

/// Makes a resource and changes it again and again.
async fn write(app: App, number: usize) {
    let entry = || by_system(&app, "changed", serde_json::Value::Null);
    let id = format!("resource-{number}");
    let mut resource = app.create(server_record("node", &id), entry()).await.unwrap();
    for turn in 1..CHANGES {
        let after = Content { state: format!("state-{turn}"), ..resource.content.clone() };
        let (effects, holds) = (Vec::new(), Vec::new());
        let before = Some(resource);
        let change = Change { before, after, entry: entry(), effects, fence: None, holds };
        resource = app.store.commit(change).await.unwrap().resource;
    }
}

/// Follows until that many changes were seen, a few at a time, and slowly if told so.
async fn follow(
    app: App,
    principal: Principal,
    from: Cursor,
    count: usize,
    (most, pause): (usize, u64),
) -> Vec<Cursor> {
    let mut follower = Follower::join(&app, &principal, from).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < count {
        let found = follower.look(most).await.unwrap();
        if found.is_empty() {
            follower.news().await;
        }
        seen.extend(found.iter().map(|change| change.cursor.clone()));
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    seen
}

async fn a_slow_follower_misses_nothing(location: Option<Location>) {
    let server = server(location).await;
    let app = &server.app;
    app.tail.keep(8);
    // The token, and what is written.
    let (start, count) = (app.store.feed_start(), 1 + 4 * CHANGES);
    let mut followers = JoinSet::new();
    for pace in [(1, 0), (3, 1), (500, 0), (500, 40), (7, 3), (500, 5)] {
        followers.spawn(follow(app.clone(), server.principal.clone(), start.clone(), count, pace));
    }
    let mut writers = JoinSet::new();
    for number in 0..4 {
        writers.spawn(write(app.clone(), number));
    }
    writers.join_all().await;
    let seen = tokio::time::timeout(Duration::from_secs(60), followers.join_all()).await.unwrap();
    let expected: Vec<_> =
        app.store.feed_after(&start, 1000).await.unwrap().into_iter().map(|item| item.cursor).collect();
    assert_eq!(expected.len(), count);
    for seen in seen {
        assert_eq!(seen, expected);
    }
    assert_eq!(app.tail.followers(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_follower_misses_nothing_on_sqlite() {
    a_slow_follower_misses_nothing(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_follower_misses_nothing_on_postgres() {
    let database = testing::database().await;
    a_slow_follower_misses_nothing(Some(Location::Postgres { url: database.url.clone() })).await;
}

/// Changes from a time without followers are there for a later one, from memory or not.
#[tokio::test]
async fn a_follower_that_returns_misses_nothing() {
    let server = server(None).await;
    let app = &server.app;
    let (mut from, mut seen) = (app.store.feed_start(), 0);
    for number in 0..5 {
        write(app.clone(), number).await;
        let found = follow(app.clone(), server.principal.clone(), from, CHANGES, (500, 0)).await;
        seen += found.len();
        from = found.last().unwrap().clone();
    }
    assert_eq!(app.store.feed_tail().await.unwrap(), from);
    assert_eq!(seen, 1 + 5 * CHANGES);
}

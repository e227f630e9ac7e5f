//! Members that are heard by a server while the server that judges them does not watch them.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;
use wardroom_core::liveness::{Cause, Interval, Period};
use wardroom_store::{Content, Cursor, Lease, Location, Resource, Rows, Seen, TRANSITION};

use super::{
    replicas::{Pair, state},
    site::{self, KIND, Site, connect, member, satellite_every, store_member},
};
use crate::platform::{
    app::{App, Decided, by_system},
    liveness::{NewSeat, follow, judge::Due, overdue, sweep},
    testing::database,
};

const EVERY: u32 = 2;

/// Two servers whose feed tells nothing: a transaction is left open.
struct Held {
    pair: Pair,
    cursor: Cursor,
    _open: tokio_postgres::Client,
}

impl Held {
    async fn back(url: &str) -> Self {
        let pair = Pair::start(url).await;
        let cursor = pair.here.store.feed_tail().await.unwrap();
        let open = connect(url).await;
        open.batch_execute("BEGIN; INSERT INTO meta (key, value) VALUES ('held', 'back')").await.unwrap();
        Self { pair, cursor, _open: open }
    }

    /// Lets seconds pass until a satellite is in a state; how many.
    async fn until(&mut self, id: &str, wanted: &str, mut each: impl FnMut(&App)) -> Option<u32> {
        for second in 0..40 {
            if state(&self.pair.here, id).await == wanted {
                return Some(second);
            }
            self.pair.pass(1000).await;
            each(&self.pair.other);
            self.pair.tick().await;
            follow::catch_up(&self.pair.here, &mut self.cursor).await.unwrap();
        }
        None
    }
}

fn beat(app: &App, id: &str, seconds: u32) {
    let seat = app.liveness.find(KIND, id).unwrap_or_else(|| app.liveness.seat(KIND, id, NewSeat::default()));
    app.liveness.beat(seat, Interval::from_seconds(seconds));
}

/// The states that a satellite came to, the first one first.
async fn moves(app: &App, id: &str) -> Vec<String> {
    let (rows, _) = app.store.history(KIND, id, Rows::All, 100, 0).await.unwrap();
    rows.into_iter().rev().map(|row| row.to_state).collect()
}

/// The sweeper learns of it by its beats, which no other transaction holds back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_of_another_server_that_dies_is_found_while_the_feed_is_held_back() {
    let database = database().await;
    let mut held = Held::back(&database.url).await;
    // Which is its only beat, and says nothing of an interval.
    let id = satellite_every(&held.pair.other, None, EVERY).await;
    let found = held.until(&id, "stale", |_| {}).await;
    assert!(found.is_some_and(|second| (6..=16).contains(&second)), "its rule and 10 s: {found:?}");
}

/// The server that hears it does not know that it is stale, and answers from memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_heard_by_another_server_is_online_while_the_feed_is_held_back() {
    let database = database().await;
    let mut held = Held::back(&database.url).await;
    let id = satellite_every(&held.pair.here, None, EVERY).await;
    beat(&held.pair.other, &id, EVERY);
    assert!(held.until(&id, "stale", |_| {}).await.is_some());
    assert!(held.pair.other.liveness.find(KIND, &id).is_some(), "it was told nothing");
    let back = held.until(&id, "online", |other| beat(other, &id, EVERY)).await;
    assert!(back.is_some_and(|second| second <= 5), "{back:?}");
    assert!(held.pair.here.liveness.find(KIND, &id).is_some(), "it is watched again");
    // It is judged as before, and what was heard once counts once.
    assert!(held.until(&id, "stale", |_| {}).await.is_some());
    assert_eq!(held.until(&id, "online", |_| {}).await, None);
    assert_eq!(moves(&held.pair.here, &id).await, ["online", "stale", "online", "stale"]);
}

/// What is known of other servers is some seconds old when a mark is committed: a beat of these seconds was answered, and
/// the next one may be an hour away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mark_that_was_made_without_a_beat_is_taken_back() {
    let database = database().await;
    let mut pair = Pair::start(&database.url).await;
    let (heard, dead) =
        (satellite_every(&pair.here, None, 10).await, satellite_every(&pair.here, None, 10).await);
    for id in [&heard, &dead] {
        beat(&pair.other, id, 10);
    }
    for _ in 0..25 {
        pair.pass(1000).await;
        pair.tick().await;
    }
    assert_eq!([state(&pair.here, &heard).await, state(&pair.here, &dead).await], ["online", "online"]);
    for _ in 0..100 {
        if [&heard, &dead].iter().all(|id| pair.here.liveness.is_due(KIND, id)) {
            break;
        }
        pair.pass(1000).await;
    }
    beat(&pair.other, &heard, 10);
    let due = [&heard, &dead].map(|id| Due::of(&pair.here.liveness, KIND, id));
    let fence = pair.sweep.lease.as_ref().map(Lease::fence);
    sweep::mark(&pair.here, pair.here.liveness.kind(KIND).unwrap(), &due, fence.as_ref()).await.unwrap();
    assert_eq!([state(&pair.here, &heard).await, state(&pair.here, &dead).await], ["stale", "stale"]);
    for _ in 0..3 {
        pair.pass(1000).await;
        pair.tick().await;
    }
    assert_eq!([state(&pair.here, &heard).await, state(&pair.here, &dead).await], ["online", "stale"]);
    assert!(pair.here.liveness.find(KIND, &heard).is_some(), "and it is watched");
    let row = pair.here.store.history(KIND, &heard, Rows::All, 1, 0).await.unwrap().0.remove(0);
    assert_eq!(row.entry.metadata["event"], "heartbeat", "{row:?}");
}

/// Beats that bring nothing back: one stored so late that it changes nothing, the one that a mark was decided
/// on, and one of a satellite that was taken out of service.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_beat_or_a_revoked_member_brings_nothing_back() {
    let database = database().await;
    let mut held = Held::back(&database.url).await;
    let stale = satellite_every(&held.pair.here, None, EVERY).await;
    let aside = |state: &str| member(KIND, state, &json!({}));
    let revoked = store_member(&held.pair.here, aside("revoked")).await;
    let pending = store_member(&held.pair.here, aside("pending")).await;
    let known = store_member(&held.pair.here, aside("online")).await;
    assert!(held.until(&stale, "stale", |_| {}).await.is_some());
    for _ in 0..10 {
        held.pair.pass(1000).await;
        held.pair.tick().await;
    }
    let seen =
        |id: &String, age| Seen { id: id.as_str().into(), age: Duration::from_secs(age), every: EVERY };
    // By another server, before this one read what was heard.
    let mark = |satellite: &Resource| {
        let content = Content { state: "stale".to_owned(), ..satellite.content.clone() };
        let metadata = json!({"last_seen": held.pair.here.now()});
        let entry = by_system(&held.pair.here, TRANSITION, metadata);
        Ok(Decided::Commit(Box::new((content, entry)), ()))
    };
    held.pair.here.change(KIND, &known, mark).await.unwrap();
    // Another server was gone for long, which excuses members that are not marked yet.
    let to = held.pair.here.liveness.clock.steady();
    let from = to - SignedDuration::from_secs(30);
    held.pair.here.liveness.judge_state().was_deaf(Period { cause: Cause::Replica, from, to });
    let told = vec![seen(&stale, 8), seen(&known, 0), seen(&revoked, 0), seen(&pending, 0)];
    held.pair.other.store.note_seen(KIND, told).await.unwrap();
    overdue::look(&held.pair.here).await.unwrap();
    let heard = held.pair.here.liveness.unwatched.lock().unwrap().len();
    assert_eq!(heard, 1, "one of those that are stale was heard within its rule");
    for _ in 0..3 {
        held.pair.pass(1000).await;
        held.pair.tick().await;
    }
    for (id, expected) in [(&stale, "stale"), (&known, "stale"), (&revoked, "revoked"), (&pending, "pending")]
    {
        assert_eq!(state(&held.pair.here, id).await, expected);
        assert!(held.pair.here.liveness.find(KIND, id).is_none());
    }
    assert_eq!(moves(&held.pair.here, &stale).await, ["online", "stale"], "not even for a moment");
}

/// One server is enough: it hears a member between its last look and the commit.
async fn heard_while_marked(mut site: Site) {
    site.start().await;
    site.tick().await;
    let all = site.satellites(600, None).await;
    let due: Vec<_> = all.iter().map(|id| Due::of(&site.app.liveness, KIND, id)).collect();
    site.hand.pass(SignedDuration::from_secs(1000));
    let heard = &all[..1];
    let hear = async {
        while site.get(&heard[0]).await.content.state != "stale" {
            tokio::task::yield_now().await;
        }
        assert!(site.app.liveness.find(KIND, &heard[0]).is_some(), "the others are being marked");
        site::beat(&site.app, heard);
    };
    let (marked, ()) =
        tokio::join!(sweep::mark(&site.app, site.app.liveness.kind(KIND).unwrap(), &due, None), hear);
    marked.unwrap();
    assert_eq!(site.stale(&all).await, 600);
    site.tick().await;
    assert_eq!((site.stale(&all).await, site.stale(heard).await), (599, 0));
    assert!(site.app.liveness.find(KIND, &heard[0]).is_some());
}

#[tokio::test]
async fn a_member_heard_while_it_is_marked_is_online() {
    heard_while_marked(Site::new(tempfile::tempdir().unwrap()).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_heard_while_it_is_marked_is_online_on_postgres() {
    let database = database().await;
    let location = Location::Postgres { url: database.url.clone() };
    heard_while_marked(Site::at(tempfile::tempdir().unwrap(), &location).await).await;
}

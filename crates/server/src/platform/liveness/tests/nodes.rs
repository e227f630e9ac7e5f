//! GPU nodes that fall silent, beside the satellites.

use jiff::SignedDuration;
use serde_json::json;
use wardroom_core::{liveness::Interval, run::plan::Kind};
use wardroom_store::{Content, Location};
use wardroom_workflow::RUN;

use super::site::{Site, connect, member, store_member};
use crate::{
    kinds::gpu_node::{begin::Plan, document::Document, proof},
    platform::{
        app::{App, by_system},
        liveness::{NewSeat, flush, judge::Due, sweep},
        testing::database,
    },
};

const NODE: &str = crate::kinds::gpu_node::document::KIND;

fn named() -> Document {
    Document { hostname: "n".to_owned(), ..Document::default() }
}

/// Stores an active node and watches it.
async fn active(site: &Site, document: &impl serde::Serialize) -> String {
    let id = store_member(&site.app, member(NODE, "active", document)).await;
    let node = site.app.store.get(NODE, &id).await.unwrap().unwrap();
    crate::kinds::gpu_node::seat(&site.app, &node, NewSeat::default());
    id
}

/// Moves a node.
async fn put(site: &Site, id: &str, state: &str) {
    let moved = |node: &wardroom_store::Resource| {
        let content = Content { state: state.to_owned(), ..node.content.clone() };
        let entry =
            crate::platform::app::by_system(&site.app, wardroom_store::TRANSITION, serde_json::Value::Null);
        Ok(crate::platform::app::Decided::Commit(Box::new((content, entry)), ()))
    };
    site.app.change(NODE, id, moved).await.unwrap();
}

async fn state(site: &Site, id: &str) -> String {
    site.app.store.get(NODE, id).await.unwrap().unwrap().content.state
}

/// A run of a node in a state.
async fn run(site: &Site, kind: Kind, state: &str) -> String {
    let (id, entry) = (uuid::Uuid::now_v7().to_string(), by_system(&site.app, "registered", json!({})));
    let order = Plan::of(kind).order(&id, "node", &Document::default(), &entry);
    let content = order.accepted(site.app.now()).unwrap();
    store_member(&site.app, Content { state: state.to_owned(), keys: Default::default(), ..content }).await
}

/// All silent nodes go offline together; one that cannot be judged, or that a run is about to move, does not
/// delay the others.
#[tokio::test]
async fn nodes_that_fall_silent_go_offline_whatever_ails_another() {
    let mut site = Site::settled().await;
    let kept = run(&site, Kind::Onboarding, "running").await;
    let with = |run: &str| Document { run: Some(run.to_owned()), ..named() };
    let unreadable = active(&site, &json!({"hostname": 7})).await;
    let busy = active(&site, &with(&kept)).await;
    let mut silent = Vec::new();
    for _ in 0..300 {
        let done = run(&site, Kind::Onboarding, "completed").await;
        silent.push(active(&site, &with(&done)).await);
    }
    silent.push(active(&site, &named()).await);
    // The guard holds a loss of all at once for a while.
    site.hand.pass(SignedDuration::from_secs(1));
    site.pass(90 + 700, |_, _| {}).await;
    for id in &silent {
        assert_eq!(state(&site, id).await, "offline");
        assert!(site.app.liveness.find(NODE, id).is_none(), "it is not watched any more");
    }
    assert_eq!(
        (state(&site, &unreadable).await, state(&site, &busy).await),
        ("active".into(), "active".into())
    );
    let row = site.newest_row(NODE, &silent[7]).await;
    assert_eq!(row.entry.comment.as_deref(), Some("heartbeats_missed"));
    assert!(row.entry.metadata["last_seen"].is_string(), "{row:?}");
    assert!(site.app.store.get(RUN, &kept).await.unwrap().is_some());
}

/// Nodes that fall silent together are written together, also those that hold a run: a transaction for each would keep
/// the sweep busy for as long as a site is large.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_go_offline_in_few_transactions() {
    const NODES: i64 = 200;
    let database = database().await;
    let location = Location::Postgres { url: database.url.clone() };
    let mut site = Site::at(tempfile::tempdir().unwrap(), &location).await;
    site.start().await;
    site.tick().await;
    let (mut silent, mut ids) = (Vec::new(), Vec::new());
    for _ in 0..NODES {
        let done = run(&site, Kind::Onboarding, "completed").await;
        let id = active(&site, &Document { run: Some(done), ..named() }).await;
        silent.push(Due::of(&site.app.liveness, NODE, &id));
        ids.push(id);
    }
    site.hand.pass(SignedDuration::from_secs(1000));
    let kind = site.app.liveness.kind(NODE).unwrap();
    crate::platform::liveness::sweep::mark(&site.app, kind, &silent, None).await.unwrap();
    for id in &ids {
        assert_eq!(state(&site, id).await, "offline");
    }
    let written = "SELECT count(DISTINCT xid), count(*) FROM history WHERE to_state = 'offline'";
    let counted = connect(&database.url).await.query_one(written, &[]).await.unwrap();
    let (transactions, rows): (i64, i64) = (counted.get(0), counted.get(1));
    assert_eq!(rows, NODES);
    assert!(transactions < NODES / 10, "{transactions} transactions for {rows} rows");
}

/// A node that never states its interval is held to the one it was given. Its zone is its label, or else its
/// site, whichever server gives it a seat.
#[tokio::test]
async fn a_node_is_held_to_its_given_interval() {
    let mut site = Site::settled().await;
    let place = |label: Option<&str>| {
        let content = member(NODE, "active", &named());
        let labels = label.map(|zone| ("zone".to_owned(), zone.to_owned())).into_iter().collect();
        Content { labels, fields: [("site".to_owned(), "berlin".to_owned())].into(), ..content }
    };
    let (at_site, labelled) =
        (store_member(&site.app, place(None)).await, store_member(&site.app, place(Some("rack-7"))).await);
    for id in [&at_site, &labelled] {
        let node = site.app.store.get(NODE, id).await.unwrap().unwrap();
        crate::kinds::gpu_node::watch(&site.app, &node).unwrap();
    }
    let seen = |site: &Site| {
        let zone = |id: &str| {
            let record = site.app.liveness.slab.record(site.app.liveness.find(NODE, id).unwrap()).unwrap();
            (site.app.liveness.zones.name(record.zone), record.interval.map(|every| every.seconds()))
        };
        [zone(&at_site), zone(&labelled)]
    };
    let told = [(Some("berlin".into()), Some(30)), (Some("rack-7".into()), Some(30))];
    assert_eq!(seen(&site), told);
    // This node was never heard, so its interval is not stored.
    let unheard = store_member(&site.app, place(None)).await;
    site = site.restart().await;
    assert_eq!(seen(&site), told, "also when it was read from the store");
    let interval = site.app.liveness.standing(NODE, &unheard).unwrap().interval;
    assert_eq!(interval.map(|every| every.seconds()), Some(30));
    site.pass(301, |_, _| {}).await;
    site.pass(95, |_, _| {}).await;
    assert_eq!(state(&site, &at_site).await, "offline");
}

/// A node that is gone leaves nothing behind.
#[tokio::test]
async fn a_node_that_is_deleted_is_forgotten() {
    let site = Site::settled().await;
    let mut cursor = site.app.store.feed_tail().await.unwrap();
    let id = active(&site, &named()).await;
    site.app
        .store
        .note_seen(
            NODE,
            vec![wardroom_store::Seen { id: id.as_str().into(), age: Default::default(), every: 30 }],
        )
        .await
        .unwrap();
    let document = wardroom_store::Document::of(&1).unwrap();
    site.app.store.observe_all(NODE, "agent", &[(id.clone(), document, site.app.now())]).await.unwrap();
    put(&site, &id, "deleted").await;
    crate::platform::liveness::follow::catch_up(&site.app, &mut cursor).await.unwrap();
    assert_eq!(site.app.liveness.last_seen(NODE, &id), None);
    assert_eq!(site.app.store.seen(NODE).await.unwrap(), []);
    assert_eq!(site.app.store.observations(NODE, &id).await.unwrap(), []);
}

/// Another server on the same database, which has loaded its members.
async fn another(site: &Site) -> App {
    let app = &site.app;
    let key = crate::platform::identity::secret::Key::load(&site.folder.path().join("server.key"))
        .unwrap()
        .unwrap();
    let clock = crate::platform::clock::Timepiece::turned_by(site.hand);
    let other = App::with_clock(app.store.clone(), app.config.clone(), key, crate::kinds::KINDS, clock);
    sweep::start(&other).await.unwrap();
    other
}

/// When a node was last heard is known in whichever state it is, wherever it was heard, and after a restart.
#[tokio::test]
async fn a_node_that_does_not_have_to_beat_is_known_to_have_been_heard() {
    let mut site = Site::settled().await;
    let id = store_member(&site.app, member(NODE, "enrolling", &named())).await;
    let other = another(&site).await;
    assert!(site.app.liveness.hear(NODE, &id, None), "for the first time");
    let heard = site.app.liveness.last_seen(NODE, &id).expect("it was heard");
    assert!(site.app.liveness.find(NODE, &id).is_none(), "it does not have to beat");
    flush::flush(&site.app).await.unwrap();
    flush::read_all(&other).await.unwrap();
    assert_eq!(seconds_between(other.liveness.last_seen(NODE, &id), heard), Some(0), "elsewhere");
    assert!(other.liveness.find(NODE, &id).is_none());
    assert!(!other.liveness.hear(NODE, &id, None));
    drop(other);
    site = site.restart().await;
    assert!(site.app.liveness.last_seen(NODE, &id).is_some(), "after a restart");
    assert!(site.app.liveness.find(NODE, &id).is_none());
}

/// A node that a person or a run recovers was last heard when its agent proved its health; the recovery is no
/// beat.
#[tokio::test]
async fn a_node_that_is_recovered_elsewhere_was_not_heard_by_that() {
    let site = Site::settled().await;
    let id = store_member(&site.app, member(NODE, "quarantined", &named())).await;
    let other = another(&site).await;
    let mut cursor = other.store.feed_tail().await.unwrap();
    let heard = site.app.now();
    let every = Interval::from_seconds(600);
    let health = proof::Health { interval: every, ..proof::Health::default() };
    let health = wardroom_store::Document::of(&health).unwrap();
    site.app.store.observe_all(NODE, proof::AGENT, &[(id.clone(), health, heard)]).await.unwrap();
    site.hand.pass(SignedDuration::from_secs(32));
    put(&site, &id, "active").await;
    crate::platform::liveness::follow::catch_up(&other, &mut cursor).await.unwrap();
    assert!(other.liveness.find(NODE, &id).is_some(), "it has to beat from now on");
    assert_eq!(seconds_between(other.liveness.last_seen(NODE, &id), heard), Some(0));
    // It beats as often as it said, also on a server that never gave it a seat before.
    assert_eq!(other.liveness.standing(NODE, &id).unwrap().interval, every);
    let node = site.app.store.get(NODE, &id).await.unwrap().unwrap();
    site.app.liveness.hear(NODE, &id, None);
    crate::kinds::gpu_node::watch_from(&site.app, &node, proof::heard(&site.app, &id).await.unwrap())
        .unwrap();
    assert_eq!(site.app.liveness.standing(NODE, &id).unwrap().interval, every);
}

/// Times are kept in milliseconds, and pass while a test runs.
fn seconds_between(seen: Option<jiff::Timestamp>, heard: jiff::Timestamp) -> Option<i64> {
    seen.map(|seen| seen.duration_since(heard).as_secs())
}

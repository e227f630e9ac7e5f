//! Seats, intervals, and what survives a restart.

use std::time::Duration;

use jiff::SignedDuration;
use wardroom_api::satellite::{Beat, CachedImage, Reported};
use wardroom_core::liveness::Interval;
use wardroom_store::Seen;

use super::site::{KIND, Site, beat, member, store_member, store_satellite};
use crate::{
    kinds::satellite::facts::Facts,
    platform::{
        liveness::{NewSeat, flush},
        observed,
    },
};

fn seconds(count: u32) -> Option<Interval> {
    Interval::from_seconds(count)
}

#[tokio::test]
async fn a_seat_is_kept_and_an_old_handle_beats_for_no_other_member() {
    let site = Site::settled().await;
    let live = &site.app.liveness;
    let seat = live.seat(KIND, "a", NewSeat::default());
    assert_eq!(live.seat(KIND, "a", NewSeat::default()), seat, "a member that has a seat keeps it");
    assert_eq!(live.find(KIND, "a"), Some(seat));
    assert_eq!(live.find("node", "a"), None);
    live.unseat(KIND, "a");
    assert_eq!(live.find(KIND, "a"), None);
    live.beat(seat, None);
    assert_eq!(live.find(KIND, "a"), None, "a beat that comes late does not watch it again");

    live.forget(KIND, "a");
    let other = live.seat(
        KIND,
        "b",
        NewSeat { last_seen: Some(site.app.now() - SignedDuration::from_secs(50)), ..NewSeat::default() },
    );
    assert_eq!(other.index, seat.index, "the place is used again");
    let before = live.last_seen(KIND, "b");
    live.beat(seat, None);
    let after = live.last_seen(KIND, "b").unwrap();
    assert!(after.duration_since(before.unwrap()).abs() < SignedDuration::from_secs(1));
}

#[tokio::test]
async fn the_reply_gives_the_interval_spread_a_little() {
    let site = Site::settled().await;
    let live = &site.app.liveness;
    let given = live.seat(KIND, "given", NewSeat { given: seconds(100), ..NewSeat::default() });
    let mut all = std::collections::BTreeSet::new();
    for _ in 0..200 {
        site.hand.pass(SignedDuration::from_millis(7));
        all.insert(live.beat(given, seconds(10)).next.seconds());
    }
    assert!(all.iter().all(|next| (90..=110).contains(next)), "{all:?}");
    assert!(all.len() > 5, "{all:?}");
    let silent = live.seat(KIND, "silent", NewSeat::default());
    assert!((27..=33).contains(&live.beat(silent, None).next.seconds()));
    let said = live.seat(KIND, "said", NewSeat::default());
    assert!((54..=66).contains(&live.beat(said, seconds(60)).next.seconds()));
}

/// A client that says a shorter interval but keeps the old one is not believed.
#[tokio::test]
async fn a_shorter_interval_holds_once_it_is_kept() {
    let mut site = Site::settled().await;
    let id = store_satellite(&site.app, None, None).await;
    let seat = site.app.liveness.seat(KIND, &id, NewSeat::default());
    site.app.liveness.beat(seat, seconds(600));
    for _ in 0..3 {
        site.pass(1100, |_, _| {}).await;
        assert_eq!(site.get(&id).await.content.state, "online");
        site.app.liveness.beat(seat, seconds(10));
    }
    site.pass(11, |_, _| {}).await;
    site.app.liveness.beat(seat, seconds(10));
    site.pass(33, |_, _| {}).await;
    assert_eq!(site.get(&id).await.content.state, "stale", "now it keeps it, and is held to it");
}

/// A server that only saw a member register learns from the one that hears it how often it beats.
#[tokio::test]
async fn an_interval_is_learnt_from_another_server() {
    let mut site = Site::settled().await;
    let id = store_satellite(&site.app, None, None).await;
    site.app.liveness.seat(KIND, &id, NewSeat::default());
    site.pass(1, |_, _| {}).await;
    let seen = Seen { id: id.as_str().into(), age: Duration::ZERO, every: 30 };
    site.app.store.note_seen(KIND, vec![seen]).await.unwrap();
    flush::read_all(&site.app).await.unwrap();
    site.pass(92, |_, _| {}).await;
    assert_eq!(site.get(&id).await.content.state, "stale", "three beats of 30 s were missed");
}

/// A beat that is written down late, by a server that stood still, is older than what is known here; it tells the
/// interval nevertheless, and only that.
#[tokio::test]
async fn an_interval_is_learnt_from_a_late_flush() {
    let mut site = Site::settled().await;
    let id = store_satellite(&site.app, None, None).await;
    site.app.liveness.seat(KIND, &id, NewSeat::default());
    let known = store_satellite(&site.app, None, None).await;
    site.app.liveness.beat(site.app.liveness.seat(KIND, &known, NewSeat::default()), seconds(60));
    let late = |id: &str| Seen { id: id.into(), age: Duration::from_secs(600), every: 30 };
    site.app.store.note_seen(KIND, vec![late(&id), late(&known)]).await.unwrap();
    flush::read_all(&site.app).await.unwrap();
    let standing = |id: &str| site.app.liveness.standing(KIND, id).unwrap().interval;
    assert_eq!(standing(&known), seconds(60), "the newer one holds");
    assert_eq!(standing(&id), seconds(30));
    site.pass(85, |_, _| {}).await;
    assert_eq!(
        site.get(&id).await.content.state,
        "online",
        "the beat was heard long ago, but not the last one"
    );
    site.pass(7, |_, _| {}).await;
    assert_eq!(site.get(&id).await.content.state, "stale");
    assert_eq!(site.get(&known).await.content.state, "online");
}

/// A member that beats without stating its interval, and was never given one.
#[tokio::test]
async fn without_an_interval_silence_may_last_a_quarter_of_an_hour() {
    let mut site = Site::settled().await;
    let id = store_satellite(&site.app, None, None).await;
    let seat = site.app.liveness.seat(KIND, &id, NewSeat::default());
    site.pass(600, |_, _| {}).await;
    site.app.liveness.beat(seat, None);
    // The work of a sweep takes time too, and that passes besides.
    site.pass(14 * 60, |_, _| {}).await;
    assert_eq!(site.get(&id).await.content.state, "online");
    site.pass(62, |_, _| {}).await;
    assert_eq!(site.get(&id).await.content.state, "stale");
    let said = site.newest_row(KIND, &id).await.entry.metadata;
    let time = |field: &str| said[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert_eq!(said["interval"], serde_json::Value::Null);
    assert_eq!(
        time("due").duration_since(time("last_seen")).round(jiff::Unit::Second).unwrap().as_secs(),
        900
    );
}

#[tokio::test]
async fn beats_survive_a_restart() {
    let mut site = Site::settled().await;
    let all = site.satellites(50, Some("a")).await;
    site.pass_beating(30, &all).await;
    let seen = site.app.liveness.last_seen(KIND, &all[0]).unwrap();
    let age = site.app.now().duration_since(seen);
    let site = site.restart().await;
    for id in &all {
        assert!(site.app.liveness.find(KIND, id).is_some());
        let again = site.app.now().duration_since(site.app.liveness.last_seen(KIND, id).unwrap());
        assert!((again - age).abs() < SignedDuration::from_secs(5), "{again} {age}");
        let silence = site.app.liveness.standing(KIND, id).unwrap();
        assert_eq!(silence.interval, seconds(30), "and so does how often they beat");
    }
}

/// Seats follow changes of members by any caller and any server.
#[tokio::test]
async fn seats_follow_the_feed() {
    let site = Site::settled().await;
    let mut cursor = site.app.store.feed_tail().await.unwrap();
    let id = store_satellite(&site.app, Some("z"), None).await;
    let follow = crate::platform::liveness::follow::catch_up;
    follow(&site.app, &mut cursor).await.unwrap();
    assert!(site.app.liveness.find(KIND, &id).is_some());
    move_to(&site, &id, "revoked", false).await;
    follow(&site.app, &mut cursor).await.unwrap();
    assert!(site.app.liveness.find(KIND, &id).is_none());
    assert!(site.app.liveness.last_seen(KIND, &id).is_some());
    move_to(&site, &id, "online", false).await;
    follow(&site.app, &mut cursor).await.unwrap();
    assert!(site.app.liveness.find(KIND, &id).is_some());
    move_to(&site, &id, "online", true).await;
    follow(&site.app, &mut cursor).await.unwrap();
    assert!(site.app.liveness.last_seen(KIND, &id).is_none(), "a deleted one is forgotten");
}

async fn move_to(site: &Site, id: &str, state: &str, deleted: bool) {
    let before = site.get(id).await;
    let after = wardroom_store::Content { state: state.to_owned(), deleted, ..before.content.clone() };
    let entry_type = if deleted { "deleted" } else { wardroom_store::TRANSITION };
    let entry = crate::platform::app::by_system(&site.app, entry_type, serde_json::Value::Null);
    let change = wardroom_store::Change {
        before: Some(before),
        after,
        entry,
        effects: Vec::new(),
        fence: None,
        holds: Vec::new(),
    };
    site.app.store.commit(change).await.unwrap();
}

/// One that was heard while it was being marked is not thrown out of its seat.
#[tokio::test]
async fn a_request_for_the_seat_meanwhile_keeps_it() {
    let mut site = Site::settled().await;
    let all = site.satellites(1, None).await;
    site.pass(100, |_, _| {}).await;
    assert_eq!(site.stale(&all).await, 1);
    // It comes back: committed first, seated then.
    move_to(&site, &all[0], "online", false).await;
    let seat = site.app.liveness.seat(KIND, &all[0], NewSeat::default());
    assert_eq!(site.app.liveness.leave(seat, 1), Some(2), "the sweep that judged it before is told");
    assert!(site.app.liveness.find(KIND, &all[0]).is_some());
    assert_eq!(site.app.liveness.leave(seat, 2), None);
    beat(&site.app, &all);
    assert!(site.app.liveness.find(KIND, &all[0]).is_none());
}

/// One row that cannot be read keeps nothing else from being written, and neither itself.
#[tokio::test]
async fn an_unreadable_observation_holds_up_no_facts() {
    let site = Site::settled().await;
    let all = site.satellites(2, None).await;
    let torn = wardroom_store::Document::of(&serde_json::json!({"received_at": "torn"})).unwrap();
    let row = (all[0].clone(), torn, site.app.now());
    site.app.store.observe_all(KIND, "heartbeat", &[row]).await.unwrap();
    let later = site.app.now().saturating_add(SignedDuration::from_mins(1)).unwrap();
    for id in &all {
        Facts::at(&site.app).keep(id, Beat { image_count: Some(3), ..Beat::default() }, later);
    }
    observed::flush(&site.app).await.unwrap();
    let ids: Vec<_> = all.iter().map(String::as_str).collect();
    let written = site.app.store.observed(KIND, "heartbeat", &ids).await.unwrap();
    let counts: Vec<_> =
        written.iter().map(|seen| seen.document.read::<Reported>().unwrap().image_count).collect();
    assert_eq!(counts, [Some(3), Some(3)]);
}

async fn latest(site: &Site, id: &str) -> Reported {
    Facts::at(&site.app).0.latest(&site.app.store, &[id]).await.unwrap().remove(id).unwrap()
}

/// What a server heard is written down; the next one has none of it in memory when it hears the satellite say less.
#[tokio::test]
async fn fields_missing_in_a_beat_after_a_restart_stay() {
    let site = Site::settled().await;
    let id = site.satellites(1, None).await.remove(0);
    let image = CachedImage { reference: "registry/library/alpine:3".to_owned(), ..CachedImage::default() };
    let (images, cached_images) = (Some(3), Some(vec![image.clone()]));
    let full = Beat { image_count: images, cached_images, cpu_percent: Some(2.5), ..Beat::default() };
    // The clock of the next server is another one here.
    let now = site.app.now();
    let at = |minute: i64| now.saturating_add(SignedDuration::from_mins(minute)).unwrap();
    Facts::at(&site.app).keep(&id, full, at(0));
    let site = site.restart().await;
    let activity = |text: &str| Beat { activity: Some(text.to_owned()), ..Beat::default() };
    Facts::at(&site.app).keep(&id, activity("syncing"), at(1));
    Facts::at(&site.app).keep(&id, Beat { cpu_percent: Some(4.0), ..Beat::default() }, at(2));
    observed::flush(&site.app).await.unwrap();
    Facts::at(&site.app).keep(&id, activity("idle"), at(3));
    observed::flush(&site.app).await.unwrap();

    let written = site.app.store.observed(KIND, "heartbeat", &[&id]).await.unwrap().remove(0);
    for known in [written.document.read::<Reported>().unwrap(), latest(&site, &id).await] {
        assert_eq!((known.image_count, known.cpu_percent), (Some(3), Some(4.0)));
        assert_eq!((known.cached_images, known.activity.as_deref()), (vec![image.clone()], Some("idle")));
    }
    // What it says is none is none, also when it was written down.
    let site = site.restart().await;
    Facts::at(&site.app).keep(&id, Beat { cached_images: Some(Vec::new()), ..Beat::default() }, at(4));
    observed::flush(&site.app).await.unwrap();
    let known = latest(&site, &id).await;
    assert_eq!((known.cached_images.len(), known.image_count), (0, Some(3)));
}

/// A feed that was held back tells of all the ways at once that a member went, when it is there for long.
#[tokio::test]
async fn a_late_feed_is_no_beat() {
    let site = Site::settled().await;
    let mut cursor = site.app.store.feed_tail().await.unwrap();
    let id = store_member(&site.app, member(KIND, "pending", &serde_json::json!({}))).await;
    move_to(&site, &id, "online", false).await;
    site.app.liveness.seat(KIND, &id, NewSeat::default());
    site.hand.pass(SignedDuration::from_secs(50));
    crate::platform::liveness::follow::catch_up(&site.app, &mut cursor).await.unwrap();
    assert!(site.app.liveness.find(KIND, &id).is_some(), "it is watched");
    let silent = site.app.now().duration_since(site.app.liveness.last_seen(KIND, &id).unwrap());
    assert!(silent >= SignedDuration::from_secs(50), "{silent}");
}

//! When members were last heard.

use std::time::Duration;

use wardroom_store::{Ages, Error, Fence, Seen, Store};

use crate::{
    database::Database,
    sample::{create, created, id, node, to_state},
};

fn seen(id: &str, seconds: u64, every: u32) -> Seen {
    Seen { id: id.into(), age: Duration::from_secs(seconds), every }
}

/// What is stored, with ages in whole seconds.
async fn stored(store: &Store) -> Vec<(String, u64, u32)> {
    let mut all = store.seen("satellite").await.unwrap();
    all.sort_by(|a, b| a.id.cmp(&b.id));
    all.into_iter().map(|seen| (seen.id.into(), seen.age.as_secs() / 10 * 10, seen.every)).collect()
}

pub(crate) async fn last_seen_survives_as_an_age(database: Database) {
    let store = database.open().await;
    let beats = vec![seen("a", 1000, 30), seen("b", 50, 0)];
    store.note_seen("satellite", beats).await.unwrap();
    store.note_seen("device", vec![seen("a", 500, 10)]).await.unwrap();
    drop(store);
    let store = database.open().await;
    let (a, b) = (("a".to_owned(), 1000, 30), ("b".to_owned(), 50, 0));
    assert_eq!(stored(&store).await, [a, b]);
    store.note_seen("satellite", vec![seen("a", 0, 60)]).await.unwrap();
    assert_eq!(stored(&store).await[0], ("a".to_owned(), 0, 60));
    store.forget_seen("satellite", "a").await.unwrap();
    assert_eq!(stored(&store).await.len(), 1);
}

/// Two servers may hear the same member; the newer beat counts, in whatever order they are written down.
pub(crate) async fn the_newer_beat_stays(database: Database) {
    let (here, there) = (database.open().await, database.open().await);
    here.note_seen("satellite", vec![seen("a", 0, 30)]).await.unwrap();
    there.note_seen("satellite", vec![seen("a", 500, 10)]).await.unwrap();
    assert_eq!(stored(&here).await, [("a".to_owned(), 0, 30)]);
    // Its interval is known from the server that heard it stated, also when that was before, or is written
    // later.
    here.note_seen("satellite", vec![seen("a", 0, 0), seen("b", 100, 0)]).await.unwrap();
    there.note_seen("satellite", vec![seen("b", 500, 60)]).await.unwrap();
    assert_eq!(stored(&here).await, [("a".to_owned(), 0, 30), ("b".to_owned(), 100, 60)]);
}

/// A server says up to when it has written everything by a moment from before: however long the writing took counts.
pub(crate) async fn a_watermark_is_as_old_as_its_moment(database: Database) {
    let (here, there) = (database.open().await, database.open().await);
    let pause = Duration::from_millis(300);
    let moment = there.moment().await.unwrap();
    tokio::time::sleep(pause).await;
    there.note_watermark("b", moment).await.unwrap();
    let replica = async || here.replicas().await.unwrap().pop();
    let known = replica().await.unwrap();
    assert!(&*known.name == "b" && known.now.since(known.watermark).unsigned_abs() >= pause, "{known:?}");
    assert_eq!(known.refused, None);
    assert_eq!(stored(&here).await, [], "a server is no member");

    there.note_watermark("b", there.moment().await.unwrap()).await.unwrap();
    there.note_refused("b", 7).await.unwrap();
    let known = replica().await.unwrap();
    assert!(known.now.since(known.watermark).unsigned_abs() < pause, "{known:?}");
    assert_eq!(known.refused.map(|refused| refused.seconds), Some(7));
    here.forget_replica("b").await.unwrap();
    assert_eq!(replica().await, None);
}

const AGES: Ages<'_> = Ages {
    kind: "node",
    states: &["discovered", "active"],
    per_second: Duration::from_secs(2),
    least: Duration::from_secs(50),
    fallback: Duration::from_secs(300),
};

/// Ids of the rows that a question found.
fn ids(found: Option<wardroom_store::Beats>) -> Vec<String> {
    let mut ids: Vec<_> = found.unwrap().rows.into_iter().map(|beat| beat.id.into_string()).collect();
    ids.sort();
    ids
}

/// By its own interval, or without one; and only members in these states.
pub(crate) async fn overdue_beats_are_found(database: Database) {
    let store = database.open().await;
    for number in 1..=6 {
        created(&store, number).await;
    }
    let gone = store.get("node", &id(6)).await.unwrap().unwrap();
    store.commit(to_state(&gone, "retired")).await.unwrap();
    let ages = [(1, 70, 30), (2, 50, 30), (3, 70, 0), (4, 310, 0), (5, 40, 1), (6, 9000, 30), (7, 9000, 30)];
    let rows = ages.map(|(number, age, every)| seen(&id(number), age, every));
    store.note_seen("node", rows.into()).await.unwrap();
    assert_eq!(ids(store.overdue(AGES).await.unwrap()), [id(1), id(4)]);
    assert_eq!(ids(store.heard_within(AGES).await.unwrap()), [id(2), id(3), id(5)]);
    let none = Ages { states: &["nowhere"], ..AGES };
    assert_eq!(ids(store.overdue(none).await.unwrap()), [""; 0]);
    assert_eq!(ids(store.heard_within(none).await.unwrap()), [""; 0]);
    assert_eq!(store.seen_of("node", &[id(4), id(8)]).await.unwrap().len(), 1);
}

/// A beat that is written between the decision and the commit is a conflict, for one change and for many.
pub(crate) async fn a_beat_comes_before_the_mark(database: Database) {
    let store = database.open().await;
    let (one, two) = (created(&store, 1).await, created(&store, 2).await);
    let lease = store.acquire_lease("sweep", "here", Duration::from_secs(60)).await.unwrap().unwrap();
    store.note_seen("node", vec![seen(&id(1), 700, 30), seen(&id(2), 700, 30)]).await.unwrap();
    let marks = |found: wardroom_store::Beats| {
        let mark = |number, before: &wardroom_store::Resource| {
            let at = found.rows.iter().find(|beat| *beat.id == *id(number)).map(|beat| beat.at);
            let fence: Option<Fence> = Some(lease.fence().on_beat(at));
            wardroom_store::Change { fence, ..to_state(before, "active") }
        };
        [mark(1, &one), mark(2, &two)]
    };
    let decided = store.overdue(AGES).await.unwrap().unwrap();
    assert!(decided.rows.iter().all(|beat| beat.version == 1), "{decided:?}");
    store.note_seen("node", vec![seen(&id(1), 0, 30)]).await.unwrap();
    let made = store.commit_all(marks(decided.clone()).into()).await;
    assert!(matches!(made[..], [Err(Error::Conflict), Ok(_)]), "{made:?}");

    // One that holds another resource goes alone.
    let other = store.commit(create(node(3))).await.unwrap().resource;
    let [mut mark, _] = marks(decided);
    mark.holds = vec![wardroom_store::Held::at(&other)];
    assert!(matches!(store.commit(mark.clone()).await, Err(Error::Conflict)));
    let known = store.heard_within(AGES).await.unwrap().unwrap();
    let now = known.rows.iter().find(|beat| *beat.id == *id(1)).map(|beat| beat.at);
    mark.fence = mark.fence.map(|fence| fence.on_beat(now));
    store.commit(mark).await.unwrap();
}

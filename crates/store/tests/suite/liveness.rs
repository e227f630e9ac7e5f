//! When members were last heard.

use std::time::Duration;

use wardroom_store::{Seen, SeenMark};

use crate::database::Database;

fn seen(id: &str, seconds: u64, every: u32) -> Seen {
    Seen { id: id.into(), age: Duration::from_secs(seconds), every }
}

/// What is stored, with ages in whole seconds.
async fn stored(store: &wardroom_store::Store, since: Option<SeenMark>) -> Vec<(String, u64, u32)> {
    let mut all = store.seen("satellite", since).await.unwrap();
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
    assert_eq!(stored(&store, None).await, [a, b]);
    store.note_seen("satellite", vec![seen("a", 0, 60)]).await.unwrap();
    assert_eq!(stored(&store, None).await[0], ("a".to_owned(), 0, 60));
    store.forget_seen("satellite", "a").await.unwrap();
    assert_eq!(stored(&store, None).await.len(), 1);
}

/// Two servers may hear the same member; the newer beat counts, in whatever order they are written down.
pub(crate) async fn the_newer_beat_stays(database: Database) {
    let (here, there) = (database.open().await, database.open().await);
    here.note_seen("satellite", vec![seen("a", 0, 30)]).await.unwrap();
    there.note_seen("satellite", vec![seen("a", 500, 10)]).await.unwrap();
    assert_eq!(stored(&here, None).await, [("a".to_owned(), 0, 30)]);
    // How often it beats is known from whoever heard it say so, also when that was before, or is written down later.
    here.note_seen("satellite", vec![seen("a", 0, 0), seen("b", 100, 0)]).await.unwrap();
    there.note_seen("satellite", vec![seen("b", 500, 60)]).await.unwrap();
    assert_eq!(stored(&here, None).await, [("a".to_owned(), 0, 30), ("b".to_owned(), 100, 60)]);
}

/// What is read is what was written down since, whenever it was heard: a server that stood still writes late.
pub(crate) async fn what_is_written_late_is_seen(database: Database) {
    let (here, there) = (database.open().await, database.open().await);
    here.note_seen("satellite", vec![seen("a", 0, 30), seen("b", 0, 30)]).await.unwrap();
    // Others who write to the same cluster hold the mark back, until they are done.
    let mut mark = here.seen_mark().await.unwrap();
    for _ in 0..1000 {
        if stored(&here, Some(mark)).await.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        mark = here.seen_mark().await.unwrap();
    }
    assert_eq!(stored(&here, Some(mark)).await, [], "nothing since");
    there.note_seen("satellite", vec![seen("b", 0, 30), seen("c", 5000, 60)]).await.unwrap();
    let (b, c) = (("b".to_owned(), 0, 30), ("c".to_owned(), 5000, 60));
    assert_eq!(stored(&here, Some(mark)).await, [b, c]);
    assert_eq!(stored(&here, None).await.len(), 3);
}

/// A server says up to when it has told everything by a moment from before: however long the telling took counts.
pub(crate) async fn what_is_told_is_as_old_as_its_moment(database: Database) {
    let (here, there) = (database.open().await, database.open().await);
    let pause = Duration::from_millis(300);
    let moment = there.moment().await.unwrap();
    tokio::time::sleep(pause).await;
    there.note_told("b", moment, 7).await.unwrap();
    let told = here.told().await.unwrap();
    assert!(told.len() == 1 && &*told[0].server == "b" && told[0].age >= pause, "{told:?}");
    assert_eq!(told[0].news, 7);
    assert_eq!(stored(&here, None).await, [], "a server is no member");
    there.note_told("b", there.moment().await.unwrap(), 8).await.unwrap();
    let told = here.told().await.unwrap();
    assert!(told.len() == 1 && told[0].news == 8, "{told:?}");
    here.forget_told("b").await.unwrap();
    assert_eq!(here.told().await.unwrap(), []);
}

//! What was seen of a resource, beside the resource.

use wardroom_store::{Document, Observation};

use crate::database::Database;
use crate::sample::{at, create, created, id, node, to_state};

fn seen(source: &str, version: i64) -> Observation {
    Observation {
        kind: "node".to_owned(),
        resource_id: id(1),
        source: source.to_owned(),
        version,
        document: Document::of(&version).unwrap(),
        observed_at: at(version),
        received_at: at(version + 1),
    }
}

pub(crate) async fn one_row_for_each_source(database: Database) {
    let store = database.open().await;
    let node = created(&store, 1).await;
    assert!(store.observe(&seen("agent", 1)).await.unwrap());
    assert!(store.observe(&seen("adapter", 1)).await.unwrap());
    assert!(store.observe(&seen("agent", 2)).await.unwrap());
    assert!(!store.observe(&seen("agent", 2)).await.unwrap(), "another writer was faster");
    assert!(!store.observe(&seen("agent", 1)).await.unwrap());
    assert!(!store.observe(&seen("missing", 2)).await.unwrap());
    assert_eq!(store.observations("node", &id(1)).await.unwrap(), [seen("adapter", 1), seen("agent", 2)]);
    assert_eq!(store.get("node", &id(1)).await.unwrap(), Some(node), "the resource stays as it was");
    assert_eq!(store.observation("node", &id(1), "agent").await.unwrap(), Some(seen("agent", 2)));
    assert_eq!(store.observation("node", &id(1), "missing").await.unwrap(), None);
    let ids = [&*id(1), &*id(2)].map(str::to_owned);
    let ids = ids.each_ref().map(|id| &**id);
    assert_eq!(store.observed("node", "agent", &ids).await.unwrap(), [seen("agent", 2)]);
    assert_eq!(store.observed("node", "agent", &[]).await.unwrap(), []);
    assert_eq!(store.forget_observations("node", &id(1)).await.unwrap(), 2);
    assert_eq!(store.observations("node", &id(1)).await.unwrap(), []);
}

pub(crate) async fn many_are_kept_at_once(database: Database) {
    let store = database.open().await;
    let text = Document::of(&"quote \" and \\ and ü").unwrap();
    let seen =
        |seconds| -> Vec<_> { (1..=300).map(|number| (id(number), text.clone(), at(seconds))).collect() };
    for made in store.commit_all((1..=300).map(|number| create(node(number))).collect()).await {
        made.unwrap();
    }
    store.observe_all("node", "beat", &seen(10)).await.unwrap();
    store.observe_all("node", "beat", &seen(20)[..2]).await.unwrap();
    store.observe_all("node", "beat", &seen(15)[..1]).await.unwrap();
    store.observe_all("node", "beat", &[]).await.unwrap();
    let of = |number| {
        let store = store.clone();
        async move { store.observations("node", &id(number)).await.unwrap().remove(0) }
    };
    let first = of(1).await;
    assert_eq!((first.version, first.received_at), (2, at(20)), "what is older does not come back");
    assert_eq!((&*first.source, &first.document), ("beat", &text));
    assert_eq!((of(3).await.version, of(300).await.received_at), (1, at(10)));
}

/// What is written down late, of a resource that is gone or was never there, is not kept.
pub(crate) async fn nothing_is_kept_of_the_gone(database: Database) {
    let store = database.open().await;
    let (gone, stays) = (created(&store, 1).await, created(&store, 2).await);
    let seen: Vec<_> = (1..=3).map(|number| (id(number), Document::of(&number).unwrap(), at(10))).collect();
    let mut delete = to_state(&gone, "retired");
    delete.after.deleted = true;
    store.commit(delete).await.unwrap();
    store.observe_all("node", "beat", &seen).await.unwrap();
    let kept = [&*gone.content.id, &*stays.content.id, &*id(3)];
    let kept = store.observed("node", "beat", &kept).await.unwrap();
    assert_eq!(kept.iter().map(|kept| &*kept.resource_id).collect::<Vec<_>>(), [&*stays.content.id]);
}

pub(crate) async fn one_observer_per_version(database: Database) {
    let store = database.open().await;
    for version in 1..=3 {
        let racers = (0..20).map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.observe(&seen("agent", version)).await.unwrap() })
        });
        let mut won = 0;
        for racer in racers.collect::<Vec<_>>() {
            won += usize::from(racer.await.unwrap());
        }
        assert_eq!(won, 1);
    }
}

//! Changes to test with.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use wardroom_store::{Change, Committed, Content, Document, Entry, FeedItem, Resource, Store};

/// Ids in the order of their numbers, shaped like UUIDs.
pub(crate) fn id(number: usize) -> String {
    format!("01890000-0000-7000-8000-{number:012}")
}

pub(crate) fn at(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(1_790_000_000_000_000 + micros).unwrap()
}

pub(crate) fn entry(entry_type: &str) -> Entry {
    Entry {
        entry_type: entry_type.to_owned(),
        triggered_by: "admin".to_owned(),
        user_id: Some("ada".to_owned()),
        comment: None,
        metadata: serde_json::Value::Null,
        request_id: Some("r-1".to_owned()),
        at: at(0),
    }
}

pub(crate) fn node(number: usize) -> Content {
    Content {
        kind: "node".to_owned(),
        id: id(number),
        name: format!("node-{number}"),
        state: "discovered".to_owned(),
        document: Document::of(&serde_json::json!({ "attempts": 0 })).unwrap(),
        labels: BTreeMap::from([("rack".to_owned(), format!("r{}", number % 3))]),
        fields: BTreeMap::from([("workflow".to_owned(), format!("w{}", number % 2))]),
        keys: BTreeSet::from([format!("mac:{number:012x}")]),
        deleted: false,
        due_at: None,
    }
}

pub(crate) fn create(content: Content) -> Change {
    Change {
        before: None,
        after: content,
        entry: entry("registered"),
        effects: vec![],
        fence: None,
        holds: vec![],
    }
}

pub(crate) fn to_state(before: &Resource, state: &str) -> Change {
    let after = Content { state: state.to_owned(), ..before.content.clone() };
    Change {
        before: Some(before.clone()),
        after,
        entry: entry("transition"),
        effects: vec![],
        fence: None,
        holds: vec![],
    }
}

pub(crate) async fn created(store: &Store, number: usize) -> Resource {
    store.commit(create(node(number))).await.unwrap().resource
}

pub(crate) async fn moved(store: &Store, before: &Resource, state: &str) -> Committed {
    store.commit(to_state(before, state)).await.unwrap()
}

/// The whole feed once it has this many changes: another transaction of the cluster may hold it back for a
/// moment.
pub(crate) async fn feed_of(store: &Store, count: usize) -> Vec<FeedItem> {
    for _ in 0..400 {
        let items = store.feed_after(&store.feed_start(), count + 1).await.unwrap();
        if items.len() >= count {
            assert_eq!(items.len(), count);
            return items;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    panic!("the feed never had {count} changes");
}

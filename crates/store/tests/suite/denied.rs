//! The deny set names resources that lost access, for servers that answer from memory; an embedded database
//! has no other server.

use wardroom_store::{Change, Content, Document, List, Store};

use crate::database::Database;
use crate::sample::{create, entry, moved, node};

fn satellite(number: usize) -> Content {
    Content { kind: "satellite".to_owned(), state: "pending".to_owned(), ..node(number) }
}

async fn denied(store: &Store) -> Vec<(String, i64)> {
    let denied = store.denied().await.unwrap();
    denied.into_iter().map(|row| (row.id, row.version)).collect()
}

pub(crate) async fn a_denial_is_named_for_other_servers(database: Database) {
    let store = database.open().await;
    let is_shared = matches!(database.location(), wardroom_store::Location::Postgres { .. });
    let one = store.commit(create(satellite(1))).await.unwrap().resource;
    let one = moved(&store, &one, "online").await.resource;
    let one = moved(&store, &one, "stale").await.resource;
    assert_eq!(denied(&store).await, [], "a resource with access is not denied");
    let one = moved(&store, &one, "revoked").await.resource;
    let one = moved(&store, &one, "pending").await.resource;
    let one = moved(&store, &one, "online").await.resource;
    let deleted = Content { deleted: true, ..one.content.clone() };
    let change =
        Change { after: deleted, entry: entry("deleted"), ..crate::sample::to_state(&one, "online") };
    store.commit(change).await.unwrap();
    // Nothing of other kinds is answered from memory.
    let other = store.commit(create(node(2))).await.unwrap().resource;
    moved(&store, &other, "revoked").await;

    // One that has two credentials for a while loses one of them with any change.
    let overlap = r#"{"credential":{"hash":"b","previous_hash":"a"}}"#;
    let two = Content {
        state: "online".to_owned(),
        document: Document::of(&serde_json::from_str::<serde_json::Value>(overlap).unwrap()).unwrap(),
        ..satellite(3)
    };
    let two = store.commit(create(two)).await.unwrap().resource;
    let used = Content { document: Document::default(), ..two.content.clone() };
    let change = Change { after: used, ..crate::sample::to_state(&two, "online") };
    let two = store.commit(change).await.unwrap().resource;
    let two = moved(&store, &two, "stale").await.resource;

    // A token once it is revoked.
    let token = Content { kind: "token".to_owned(), state: "active".to_owned(), ..node(4) };
    let token = store.commit(create(token)).await.unwrap().resource;
    let token = moved(&store, &token, "revoked").await.resource;

    // An active GPU node with every change, any other one when its agent loses its credential.
    let with_agent = |hash: Option<&str>| {
        let agent = hash.map(|hash| serde_json::json!({"hash": hash}));
        Document::of(&serde_json::json!({"agent": agent})).unwrap()
    };
    let gpu = Content { kind: "gpu-node".to_owned(), state: "enrolling".to_owned(), ..node(5) };
    let mut gpu = store.commit(create(gpu)).await.unwrap().resource;
    let steps = [
        (Some("a"), "enrolling"),
        (Some("a"), "active"),
        (Some("a"), "active"),
        (Some("a"), "offline"),
        (Some("a"), "retired"),
        (Some("b"), "retired"),
        (None, "retired"),
        (None, "offline"),
    ];
    for (hash, state) in steps {
        let after = Content { document: with_agent(hash), state: state.to_owned(), ..gpu.content.clone() };
        let change = Change { after, ..crate::sample::to_state(&gpu, state) };
        gpu = store.commit(change).await.unwrap().resource;
    }

    let id = one.content.id;
    let gpu = |version| (gpu.content.id.clone(), version);
    let satellites = [(id.clone(), 4), (id.clone(), 5), (id, 7), (two.content.id, 2)];
    let others = [(token.content.id, 2), gpu(4), gpu(5), gpu(7), gpu(8)];
    let expected: Vec<_> = satellites.into_iter().chain(others).collect();
    assert_eq!(denied(&store).await, if is_shared { expected.clone() } else { Vec::new() });
    store.sweep_denied().await.unwrap();
    assert_eq!(
        denied(&store).await.len(),
        if is_shared { expected.len() } else { 0 },
        "what is young is kept"
    );
}

pub(crate) async fn the_deleted_are_listed_apart(database: Database) {
    let store = database.open().await;
    for number in 0..3 {
        let made = store.commit(create(satellite(number))).await.unwrap().resource;
        if number == 1 {
            let deleted = Content { deleted: true, ..made.content.clone() };
            let change = Change { after: deleted, ..crate::sample::to_state(&made, "pending") };
            store.commit(change).await.unwrap();
        }
    }
    for (deleted, expected) in [(false, vec!["node-0", "node-2"]), (true, vec!["node-1"])] {
        let list = List { kind: "satellite".to_owned(), limit: 10, deleted, ..List::default() };
        let names: Vec<_> =
            store.list(&list).await.unwrap().items.into_iter().map(|item| item.content.name).collect();
        assert_eq!(names, expected);
    }
}

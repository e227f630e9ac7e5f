//! One writer: which change wins, which caller gets a conflict, and what is written.

use std::time::Duration;

use wardroom_store::{Change, Content, Document, Effect, Error, Fence, Resource, Rows, verify};

use crate::database::{Database, connect};
use crate::sample::{at, create, created, moved, node, to_state};

pub(crate) async fn reads_what_it_wrote(database: Database) {
    let store = database.open().await;
    let first = created(&store, 1).await;
    assert_eq!(first.version, 1);
    let committed = moved(&store, &first, "pending").await;
    assert_eq!((committed.resource.version, committed.row.sequence), (2, 2));
    assert_eq!(committed.row.from_state.as_deref(), Some("discovered"));

    let read = store.get("node", &first.content.id).await.unwrap().unwrap();
    assert_eq!(read, committed.resource);
    assert_eq!(store.get_by_key("node", "mac:000000000001").await.unwrap(), Some(read));
    let (rows, total) = store.history("node", &first.content.id, Rows::All, 1, 0).await.unwrap();
    assert_eq!((rows, total), (vec![committed.row.clone()], 2));
    let (rows, total) = store.history("node", &first.content.id, Rows::Transitions, 10, 0).await.unwrap();
    assert_eq!((rows, total), (vec![committed.row], 1));
    assert_eq!(store.get("node", "missing").await.unwrap(), None);
}

pub(crate) async fn one_winner_per_version(database: Database) {
    let store = database.open().await;
    let before = created(&store, 1).await;
    let racers = (0..50).map(|racer| {
        let (store, change) = (store.clone(), to_state(&before, &format!("state-{}", racer % 3)));
        tokio::spawn(async move { store.commit(change).await })
    });
    let (mut won, mut lost) = (0, 0);
    for racer in racers.collect::<Vec<_>>() {
        match racer.await.unwrap() {
            Ok(_) => won += 1,
            Err(Error::Conflict) => lost += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!((won, lost), (1, 49));
    assert_eq!(store.history("node", &before.content.id, Rows::All, 10, 0).await.unwrap().1, 2);
}

pub(crate) async fn one_holder_per_key(database: Database) {
    let store = database.open().await;
    let racers = (1..=50).map(|racer| {
        let content = Content { keys: ["mac:same".to_owned()].into(), ..node(racer) };
        let (store, change) = (store.clone(), create(content));
        tokio::spawn(async move { store.commit(change).await })
    });
    let (mut winner, mut holders) = (None, vec![]);
    for racer in racers.collect::<Vec<_>>() {
        match racer.await.unwrap() {
            Ok(committed) => assert!(winner.replace(committed.resource.content.id).is_none()),
            Err(Error::KeyTaken { key, holder }) => {
                assert_eq!(key, "mac:same");
                holders.push(holder);
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(holders, vec![winner.unwrap(); 49]);
    assert_eq!(store.history_before(None, 100).await.unwrap().len(), 1);
}

pub(crate) async fn a_conflict_leaves_its_neighbours_alone(database: Database) {
    let store = database.open().await;
    let stale = created(&store, 1).await;
    moved(&store, &stale, "pending").await;
    let mut changes: Vec<Change> = (2..100).map(|number| create(node(number))).collect();
    changes.insert(50, to_state(&stale, "retired"));
    changes.insert(60, create(node(1)));
    changes.insert(70, create(Content { keys: ["mac:000000000001".to_owned()].into(), ..node(200) }));

    let results = store.commit_all(changes).await;
    let failed = |at: usize| results[at].as_ref().unwrap_err();
    assert!(matches!(failed(50), Error::Conflict));
    assert!(matches!(failed(60), Error::Conflict));
    assert!(matches!(failed(70), Error::KeyTaken { .. }));
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 98);
    assert_eq!(store.history_before(None, 1000).await.unwrap().len(), 100);
    let untouched = store.get("node", &stale.content.id).await.unwrap().unwrap();
    assert_eq!(untouched.content.state, "pending");
}

/// Many moves under one lease: each is made or not for itself, and none once another holder has the lease.
pub(crate) async fn many_move_under_one_lease(database: Database) {
    let store = database.open().await;
    let made = store.commit_all((1..=600).map(|number| create(node(number))).collect()).await;
    let nodes: Vec<_> = made.into_iter().map(|made| made.unwrap().resource).collect();
    let lease = store.acquire_lease("sweep", "one", Duration::from_secs(60)).await.unwrap().unwrap();
    let moves = |state: &str, nodes: &[Resource], fence: Fence| -> Vec<Change> {
        nodes.iter().map(|node| Change { fence: Some(fence.clone()), ..to_state(node, state) }).collect()
    };
    moved(&store, &nodes[7], "elsewhere").await;
    let mut changes = moves("pending", &nodes, lease.fence());
    // The same resource twice, and one that has to be told: they do not go with the others.
    changes.push(Change { fence: Some(lease.fence()), ..to_state(&nodes[0], "pending") });
    changes[1].effects = vec![Effect { effect_type: "tell".to_owned(), payload: serde_json::Value::Null }];
    changes[2].entry.metadata = serde_json::json!({"text": "quote \" and \\ and ü and \u{7}"});
    let results = store.commit_all(changes).await;
    let failed: Vec<_> = (0..results.len()).filter(|at| results[*at].is_err()).collect();
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(matches!(results[7], Err(Error::Conflict)));
    assert!(matches!(results[0], Err(Error::Conflict)) != matches!(results[600], Err(Error::Conflict)));
    let nodes: Vec<_> = results.into_iter().filter_map(|made| Some(made.ok()?.resource)).collect();
    let ids: Vec<_> = nodes.iter().map(|node| node.content.id.clone()).collect();
    let by_id = |mut nodes: Vec<Resource>| {
        nodes.sort_by(|a, b| a.content.id.cmp(&b.content.id));
        nodes
    };
    assert_eq!(
        by_id(store.get_all("node", &ids).await.unwrap()),
        by_id(nodes.clone()),
        "as they were answered"
    );
    let (rows, total) = store.history("node", &nodes[2].content.id, Rows::All, 9, 0).await.unwrap();
    assert_eq!((total, &rows[0].hash), (2, &nodes[2].head));
    assert_eq!(verify(&database.location(), None, &[]).await.unwrap().fault, None);

    assert!(store.release_lease(&lease).await.unwrap());
    store.acquire_lease("sweep", "two", Duration::from_secs(60)).await.unwrap().unwrap();
    for result in store.commit_all(moves("late", &nodes, lease.fence())).await {
        assert!(matches!(result, Err(Error::Fenced { .. })));
    }
    assert_eq!(by_id(store.get_all("node", &ids).await.unwrap()), by_id(nodes), "nothing of it happened");
}

/// Many that are worked on, each under a lease of its own, some of which others have taken meanwhile.
pub(crate) async fn many_move_each_under_its_lease(database: Database) {
    let store = database.open().await;
    let due = |number: usize| Content { due_at: (!number.is_multiple_of(3)).then(|| at(7)), ..node(number) };
    let made = store.commit_all((0..90).map(|number| create(due(number))).collect()).await;
    let nodes: Vec<_> = made.into_iter().map(|made| made.unwrap().resource).collect();
    let mut changes = Vec::new();
    for (number, node) in nodes.iter().enumerate() {
        let lease = format!("node/{number}");
        let lease = store.acquire_lease(&lease, "one", Duration::from_secs(60)).await.unwrap().unwrap();
        let mut change = Change { fence: Some(lease.fence()), ..to_state(node, "pending") };
        // None becomes due, all others are due later or no more.
        change.after.due_at = (number % 3 == 1).then(|| at(9));
        changes.push(change);
        if number == 1 {
            // A new due time is no new version, and the decision sets it.
            assert!(store.put_off(&lease, node, at(8)).await.unwrap());
        }
        if number % 10 == 0 {
            assert!(store.release_lease(&lease).await.unwrap());
            store.acquire_lease(&lease.name, "two", Duration::from_secs(60)).await.unwrap().unwrap();
        }
    }
    for (number, result) in store.commit_all(changes).await.into_iter().enumerate() {
        let id = &nodes[number].content.id;
        let found = store.get("node", id).await.unwrap().unwrap();
        if number % 10 == 0 {
            assert!(matches!(result, Err(Error::Fenced { .. })), "{number}");
            assert_eq!((found.version, found.content.state.as_str()), (1, "discovered"));
        } else {
            let answered = result.unwrap().resource;
            assert_eq!(answered.content.due_at, (number % 3 == 1).then(|| at(9)));
            assert_eq!(found, answered);
        }
    }
    assert_eq!(verify(&database.location(), None, &[]).await.unwrap().fault, None);
}

/// A session has a row locked for long: a change of it waits, and no other does.
pub(crate) async fn a_waiting_commit_delays_no_other(database: Database) {
    let store = database.open().await;
    let made = store.commit_all((0..40).map(|number| create(node(number))).collect()).await;
    let nodes: Vec<_> = made.into_iter().map(|made| made.unwrap().resource).collect();
    let lease = store.acquire_lease("sweep", "one", Duration::from_secs(60)).await.unwrap().unwrap();
    let Database::Postgres(cluster) = &database else { panic!("PostgreSQL only") };
    let slow = connect(&cluster.url).await;
    let locked = [&nodes[0].content.id, &nodes[1].content.id];
    let lock =
        format!("BEGIN; SELECT 1 FROM resources WHERE id IN ('{}', '{}') FOR UPDATE", locked[0], locked[1]);
    slow.batch_execute(&lock).await.unwrap();
    slow.batch_execute("SELECT 1 FROM leases WHERE name = 'sweep' FOR UPDATE").await.unwrap();
    let commit = |node: &Resource, fence| {
        let (store, change) = (store.clone(), Change { fence, ..to_state(node, "pending") });
        tokio::spawn(async move { store.commit(change).await })
    };
    let waiting: Vec<_> =
        (0..4).map(|number| commit(&nodes[number], (number > 1).then(|| lease.fence()))).collect();
    for node in &nodes[4..] {
        let moved = tokio::time::timeout(Duration::from_secs(5), commit(node, None)).await;
        assert_eq!(moved.unwrap().unwrap().unwrap().resource.content.state, "pending");
    }
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    slow.batch_execute("COMMIT").await.unwrap();
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap().unwrap().resource.version, 2);
    }
}

pub(crate) async fn a_deleted_resource_gives_up_its_keys(database: Database) {
    let store = database.open().await;
    let before = created(&store, 1).await;
    let mut delete = to_state(&before, "retired");
    delete.after.deleted = true;
    let gone = store.commit(delete).await.unwrap().resource;
    assert!(store.get_by_key("node", "mac:000000000001").await.unwrap().is_none());
    let heir = Content { keys: before.content.keys.clone(), ..node(2) };
    store.commit(create(heir)).await.unwrap();

    let mut revive = to_state(&gone, "discovered");
    revive.after.deleted = false;
    assert!(matches!(store.commit(revive).await, Err(Error::KeyTaken { .. })));
    assert_eq!(store.get("node", &before.content.id).await.unwrap(), Some(gone));
    assert_eq!(store.history("node", &before.content.id, Rows::All, 10, 0).await.unwrap().1, 2);
}

pub(crate) async fn reads_see_acknowledged_writes(database: Database) {
    let store = database.open().await;
    let workers = (1..=16).map(|number| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut resource = created(&store, number).await;
            for round in 0..20 {
                resource = moved(&store, &resource, &format!("state-{round}")).await.resource;
                let read = store.get("node", &resource.content.id).await.unwrap();
                assert_eq!(read.as_ref(), Some(&resource));
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
}

pub(crate) async fn refuses_what_no_database_keeps(database: Database) {
    let store = database.open().await;
    let refused = async |change: Change| match store.commit(change).await {
        Err(Error::Invalid { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    let mut change = create(node(1));
    change.entry.comment = Some("a\0b".to_owned());
    assert_eq!(refused(change).await, "comment");
    let mut change = create(node(1));
    change.after.labels.insert("rack".to_owned(), "x".repeat(4000));
    assert_eq!(refused(change).await, "labels");
    let mut change = create(node(1));
    change.after.document = Document::of(&serde_json::json!({ "text": "a\0b" })).unwrap();
    let kept = store.commit(change).await.unwrap().resource;
    assert_eq!(store.get("node", &kept.content.id).await.unwrap(), Some(kept));
}

pub(crate) async fn effects_are_pending_until_done(database: Database) {
    let store = database.open().await;
    let effect = |name: &str| Effect { effect_type: name.to_owned(), payload: serde_json::json!({ "a": 1 }) };
    let mut change = create(node(1));
    change.effects = vec![effect("first"), effect("second")];
    store.commit(change).await.unwrap();
    let pending = store.pending_effects(0, 10).await.unwrap();
    assert_eq!(pending.iter().map(|task| &*task.effect.effect_type).collect::<Vec<_>>(), ["first", "second"]);
    assert!(store.finish_effect(pending[0].id, crate::sample::at(1)).await.unwrap());
    assert!(!store.finish_effect(pending[0].id, crate::sample::at(1)).await.unwrap());
    assert_eq!(store.pending_effects(0, 10).await.unwrap(), pending[1..]);
}

//! Observations that are committed in turns, together with changes.

use wardroom_store::{Beside, Content, Document, Error, List, Observation, Window};

use crate::database::Database;
use crate::sample::{at, create, created, id, node, to_state};

fn seen(source: &str, version: i64, said: i64) -> Observation {
    Observation {
        kind: "node".to_owned(),
        resource_id: id(1),
        source: source.to_owned(),
        version,
        document: Document::of(&said).unwrap(),
        observed_at: at(said),
        received_at: at(said),
    }
}

fn turn(version: i64, said: i64, others: Vec<Observation>) -> Beside {
    Beside { turn: seen("turn", version, said), others, ends: false }
}

pub(crate) async fn one_writer_has_the_turn(database: Database) {
    let store = database.open().await;
    store.commit_beside(vec![create(node(1))], vec![turn(1, 0, vec![seen("a", 1, 0)])], None).await.unwrap();
    for version in 2..=4 {
        let racers = (0..10).map(|racer| {
            let store = store.clone();
            tokio::spawn(async move {
                let others = vec![seen("a", 1, racer), seen("b", 1, racer)];
                store.commit_beside(Vec::new(), vec![turn(version, racer, others)], None).await
            })
        });
        let mut won = 0;
        for racer in racers.collect::<Vec<_>>() {
            match racer.await.unwrap() {
                Ok(committed) => won += usize::from(committed.is_empty()),
                Err(error) => assert!(matches!(error, Error::Conflict), "{error}"),
            }
        }
        assert_eq!(won, 1);
        let kept = store.observations("node", &id(1)).await.unwrap();
        let said: Vec<i64> = kept.iter().map(|kept| kept.document.read().unwrap()).collect();
        assert!(said.iter().all(|one| *one == said[0]) && said.len() == 3, "of one writer: {said:?}");
        assert_eq!(kept[2].version, version);
    }
}

pub(crate) async fn changes_and_observations_are_all_or_nothing(database: Database) {
    let store = database.open().await;
    let first = store.commit_beside(vec![create(node(1))], vec![turn(1, 0, Vec::new())], None).await.unwrap();
    let first = first[0].resource.clone();
    let other = created(&store, 2).await;

    // The turn was another writer's: the resource stays.
    let late = vec![turn(3, 1, Vec::new())];
    let refused = store.commit_beside(vec![to_state(&first, "pending")], late, None).await;
    assert!(matches!(refused, Err(Error::Conflict)));
    assert_eq!(store.get("node", &id(1)).await.unwrap(), Some(first.clone()));

    // The resource has moved: nothing is kept beside it.
    let moved = store.commit(to_state(&other, "pending")).await.unwrap().resource;
    let said = vec![turn(2, 1, vec![seen("a", 1, 1)])];
    let refused = store.commit_beside(vec![to_state(&other, "retired")], said.clone(), None).await;
    assert!(matches!(refused, Err(Error::Conflict)));
    assert_eq!(store.observations("node", &id(1)).await.unwrap(), [seen("turn", 1, 0)]);

    let committed = store.commit_beside(vec![to_state(&moved, "retired")], said, None).await.unwrap();
    assert_eq!(committed[0].resource.content.state, "retired");
    assert_eq!(store.observations("node", &id(1)).await.unwrap(), [seen("a", 1, 1), seen("turn", 2, 1)]);

    // The end of a resource forgets what was seen of it.
    let change = to_state(&first, "retired");
    let after = Content { deleted: true, ..change.after };
    let end = Beside { ends: true, ..turn(3, 2, vec![seen("b", 1, 2)]) };
    store.commit_beside(vec![wardroom_store::Change { after, ..change }], vec![end], None).await.unwrap();
    assert_eq!(store.observations("node", &id(1)).await.unwrap(), []);
    assert!(store.get("node", &id(1)).await.unwrap().unwrap().content.deleted);
}

pub(crate) async fn pages_are_found_by_their_number(database: Database) {
    let store = database.open().await;
    for made in store.commit_all((1..=25).map(|number| create(node(number))).collect()).await {
        made.unwrap();
    }
    let all = List { kind: "node".to_owned(), limit: 10, ..List::default() };
    let check = async |list: &List, offset, newest_first, expected: &[usize], total| {
        let found = store.window(list, Window { offset, newest_first }).await.unwrap();
        let ids: Vec<_> = found.items.into_iter().map(|item| item.content.id).collect();
        assert_eq!(ids, expected.iter().map(|number| id(*number)).collect::<Vec<_>>(), "from {offset}");
        assert_eq!(found.total, total);
    };
    check(&all, 0, false, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 25).await;
    check(&all, 20, false, &[21, 22, 23, 24, 25], 25).await;
    check(&all, 0, true, &[25, 24, 23, 22, 21, 20, 19, 18, 17, 16], 25).await;
    check(&all, 20, true, &[5, 4, 3, 2, 1], 25).await;
    check(&all, 10, true, &[15, 14, 13, 12, 11, 10, 9, 8, 7, 6], 25).await;
    check(&all, 30, true, &[], 25).await;
    let some = List { fields: [("workflow".to_owned(), "w0".to_owned())].into(), limit: 5, ..all };
    check(&some, 0, false, &[2, 4, 6, 8, 10], 12).await;
    check(&some, 10, true, &[4, 2], 12).await;
}

//! Changes that depend on other resources, and changes that belong together.

use wardroom_store::{
    Change, Claim, Content, Error, Held, IdempotencyKey, Mark, Marker, Resource, Rows, Store, Use,
};

use crate::database::Database;
use crate::sample::{at, create, created, id, moved, node, to_state};

fn holding(mut change: Change, held: &Resource) -> Change {
    change.holds = vec![Held::at(held)];
    change
}

pub(crate) async fn a_change_holds_what_it_was_decided_on(database: Database) {
    let store = database.open().await;
    let (one, other) = (created(&store, 1).await, created(&store, 2).await);
    let one = store.commit(holding(to_state(&one, "a"), &other)).await.unwrap().resource;
    let changed = moved(&store, &other, "changed").await.resource;
    assert!(matches!(store.commit(holding(to_state(&one, "b"), &other)).await, Err(Error::Conflict)));
    assert_eq!(store.get("node", &id(1)).await.unwrap().unwrap(), one, "nothing of it happened");
    store.commit(holding(to_state(&one, "b"), &changed)).await.unwrap();
    let new = holding(create(node(3)), &other);
    assert!(matches!(store.commit(new).await, Err(Error::Conflict)));
    assert_eq!(store.history("node", &id(3), Rows::All, 9, 0).await.unwrap().1, 0);

    let absent = |number| Held { kind: "node".to_owned(), id: id(number), version: 0 };
    let mut change = create(node(4));
    change.holds = vec![absent(5), Held::at(&changed)];
    store.commit(change).await.unwrap();
    let mut change = create(node(6));
    change.holds = vec![absent(4)];
    assert!(matches!(store.commit(change).await, Err(Error::Conflict)));
}

/// Every pair of changes that hold each other: one of them at most.
pub(crate) async fn two_that_hold_each_other_never_both_win(database: Database) {
    let store = database.open().await;
    for round in 0..6 {
        let (one, two) = (created(&store, 2 * round + 1).await, created(&store, 2 * round + 2).await);
        let racers = [holding(to_state(&one, "a"), &two), holding(to_state(&two, "a"), &one)];
        assert_eq!(winners(&store, racers.into()).await, 1, "round {round}");
    }
    for round in 0..6 {
        let (one, two) = (100 + 2 * round, 101 + 2 * round);
        let racer = |own, other| {
            let mut change = create(node(own));
            change.holds = vec![Held { kind: "node".to_owned(), id: id(other), version: 0 }];
            change
        };
        assert_eq!(winners(&store, vec![racer(one, two), racer(two, one)]).await, 1, "round {round}");
    }
}

async fn winners(store: &Store, changes: Vec<Change>) -> usize {
    let racers = changes.into_iter().map(|change| {
        let store = store.clone();
        tokio::spawn(async move { store.commit(change).await })
    });
    let mut won = 0;
    for racer in racers.collect::<Vec<_>>() {
        match racer.await.unwrap() {
            Ok(_) => won += 1,
            Err(Error::Conflict) => {}
            Err(other) => panic!("{other}"),
        }
    }
    won
}

pub(crate) async fn changes_together_are_all_or_nothing(database: Database) {
    let store = database.open().await;
    let (one, two) = (created(&store, 1).await, created(&store, 2).await);
    let made = store.commit_together(vec![to_state(&one, "a"), create(node(3)), to_state(&two, "a")]).await;
    let made = made.unwrap();
    assert_eq!(made.iter().map(|made| made.resource.version).collect::<Vec<_>>(), [2, 1, 2]);
    for made in &made {
        let read = store.get("node", &made.resource.content.id).await.unwrap();
        assert_eq!(read.as_ref(), Some(&made.resource));
    }

    let stale = store.commit_together(vec![create(node(4)), to_state(&one, "b")]).await;
    assert!(matches!(stale, Err(Error::Conflict)), "{stale:?}");
    let same = Content { keys: node(3).keys, ..node(5) };
    let taken = store.commit_together(vec![create(node(4)), create(same)]).await;
    assert!(matches!(taken, Err(Error::KeyTaken { .. })), "{taken:?}");
    assert_eq!(store.get("node", &id(4)).await.unwrap(), None);
    assert_eq!(store.history_before(None, 100).await.unwrap().len(), 5);
    assert!(store.commit_together(vec![]).await.unwrap().is_empty());
}

/// A deletion and a new use at once: one of them fails.
pub(crate) async fn a_resource_in_use_is_not_removed(database: Database) {
    let store = database.open().await;
    let profile = |number: usize| Content {
        kind: "workflow".to_owned(),
        id: format!("w-{number}"),
        keys: [].into(),
        fields: [].into(),
        ..node(number)
    };
    let used = |number: usize| {
        let (kind, field) = ("node".to_owned(), "workflow".to_owned());
        vec![Use { kind, field, value: format!("w-{number}") }]
    };
    let user = |number: usize, profile: &Resource| {
        let fields = [("workflow".to_owned(), profile.content.id.clone())].into();
        holding(create(Content { fields, ..node(number) }), profile)
    };
    let delete = |profile: &Resource| {
        let mut change = to_state(profile, "ready");
        change.after.deleted = true;
        change
    };
    let first = store.commit(create(profile(0))).await.unwrap().resource;
    store.commit(user(1000, &first)).await.unwrap();
    match store.commit_unused(delete(&first), used(0), None).await {
        Err(Error::Used { kind, id: user }) => assert_eq!((kind.as_str(), user), ("node", id(1000))),
        other => panic!("{other:?}"),
    }
    let idle = store.get("node", &id(1000)).await.unwrap().unwrap();
    let mut letting_go = to_state(&idle, "gone");
    letting_go.after.fields.clear();
    store.commit(letting_go).await.unwrap();
    store.commit_unused(delete(&first), used(0), None).await.unwrap();
    for round in 1..=12 {
        let profile = store.commit(create(profile(round))).await.unwrap().resource;
        let users = (0..4).map(|racer| {
            let (store, change) = (store.clone(), user(round * 10 + racer, &profile));
            tokio::spawn(async move { store.commit(change).await.is_ok() })
        });
        let users = users.collect::<Vec<_>>();
        let deleted = store.commit_unused(delete(&profile), used(round), None).await;
        let mut using = 0;
        for user in users {
            using += usize::from(user.await.unwrap());
        }
        match deleted {
            Ok(_) => assert_eq!(using, 0, "round {round}"),
            Err(Error::Used { .. }) => assert!(using > 0, "round {round}"),
            Err(other) => panic!("{other}"),
        }
    }
}

/// A request that has changed something is known to have run, also when its answer was not kept.
pub(crate) async fn a_change_marks_its_request(database: Database) {
    let store = database.open().await;
    let key = |key: &str| IdempotencyKey {
        scope: "ada".to_owned(),
        key: key.to_owned(),
        request_hash: "h".to_owned(),
    };
    let mark = |name: &str| Some(Mark { key: key(name), until: at(1000) });
    let claim = async |name: &str, now| store.claim_key(&key(name), at(now), at(now + 60)).await.unwrap();

    assert_eq!(claim("made", 0).await, Claim::Claimed);
    let one = store.commit_unused(create(node(1)), vec![], mark("made")).await.unwrap().resource;
    let marker =
        Marker { kind: "node".to_owned(), id: id(1), sequence: 1, entry_type: "registered".to_owned() };
    assert_eq!(claim("made", 0).await, Claim::Done(marker.clone()));
    store.release_key(&key("made")).await.unwrap();
    assert_eq!(claim("made", 999).await, Claim::Done(marker), "it is not forgotten with the claim");
    assert_eq!(claim("made", 1000).await, Claim::Claimed);

    assert_eq!(claim("both", 0).await, Claim::Claimed);
    let both = vec![create(node(2)), create(node(3))];
    store.commit_together_for(both, mark("both")).await.unwrap();
    let marker =
        Marker { kind: "node".to_owned(), id: id(2), sequence: 1, entry_type: "registered".to_owned() };
    assert_eq!(claim("both", 0).await, Claim::Done(marker));

    assert_eq!(claim("lost", 0).await, Claim::Claimed);
    moved(&store, &one, "elsewhere").await;
    let lost = store.commit_unused(to_state(&one, "here"), vec![], mark("lost")).await;
    assert!(matches!(lost, Err(Error::Conflict)));
    assert_eq!(claim("lost", 0).await, Claim::InFlight);
    store.release_key(&key("lost")).await.unwrap();
    assert_eq!(claim("lost", 0).await, Claim::Claimed);
}

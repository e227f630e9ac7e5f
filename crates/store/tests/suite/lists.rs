//! Lists: what filters find, how pages join, and that no page costs more than another.

use std::collections::BTreeMap;

use wardroom_store::{Error, List, Requirement, Selector, Store};

use crate::database::Database;
use crate::sample::{create, id, moved, node, to_state};

fn nodes() -> List {
    List { kind: "node".to_owned(), limit: 100, ..List::default() }
}

fn label(key: &str, requirement: Requirement) -> Vec<Selector> {
    vec![Selector { key: key.to_owned(), requirement }]
}

fn values(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

async fn numbers(store: &Store, list: &List) -> Vec<usize> {
    let (mut list, mut found) = (list.clone(), vec![]);
    loop {
        let page = store.list(&list).await.unwrap();
        assert!(page.items.len() <= list.limit);
        found.extend(page.items.iter().map(|item| item.content.name[5..].parse::<usize>().unwrap()));
        let Some(next) = page.next else { return found };
        list.after = Some(next);
    }
}

/// Nodes 1 to 12: rack r0 to r2, workflow w0 or w1; 3 has no rack, 6 is pending, 12 is deleted.
async fn filled(database: &Database) -> Store {
    let store = database.open().await;
    let mut contents: Vec<_> = (1..=12).rev().map(node).collect();
    contents[9].labels.clear();
    for result in store.commit_all(contents.into_iter().map(create).collect()).await {
        result.unwrap();
    }
    let six = store.get("node", &id(6)).await.unwrap().unwrap();
    moved(&store, &six, "pending").await;
    let twelve = store.get("node", &id(12)).await.unwrap().unwrap();
    let mut delete = to_state(&twelve, "retired");
    delete.after.deleted = true;
    store.commit(delete).await.unwrap();
    store
}

pub(crate) async fn filters_find_what_they_say(database: Database) {
    let store = filled(&database).await;
    let field = |value: &str| BTreeMap::from([("workflow".to_owned(), value.to_owned())]);
    let with = |requirement| List { labels: label("rack", requirement), ..nodes() };
    let by_field = |requirement| List { field_requirements: label("workflow", requirement), ..nodes() };
    #[rustfmt::skip]
    let cases: Vec<(List, &[usize])> = vec![
        (nodes(), &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
        (List { kind: "device".to_owned(), ..nodes() }, &[]),
        (List { state: Some("pending".to_owned()), ..nodes() }, &[6]),
        (List { fields: field("w0"), ..nodes() }, &[2, 4, 6, 8, 10]),
        (List { prefix: Some(id(4)[..id(4).len() - 1].to_owned()), ..nodes() }, &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (List { prefix: Some(id(4)), fields: field("w0"), ..nodes() }, &[4]),
        (List { prefix: Some("z".to_owned()), ..nodes() }, &[]),
        (List { fields: field("w0"), state: Some("discovered".to_owned()), ..nodes() }, &[2, 4, 8, 10]),
        (with(Requirement::In(values(&["r0"]))), &[6, 9]),
        (with(Requirement::In(values(&["r0", "r1"]))), &[1, 4, 6, 7, 9, 10]),
        (with(Requirement::In(vec![])), &[]),
        (with(Requirement::NotIn(values(&["r0", "r1"]))), &[2, 3, 5, 8, 11]),
        (with(Requirement::Exists), &[1, 2, 4, 5, 6, 7, 8, 9, 10, 11]),
        (with(Requirement::Missing), &[3]),
        (List { fields: field("w1"), ..with(Requirement::In(values(&["r1"]))) }, &[1, 7]),
        (List { fields: field("w1"), ..with(Requirement::NotIn(values(&["r1"]))) }, &[3, 5, 9, 11]),
        (by_field(Requirement::In(values(&["w0", "w9"]))), &[2, 4, 6, 8, 10]),
        (by_field(Requirement::NotIn(values(&["w0"]))), &[1, 3, 5, 7, 9, 11]),
        (by_field(Requirement::Missing), &[]),
        (List { states: vec![Requirement::In(values(&["pending", "other"]))], ..nodes() }, &[6]),
        (List { states: vec![Requirement::NotIn(values(&["discovered"]))], ..nodes() }, &[6]),
        (List { states: vec![Requirement::NotIn(values(&["pending"]))], ..by_field(Requirement::In(values(&["w0"]))) }, &[2, 4, 8, 10]),
        (List { states: vec![Requirement::Exists, Requirement::NotIn(vec![])], ..with(Requirement::Missing) }, &[3]),
        (List { states: vec![Requirement::Missing], ..nodes() }, &[]),
    ];
    for (list, expected) in cases {
        for limit in [1, 2, 100] {
            let list = List { limit, ..list.clone() };
            assert_eq!(numbers(&store, &list).await, expected, "{list:?}");
        }
    }
    let many = List { labels: vec![label("a", Requirement::Exists)[0].clone(); 40], ..nodes() };
    assert!(matches!(store.list(&many).await, Err(Error::Invalid { .. })));
    let counts = store.count_by_state().await.unwrap();
    let counts: Vec<_> = counts.iter().map(|count| (&*count.state, count.count)).collect();
    assert_eq!(counts, [("discovered", 10), ("pending", 1)]);
}

/// Labels and fields that a change takes away no longer find the resource.
pub(crate) async fn terms_follow_the_resource(database: Database) {
    let store = filled(&database).await;
    let one = store.get("node", &id(1)).await.unwrap().unwrap();
    let mut change = to_state(&one, "discovered");
    change.after.labels =
        BTreeMap::from([("rack".to_owned(), "r9".to_owned()), ("new".to_owned(), String::new())]);
    change.after.fields.clear();
    let changed = store.commit(change).await.unwrap().resource;
    assert_eq!(store.get("node", &id(1)).await.unwrap(), Some(changed));
    let with = |key: &str, requirement| List { labels: label(key, requirement), ..nodes() };
    assert_eq!(numbers(&store, &with("rack", Requirement::In(values(&["r9"])))).await, [1]);
    assert_eq!(numbers(&store, &with("new", Requirement::Exists)).await, [1]);
    assert_eq!(numbers(&store, &with("rack", Requirement::In(values(&["r1"])))).await, [4, 7, 10]);
}

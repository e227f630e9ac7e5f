//! The same operations on both databases have the same results, rows, history and hashes.
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use wardroom_store::{
    Change, Content, Document, Effect, Held, HistoryRow, IdempotencyKey, List, Observation, Requirement,
    Resource, Rows, Selector, Store, Use, verify,
};

use crate::database::Database;
use crate::sample::{at, create, id, node, to_state};

/// Few enough that operations meet.
const NODES: usize = 5;

#[derive(Clone, Debug)]
enum Operation {
    Create {
        node: usize,
        key: usize,
    },
    Move {
        node: usize,
        state: String,
        comment: Option<String>,
    },
    /// A move decided on what was read before the last change.
    MoveStale {
        node: usize,
    },
    Relabel {
        node: usize,
        labels: BTreeMap<String, String>,
    },
    Rekey {
        node: usize,
        key: usize,
    },
    Delete {
        node: usize,
    },
    Each {
        nodes: Vec<usize>,
    },
    Together {
        nodes: Vec<usize>,
    },
    /// A move decided on another node, perhaps on what that one was before.
    Holding {
        node: usize,
        other: usize,
        behind: i64,
    },
    Unused {
        node: usize,
        label: String,
    },
    Observe {
        node: usize,
        version: i64,
    },
    Claim {
        key: usize,
        request: usize,
        now: i64,
    },
    List(List),
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]{1,2}", "\\PC{0,6}", Just("ü\u{10ffff}\n\"\\".to_owned()), Just("nul\0".to_owned())]
}

fn requirement() -> impl Strategy<Value = Requirement> {
    let values = || prop::collection::vec("[a-c]", 0..3);
    prop_oneof![
        values().prop_map(Requirement::In),
        values().prop_map(Requirement::NotIn),
        Just(Requirement::Exists),
        Just(Requirement::Missing),
    ]
}

fn list() -> impl Strategy<Value = List> {
    let selector = ("[a-c]", requirement()).prop_map(|(key, requirement)| Selector { key, requirement });
    let fields = prop::collection::btree_map(Just("workflow".to_owned()), "w[01]", 0..2);
    let prefix =
        prop::option::of((1..=NODES, 30..=36_usize).prop_map(|(node, length)| id(node)[..length].to_owned()));
    let parts = (
        prop::option::of("[a-c]"),
        fields,
        prop::collection::vec(selector, 0..3),
        0..NODES,
        1..4_usize,
        prefix,
        prop::collection::vec(requirement(), 0..2),
        prop::collection::vec(requirement(), 0..2),
    );
    parts.prop_map(|(state, fields, labels, after, limit, prefix, states, of_workflow)| List {
        kind: String::new(),
        state,
        states,
        fields,
        field_requirements: of_workflow
            .into_iter()
            .map(|requirement| Selector { key: "workflow".to_owned(), requirement })
            .collect(),
        labels,
        prefix,
        after: Some(id(after)),
        limit,
        deleted: false,
    })
}

fn operation() -> impl Strategy<Value = Operation> {
    let node = || 1..=NODES;
    prop_oneof![
        3 => (node(), 0..NODES).prop_map(|(node, key)| Operation::Create { node, key }),
        4 => (node(), text(), prop::option::of(text()))
            .prop_map(|(node, state, comment)| Operation::Move { node, state, comment }),
        1 => node().prop_map(|node| Operation::MoveStale { node }),
        2 => (node(), prop::collection::btree_map("[a-c]", text(), 0..4))
            .prop_map(|(node, labels)| Operation::Relabel { node, labels }),
        2 => (node(), 0..NODES).prop_map(|(node, key)| Operation::Rekey { node, key }),
        1 => node().prop_map(|node| Operation::Delete { node }),
        1 => prop::collection::vec(node(), 1..6).prop_map(|nodes| Operation::Each { nodes }),
        1 => prop::collection::vec(node(), 1..6).prop_map(|nodes| Operation::Together { nodes }),
        2 => (node(), node(), 0..2_i64)
            .prop_map(|(node, other, behind)| Operation::Holding { node, other, behind }),
        1 => (node(), "w[01]").prop_map(|(node, label)| Operation::Unused { node, label }),
        1 => (node(), 1..4_i64).prop_map(|(node, version)| Operation::Observe { node, version }),
        1 => (0..2_usize, 0..2_usize, 0..200_i64)
            .prop_map(|(key, request, now)| Operation::Claim { key, request, now }),
        3 => list().prop_map(Operation::List),
    ]
}

/// One database under test; every case has a kind of its own in it.
struct Side<'a> {
    store: &'a Store,
    kind: String,
    stale: BTreeMap<usize, Resource>,
    commits: i64,
}

impl Side<'_> {
    async fn read(&self, node: usize) -> Option<Resource> {
        self.store.get(&self.kind, &id(node)).await.unwrap()
    }

    fn content(&self, number: usize, key: usize) -> Content {
        Content { kind: self.kind.clone(), keys: [format!("key-{key}")].into(), ..node(number) }
    }

    async fn commit(&mut self, mut change: Change) -> String {
        self.commits += 1;
        change.entry.at = at(self.commits);
        change.effects = vec![Effect { effect_type: "tell".to_owned(), payload: self.commits.into() }];
        format!("{:?}", self.store.commit(change).await)
    }

    /// Changes what is there, or says that nothing is.
    async fn change(&mut self, node: usize, change: impl FnOnce(&mut Change)) -> String {
        let Some(before) = self.read(node).await else { return "absent".to_owned() };
        let mut next = to_state(&before, &before.content.state);
        change(&mut next);
        self.stale.insert(node, before);
        self.commit(next).await
    }

    async fn all(&self, nodes: Vec<usize>) -> Vec<Change> {
        let mut changes = vec![];
        for node in std::collections::BTreeSet::from_iter(nodes) {
            changes.extend(self.read(node).await.map(|before| to_state(&before, "together")));
        }
        changes
    }

    async fn apply(&mut self, operation: Operation) -> String {
        match operation {
            Operation::Create { node, key } => self.commit(create(self.content(node, key))).await,
            Operation::Move { node, state, comment } => {
                let moved = |change: &mut Change| {
                    change.entry.metadata = serde_json::json!({ "comment": comment });
                    change.entry.comment = comment;
                    change.after.state = state;
                };
                self.change(node, moved).await
            }
            Operation::MoveStale { node } => match self.stale.get(&node).cloned() {
                Some(before) => self.commit(to_state(&before, "stale")).await,
                None => "absent".to_owned(),
            },
            Operation::Relabel { node, labels } => {
                self.change(node, |change| change.after.labels = labels).await
            }
            Operation::Rekey { node, key } => {
                self.change(node, |change| change.after.keys = [format!("key-{key}")].into()).await
            }
            Operation::Delete { node } => self.change(node, |change| change.after.deleted ^= true).await,
            Operation::Each { nodes } => {
                let changes = self.all(nodes).await;
                format!("{:?}", self.store.commit_all(changes).await)
            }
            Operation::Together { nodes } => {
                let mut changes = self.all(nodes).await;
                // What is not there any more makes all of them fail.
                changes.extend(self.stale.values().next().map(|before| to_state(before, "together")));
                format!("{:?}", self.store.commit_together(changes).await)
            }
            Operation::Holding { node, other, behind } => {
                let version = self.read(other).await.map_or(0, |other| other.version - behind);
                let held = Held { kind: self.kind.clone(), id: id(other), version };
                self.change(node, |change| change.holds = vec![held]).await
            }
            Operation::Unused { node, label } => {
                let Some(before) = self.read(node).await else { return "absent".to_owned() };
                let (kind, field) = (self.kind.clone(), "workflow".to_owned());
                let used = Use { kind, field, value: label };
                format!("{:?}", self.store.commit_unused(to_state(&before, "unused"), vec![used], None).await)
            }
            Operation::Observe { node, version } => {
                let (kind, resource_id) = (self.kind.clone(), id(node));
                let (document, source) = (Document::of(&version).unwrap(), "agent".to_owned());
                let (observed_at, received_at) = (at(version), at(1));
                let seen =
                    Observation { kind, resource_id, source, version, document, observed_at, received_at };
                format!("{:?}", self.store.observe(&seen).await)
            }
            Operation::Claim { key, request, now } => {
                let key = IdempotencyKey {
                    scope: self.kind.clone(),
                    key: key.to_string(),
                    request_hash: request.to_string(),
                };
                format!("{:?}", self.store.claim_key(&key, at(now), at(now + 50)).await)
            }
            Operation::List(list) => {
                format!("{:?}", self.store.list(&List { kind: self.kind.clone(), ..list }).await)
            }
        }
    }

    /// Everything a reader can see of this case.
    async fn state(&self) -> State {
        let mut state = State::default();
        for node in 1..=NODES {
            state.resources.push(self.read(node).await);
            let history = self.store.history(&self.kind, &id(node), Rows::All, 100, 0).await.unwrap();
            state.history.push(history);
            state.seen.extend(self.store.observations(&self.kind, &id(node)).await.unwrap());
        }
        let effects = self.store.pending_effects(0, 100_000).await.unwrap();
        let effects = effects.into_iter().filter(|task| task.kind == self.kind);
        state.effects = effects.map(|task| (task.resource_id, task.sequence, task.effect)).collect();
        state
    }
}

#[derive(Debug, Default, PartialEq)]
struct State {
    resources: Vec<Option<Resource>>,
    history: Vec<(Vec<HistoryRow>, i64)>,
    effects: Vec<(String, i64, Effect)>,
    seen: Vec<Observation>,
}

#[test]
fn both_databases_agree() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let databases = runtime.block_on(async { [Database::sqlite(), Database::postgres().await] });
    let stores = runtime.block_on(async { [databases[0].open().await, databases[1].open().await] });
    let cases = AtomicUsize::new(0);
    let config = ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(operations in prop::collection::vec(operation(), 1..40))| {
        let kind = format!("kind-{}", cases.fetch_add(1, Ordering::Relaxed));
        let [mut one, mut two] = stores.each_ref().map(|store| Side {
            store,
            kind: kind.clone(),
            stale: BTreeMap::new(),
            commits: 0,
        });
        runtime.block_on(async {
            for operation in operations {
                prop_assert_eq!(one.apply(operation.clone()).await, two.apply(operation).await);
            }
            prop_assert_eq!(one.state().await, two.state().await);
            Ok(())
        })?;
    });
    for database in &databases {
        let report = runtime.block_on(verify(&database.location(), None, &[])).unwrap();
        assert_eq!(report.fault, None);
    }
    drop(stores);
}

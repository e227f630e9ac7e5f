//! Runs whose stages do nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use wardroom_core::{
    gpu_node::moves::Origin,
    run::plan::{Kind, When},
};
use wardroom_store::{Change, Content, Document, Entry, Location, Store};
use wardroom_workflow::{Actor, Attempt, Data, Engine, Lost, Order, Outcome, RUN, Settings, Stages, Subject};

use crate::subject::GpuNode;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Known {
    system_id: String,
    digest: String,
}

impl Data for Known {
    type Subject = GpuNode;

    fn restarted(&self) -> Self {
        self.clone()
    }
}

struct Nothing;

impl Stages for Nothing {
    type Data = Known;

    async fn perform(&self, attempt: Attempt<'_, Known>) -> Result<Outcome<Known>, Lost> {
        Ok(Outcome::Done(attempt.data))
    }

    async fn undo(&self, attempt: Attempt<'_, Known>) -> Result<Outcome<Known>, Lost> {
        Ok(Outcome::Done(attempt.data))
    }
}

/// Stages advanced per second, from the first to the last of so many runs that start at once.
pub(crate) async fn advances(location: &Location, runs: usize) -> f64 {
    let store = Store::open(location).await.unwrap();
    seed(&store, runs).await;
    let stages = Kind::Onboarding.plan().iter().filter(|step| step.when == When::Always).count();
    let settings = Settings::new("bench".to_owned());
    let engine = Arc::new(Engine::new(store.clone(), Nothing, settings, Timestamp::now));
    let (stop, stopping) = watch::channel(false);
    let began = Instant::now();
    let task = tokio::spawn(engine.run(stopping));
    while completed(&store).await < i64::try_from(runs).unwrap() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let took = began.elapsed();
    stop.send(true).unwrap();
    task.await.unwrap();
    (runs * stages) as f64 / took.as_secs_f64()
}

async fn completed(store: &Store) -> i64 {
    let counts = store.count_by_state().await.unwrap();
    counts.iter().find(|count| count.kind == RUN && count.state == "completed").map_or(0, |count| count.count)
}

async fn seed(store: &Store, runs: usize) {
    let at = Timestamp::now();
    let mut changes = Vec::new();
    for number in 0..runs {
        let id = format!("01900000-0000-7000-8000-{number:012x}");
        let node = Content {
            kind: GpuNode::KIND.to_owned(),
            id: id.clone(),
            name: id.clone(),
            state: "enrolling".to_owned(),
            document: Document::default(),
            labels: BTreeMap::new(),
            fields: BTreeMap::new(),
            keys: BTreeSet::new(),
            deleted: false,
            due_at: None,
        };
        let order = Order {
            id: id.clone(),
            kind: Kind::Onboarding,
            subject: id,
            site: None,
            with: BTreeSet::new(),
            skip: BTreeMap::new(),
            origin: Origin::FromUse,
            unproven: BTreeSet::new(),
            requested_by: Actor::default(),
            data: Known { system_id: "abc123".to_owned(), digest: "0".repeat(64) },
        };
        for after in [node, order.accepted(at).unwrap()] {
            let entry = Entry {
                entry_type: "registered".to_owned(),
                triggered_by: "admin".to_owned(),
                user_id: Some("bench".to_owned()),
                comment: None,
                metadata: serde_json::Value::Null,
                request_id: None,
                at,
            };
            let (before, effects, fence, holds) = (None, Vec::new(), None, Vec::new());
            changes.push(Change { before, after, entry, effects, fence, holds });
        }
    }
    for committed in store.commit_all(changes).await {
        committed.unwrap();
    }
}

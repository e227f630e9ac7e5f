//! Random stories in process: after every step what is stored equals `core`'s fold over the same story.
//!
//! `WARDROOM_CLUSTER_STEPS` says how many steps are taken; 100,000 take some minutes.

use std::{net::IpAddr, path::Path, sync::Arc};

use axum::{Extension, extract::State, http::HeaderMap};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use wardroom_api::cluster::{ClusterCreate, ClusterPatch, Exact};
use wardroom_core::cluster::{
    AdapterStatus, Condition, Desired, Discard, RECONCILED, Report, ReportedCondition, Status, Verdict,
    all_finalized, classify, fold, upsert,
};
use wardroom_store::{Location, Store};

use super::{CLUSTER, Facts, create, delete, patch, refold, report, report::Incoming};
use crate::platform::{
    app::App,
    config::{Sources, resolve},
    http::{
        body::{Body, Ignored},
        path::Path as UrlPath,
    },
    identity::{
        auth::{Caller, Principal},
        secret::Key,
    },
};

const REQUIRED: [&str; 3] = ["validation", "dns", "pull-secret"];
const ADAPTERS: [&str; 4] = ["validation", "dns", "pull-secret", "extra"];

/// Steps of one cluster at most.
const LONGEST: usize = 60;

struct Story {
    app: App,
    /// Numbers that look random, the same for the same story.
    dice: u64,
    id: String,
    generation: i64,
    updated_time: Timestamp,
    is_deleted: bool,
    statuses: Vec<AdapterStatus>,
    conditions: Vec<Condition>,
}

fn caller() -> Caller {
    Caller {
        principal: Principal::Anonymous,
        address: IpAddr::from([127, 0, 0, 1]),
        request_id: Arc::from("story"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stories_in_process_equal_the_fold() {
    let steps = std::env::var("WARDROOM_CLUSTER_STEPS").map_or(400, |steps| steps.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let app = start(dir.path(), &REQUIRED).await;
    let mut taken = 0;
    let mut number = 0;
    while taken < steps {
        number += 1;
        let mut story = Story::begin(&app, number).await;
        for step in 0..LONGEST {
            taken += 1;
            let is_gone = story.step().await;
            let facts = Facts::read(&app, &CLUSTER, &story.id).await.unwrap();
            assert_eq!(facts.is_none(), is_gone, "story {number}, step {step}");
            let Some(facts) = facts else { break };
            assert_eq!(facts.conditions, story.conditions, "story {number}, step {step}");
            let mut expected = story.statuses.clone();
            expected.sort_by(|a, b| a.adapter.cmp(&b.adapter));
            let kept: Vec<_> = facts.statuses.into_iter().map(|said| said.status).collect();
            assert_eq!(kept, expected, "story {number}, step {step}");
        }
    }
}

/// A server whose clusters wait for these adapters.
async fn start(dir: &Path, required: &[&str]) -> App {
    let location = Location::Sqlite { dir: dir.join("data") };
    let store = Store::open(&location).await.unwrap();
    let file = format!("[clusters]\nrequired_adapters = {required:?}\n");
    let mut config =
        resolve(&Sources { file: Some(file), ..Sources::default() }, crate::kinds::KINDS).unwrap();
    config.location = location;
    let keys = tempfile::tempdir_in(dir).unwrap();
    let key = Key::create(&keys.path().join("server.key")).unwrap();
    App::new(store, config, key, crate::kinds::KINDS)
}

/// The required adapters are part of the settings: a start with others shows in every cluster, and lets one go whose
/// last missing adapter is required no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_follow_the_required_adapters() {
    let dir = tempfile::tempdir().unwrap();
    let mut story = Story::begin(&start(dir.path(), &REQUIRED).await, 1).await;
    let mut leaving = Story::begin(&story.app, 2).await;
    let app = story.app.clone();
    delete::cluster(State(app), Extension(caller()), UrlPath(leaving.id.clone()), HeaderMap::new())
        .await
        .unwrap();
    (leaving.is_deleted, leaving.generation) = (true, 2);
    for adapter in ["validation", "dns"] {
        story.tell(said(&story, adapter)).await;
        leaving.tell(said(&leaving, adapter)).await;
    }
    let (id, leaving_id) = (story.id.clone(), leaving.id.clone());
    assert!(
        reconciled(&story.app, &id).await.unwrap().message.unwrap().contains("pull-secret (has not said")
    );
    drop((story, leaving));
    for (required, status, message) in [
        (&["validation", "dns"][..], Status::True, "every required adapter is available"),
        (&["dns"], Status::True, "every required adapter is available"),
        (&["dns", "extra"], Status::False, "extra (has not said"),
        (&[], Status::False, "no adapter is required"),
        (&REQUIRED, Status::False, "pull-secret (has not said"),
    ] {
        let app = start(dir.path(), required).await;
        refold::all(&app).await.unwrap();
        let after = reconciled(&app, &id).await.unwrap();
        assert_eq!(after.status, status, "{required:?}");
        assert!(after.message.as_ref().unwrap().contains(message), "{after:?}");
        assert_eq!(reconciled(&app, &leaving_id).await, None, "{required:?}: nothing keeps it");
        let turn = async || Facts::read(&app, &CLUSTER, &id).await.unwrap().unwrap().turn;
        let first = turn().await;
        refold::all(&app).await.unwrap();
        assert_eq!(turn().await, first, "{required:?}: a second pass writes nothing");
    }
}

fn said(story: &Story, adapter: &str) -> Report {
    let condition = |type_: &str, status| ReportedCondition {
        type_: type_.to_owned(),
        status,
        reason: None,
        message: None,
    };
    let types = [("Available", Status::True), ("Applied", Status::True), ("Health", Status::True)];
    let ends = story.is_deleted.then_some(("Finalized", Status::True));
    Report {
        adapter: adapter.to_owned(),
        observed_generation: story.generation,
        observed_time: story.app.now(),
        conditions: types.into_iter().chain(ends).map(|(type_, status)| condition(type_, status)).collect(),
    }
}

async fn reconciled(app: &App, id: &str) -> Option<Condition> {
    let facts = Facts::read(app, &CLUSTER, id).await.unwrap()?;
    facts.conditions.into_iter().find(|one| one.type_ == RECONCILED)
}

impl Story {
    async fn begin(app: &App, number: u64) -> Self {
        let name = format!("story-{number}");
        let create = ClusterCreate { name: name.clone(), ..ClusterCreate::default() };
        create::cluster(State(app.clone()), Extension(caller()), Body(create)).await.unwrap();
        let found = app.store.get_by_key(CLUSTER.kind, &name).await.unwrap().unwrap();
        let facts = Facts::read(app, &CLUSTER, &found.content.id).await.unwrap().unwrap();
        let mut story = Self {
            app: app.clone(),
            dice: number * 2 + 1,
            id: found.content.id,
            generation: 1,
            updated_time: facts.document.updated_time,
            is_deleted: false,
            statuses: Vec::new(),
            conditions: Vec::new(),
        };
        story.fold();
        story
    }

    fn roll(&mut self, sides: usize) -> usize {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        usize::try_from(self.dice % 1_000_003).unwrap() % sides
    }

    fn fold(&mut self) {
        let required = REQUIRED.map(str::to_owned);
        let desired = Desired {
            generation: self.generation,
            updated_time: self.updated_time,
            required_adapters: &required,
            deleted: self.is_deleted,
            active_children: false,
        };
        self.conditions = fold(&desired, &self.statuses, &self.conditions);
    }

    /// Takes a step; returns whether the cluster is gone.
    async fn step(&mut self) -> bool {
        let (app, caller) = (State(self.app.clone()), Extension(caller()));
        match self.roll(20) {
            0 | 1 if !self.is_deleted => {
                let spec = Some(Exact::of(&json!({"roll": self.roll(3)})).unwrap());
                let wanted = Body(ClusterPatch { spec, labels: None });
                patch::cluster(app, caller, UrlPath(self.id.clone()), HeaderMap::new(), wanted)
                    .await
                    .unwrap();
                self.desired().await;
                false
            }
            2 if self.generation > 2 && !self.is_deleted => {
                delete::cluster(app, caller, UrlPath(self.id.clone()), HeaderMap::new()).await.unwrap();
                self.is_deleted = true;
                self.desired().await;
                false
            }
            _ => {
                let report = self.report();
                self.tell(report).await
            }
        }
    }

    async fn desired(&mut self) {
        let facts = Facts::read(&self.app, &CLUSTER, &self.id).await.unwrap().unwrap();
        if facts.document.generation != self.generation {
            self.generation = facts.document.generation;
            self.updated_time = facts.document.updated_time;
            self.fold();
        }
    }

    fn report(&mut self) -> Report {
        let ahead = [0, 0, 0, 0, -1, 1][self.roll(6)];
        let available = [Status::True, Status::True, Status::False, Status::Unknown][self.roll(4)];
        let behind = SignedDuration::from_secs(if self.roll(4) == 0 { 60 } else { 0 });
        let condition = |type_: &str, status| ReportedCondition {
            type_: type_.to_owned(),
            status,
            reason: None,
            message: None,
        };
        let mut conditions = vec![
            condition("Available", available),
            condition("Applied", Status::True),
            condition("Health", Status::True),
        ];
        if self.roll(2) == 0 {
            conditions
                .push(condition("Finalized", if self.roll(4) == 0 { Status::False } else { Status::True }));
        }
        Report {
            adapter: ADAPTERS[self.roll(4)].to_owned(),
            observed_generation: (self.generation + ahead).max(1),
            observed_time: self.app.now() - behind,
            conditions,
        }
    }

    async fn tell(&mut self, said: Report) -> bool {
        let stored = self.statuses.iter().find(|status| status.adapter == said.adapter).cloned();
        let verdict = classify(self.generation, stored.as_ref(), &said);
        let incoming =
            Incoming { report: said.clone(), data: None, metadata: None, ignored: Ignored::default() };
        let accepted = report::accept(&self.app, &caller(), &CLUSTER, &self.id, &incoming).await.unwrap();
        let why: Option<Discard> = match accepted {
            report::Accepted::Stored(_) => None,
            report::Accepted::Discarded { why, .. } => Some(why),
        };
        match verdict {
            Verdict::Discard(expected) => assert_eq!(why, Some(expected)),
            Verdict::Store { folds } => {
                assert_eq!(why, None);
                let status = upsert(stored.as_ref(), said);
                self.statuses.retain(|other| other.adapter != status.adapter);
                self.statuses.push(status);
                if folds {
                    self.fold();
                }
            }
        }
        self.is_deleted && all_finalized(&REQUIRED.map(str::to_owned), self.generation, &self.statuses)
    }
}

//! A store, a scripted upstream, and engines that come and go.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use jiff::SignedDuration;
use wardroom_core::{
    Named,
    gpu_node::{self, mapping, moves::Origin},
    run::{
        State,
        action::Action,
        plan::{Kind, Stage, When},
    },
};
use wardroom_store::{Change, Content, Document, Entry, HistoryRow, Rows, Store};
use wardroom_workflow::{
    Actor, Adoption, Answer, Ask, Engine, Order, Problem, RUN, Run, Settings, Subject, act,
};

use crate::{
    database::Database,
    subject::GpuNode,
    world::{Known, World, now},
};

pub(crate) type Node = gpu_node::State;

const NODE: &str = <GpuNode as Subject>::KIND;

pub(crate) struct Rig {
    pub(crate) store: Store,
    pub(crate) world: World,
    lives: AtomicUsize,
    database: Database,
}

/// What a run starts from.
pub(crate) fn start_of(kind: Kind) -> Node {
    match kind {
        Kind::Onboarding => Node::Enrolling,
        Kind::Bootstrap => Node::BootstrapIssued,
        Kind::Remove => Node::Retired,
        Kind::SoftReset | Kind::StorageCleanup | Kind::Reimage | Kind::FullDecommission | Kind::Retire => {
            Node::Active
        }
    }
}

/// Where a run ends.
pub(crate) fn end_of(kind: Kind) -> Node {
    match kind {
        Kind::Onboarding | Kind::Bootstrap => Node::Active,
        Kind::SoftReset | Kind::StorageCleanup | Kind::Reimage => Node::Offline,
        Kind::Retire => Node::Retired,
        Kind::FullDecommission | Kind::Remove => Node::Deleted,
    }
}

/// Every kind with every stage that it passes.
pub(crate) fn every_stage() -> Vec<(Kind, Stage)> {
    Kind::ALL.iter().flat_map(|&kind| course(kind).into_iter().map(move |stage| (kind, stage))).collect()
}

/// Every stage that a run passes when nothing fails and everything is asked for.
pub(crate) fn course(kind: Kind) -> Vec<Stage> {
    let steps = kind.plan().iter().filter(|step| step.when != When::OnFailure);
    steps.map(|step| step.stage).collect()
}

impl Rig {
    /// All cases on SQLite; on PostgreSQL, where each takes longer and the decisions are the same, every fifth.
    pub(crate) fn cases<T>(&self, cases: Vec<T>) -> impl Iterator<Item = T> + use<T> {
        let step = if matches!(self.database, Database::Postgres(_)) { 5 } else { 1 };
        cases.into_iter().step_by(step)
    }

    pub(crate) async fn new(database: Database) -> Arc<Self> {
        let (store, world) = (database.open().await, World::default());
        Arc::new(Self { store, world, lives: AtomicUsize::new(0), database })
    }

    pub(crate) fn settings(&self) -> Settings {
        let life = self.lives.fetch_add(1, Ordering::Relaxed);
        Settings {
            workers: 8,
            site_cap: 4,
            lease: Duration::from_secs(600),
            stage_limit: Duration::from_secs(300),
            first_backoff: SignedDuration::from_millis(1),
            longest_backoff: SignedDuration::from_millis(2),
            poll: Duration::from_millis(20),
            presence: Duration::from_millis(100),
            ..Settings::new(format!("life {life}"))
        }
    }

    pub(crate) fn engine(&self) -> Engine<World> {
        Engine::new(self.store.clone(), self.world.clone(), self.settings(), now)
    }

    /// Starts a run on a new node; both have the same id.
    pub(crate) async fn start(&self, kind: Kind) -> String {
        self.start_with(kind, start_of(kind), |_| {}).await
    }

    pub(crate) async fn start_with(
        &self,
        kind: Kind,
        node: Node,
        change: impl FnOnce(&mut Order<Known>),
    ) -> String {
        let id = uuid::Uuid::now_v7().to_string();
        let with = kind.plan().iter().filter(|step| matches!(step.when, When::OnRequest | When::ByPolicy));
        let mut order = Order {
            id: id.clone(),
            kind,
            subject: id.clone(),
            site: Some("here".to_owned()),
            with: with.map(|step| step.stage).collect(),
            skip: BTreeMap::new(),
            origin: Origin::of(node, Origin::FromUse),
            unproven: BTreeSet::new(),
            requested_by: Actor { user: Some("sue".to_owned()), ..Actor::default() },
            data: Known { given: "given".to_owned(), ..Known::default() },
        };
        change(&mut order);
        let node = Content {
            kind: NODE.to_owned(),
            id: id.clone(),
            name: id.clone(),
            state: node.to_string(),
            document: Document::default(),
            labels: BTreeMap::new(),
            fields: BTreeMap::new(),
            keys: BTreeSet::new(),
            deleted: false,
            due_at: None,
        };
        let contents = [order.accepted(now()).unwrap(), node];
        let at = now();
        let changes = contents.map(|after| Change {
            before: None,
            after,
            entry: Entry { at, ..entry() },
            effects: Vec::new(),
            fence: None,
            holds: Vec::new(),
        });
        self.store.commit_together(changes.into()).await.unwrap();
        id
    }

    pub(crate) async fn run(&self, id: &str) -> Run<Known> {
        Run::read(self.store.get(RUN, id).await.unwrap().unwrap()).unwrap()
    }

    pub(crate) async fn node(&self, id: &str) -> Node {
        self.store.get(NODE, id).await.unwrap().unwrap().content.state.parse().unwrap()
    }

    /// One server works on what is due; if it dies, its leases run out. True when it lived.
    pub(crate) async fn live(&self) -> bool {
        let engine = self.engine();
        tokio::select! {
            biased;
            ticked = engine.tick() => { ticked.unwrap(); true }
            () = self.world.died.notified() => {
                drop(engine);
                self.expire().await;
                false
            }
        }
    }

    /// Time passes until every lease has expired.
    pub(crate) async fn expire(&self) {
        for lease in self.store.leases("").await.unwrap() {
            self.store.release_lease(&lease).await.unwrap();
        }
    }

    /// Servers come and go until no worker has the run.
    pub(crate) async fn settle(&self, id: &str) -> State {
        for _ in 0..400 {
            let run = self.run(id).await;
            if !run.state.is_worked_on() && !run.record.hold.quarantine_pending {
                self.check(id).await;
                return run.state;
            }
            self.live().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
            // A server that crashed during a claim may hold it all the same, and does not release it.
            self.expire().await;
        }
        let run = self.run(id).await;
        panic!(
            "the run is still {} at {} after a long time: {:?}",
            run.state, run.record.progress.stage, run.record
        );
    }

    pub(crate) async fn history(&self, kind: &str, id: &str) -> Vec<HistoryRow> {
        let (mut rows, _) = self.store.history(kind, id, Rows::All, 10_000, 0).await.unwrap();
        rows.reverse();
        rows
    }

    /// Every pair of states that was ever committed is sound, and nothing was done twice.
    pub(crate) async fn check(&self, id: &str) {
        let kind = self.run(id).await.record.plan.kind;
        let mut rows = self.history(RUN, id).await;
        rows.extend(self.history(NODE, id).await);
        // What was committed together was decided at the same time.
        rows.sort_by_key(|row| row.entry.at);
        let (mut run, mut node): (Option<State>, Option<Node>) = (None, None);
        for (index, row) in rows.iter().enumerate() {
            if row.kind == RUN {
                run = Some(row.to_state.parse().unwrap());
            } else {
                node = Some(row.to_state.parse().unwrap());
            }
            let together = rows.get(index + 1).is_some_and(|next| next.entry.at == row.entry.at);
            if let (Some(run), Some(node), false) = (run, node, together) {
                let fit = mapping::check(node, Some((kind, run)));
                assert!(fit.is_ok(), "{kind} {id}: {:?} after {:?}", fit.err(), row.entry);
            }
        }
        assert_eq!(self.world.twice(id), [], "{kind} {id}");
    }

    pub(crate) async fn act(&self, id: &str, action: Action) -> Result<Answer, Problem> {
        self.ask(id, action, Adoption::Nothing, false).await
    }

    pub(crate) async fn ask(
        &self,
        id: &str,
        action: Action,
        adoption: Adoption,
        abandon: bool,
    ) -> Result<Answer, Problem> {
        let actor =
            Actor { user: Some("ann".to_owned()), comment: Some("because".to_owned()), request_id: None };
        act::<Known>(&self.store, id, &Ask { action, abandon, adoption, at: None, actor }, now()).await
    }
}

pub(crate) fn entry() -> Entry {
    Entry {
        entry_type: "registered".to_owned(),
        triggered_by: "admin".to_owned(),
        user_id: Some("ann".to_owned()),
        comment: None,
        metadata: serde_json::Value::Null,
        request_id: None,
        at: now(),
    }
}

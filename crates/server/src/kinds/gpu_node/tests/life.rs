//! A node's life at a site, from one plan to the next, whatever goes wrong on the way.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use serde_json::json;
use wardroom_core::{
    Named as _,
    gpu_node::maas::Status,
    run::{
        State, TABLE,
        action::Action,
        failure::Class,
        plan::{Kind, Stage},
    },
};
use wardroom_fakes::{
    maas::{Change, Fake as Maas, Outcome, Seed},
    redfish,
};
use wardroom_workflow::{Actor, Adoption, Ask, Attempt, Lost, Outcome as Origin, RUN, Run, Stages, act};

use super::{
    super::{data::Data, site::Erase},
    harness::Tricky,
    rig::{LOOPBACK, Rig, mac, quick},
};

/// A node with a machine, and a BMC of its own.
pub(super) struct Life {
    pub(super) id: String,
    pub(super) system_id: String,
    _bmc: redfish::Fake,
}

/// What MAAS does to a machine in the life of a node that is onboarded, reimaged and decommissioned, each time it is deployed
/// in vain first. All else is said how it shall be, and may be said again.
#[rustfmt::skip]
const DONE: &[(&str, u64)] =
    &[("commission", 1), ("link_subnet", 1), ("deploy", 4), ("release", 4), ("lock", 2), ("unlock", 2), ("delete", 1)];

/// A site that asks for everything a site can ask for.
pub(super) async fn site() -> Rig {
    let mut rig = Rig::with(quick(), |site| {
        (site.lock, site.remove_machine, site.cleanup_on_reimage) = (true, true, true);
        site.erase = Erase::Quick;
    })
    .await;
    std::fs::write(rig.secret("file:bmc/rack"), "root:calvin").unwrap();
    rig.backoff = jiff::SignedDuration::from_millis(1);
    rig.beat = std::time::Duration::from_millis(200);
    rig
}

impl Life {
    /// Registers a node whose machine MAAS has discovered; what is ordered of the machine and of the BMC is ordered before.
    pub(super) async fn begin(rig: &Rig, number: u32, order: impl FnOnce(&str, &redfish::Fake)) -> Self {
        let system_id = rig.maas.seed(&Seed { macs: vec![mac(number)], ..Seed::default() });
        let vain = || Outcome::Fail("timed out: searching for network DataSource".to_owned());
        let outcomes = [("deploying".to_owned(), vec![vain(), Outcome::Pass, vain()])].into();
        rig.maas.change(&system_id, &Change { outcomes, ..Change::default() });
        let bmc = redfish::Fake::start(redfish::Config::default(), LOOPBACK).await.unwrap();
        order(&system_id, &bmc);
        let body = json!({
            "hostname": format!("gpu-{number}"), "site": "berlin", "macs": [mac(number)],
            "bmc": {"address": bmc.url(), "credential": "file:bmc/rack", "system": "1"},
        });
        let made = rig.post("/api/v1/gpu-nodes", body).await.ok();
        Self { id: made["data"]["id"].as_str().unwrap().to_owned(), system_id, _bmc: bmc }
    }

    /// Everything was done to the machine, each thing as often as the plans say and no more.
    pub(super) fn was_whole(&self, rig: &Rig, told: &str) {
        for (op, times) in DONE {
            assert_eq!(rig.did(&self.system_id, op), *times, "{told}: {op}");
        }
    }
}

/// A change of a machine made outside of Wardroom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meddle {
    /// Deletes it.
    Delete,
    /// Switches it on.
    SwitchOn,
    /// Puts it into a status.
    Put(Status),
}

/// What is done to which machine, by its node and the stage.
type Planned = BTreeMap<(String, Stage), (String, Meddle)>;

/// The stages, with a change made outside of Wardroom when the run of a node comes to a stage.
#[derive(Clone)]
pub(super) struct Meddled {
    tricky: Tricky,
    maas: Arc<Maas>,
    planned: Arc<Mutex<Planned>>,
}

impl Meddled {
    pub(super) fn new(rig: &Rig, tricky: &Tricky) -> Self {
        Self { tricky: tricky.clone(), maas: Arc::clone(&rig.maas), planned: Arc::default() }
    }

    pub(super) fn plan(&self, node: &str, machine: &str, stage: Stage, what: Meddle) {
        self.planned.lock().unwrap().insert((node.to_owned(), stage), (machine.to_owned(), what));
    }
}

impl Stages for Meddled {
    type Data = Data;

    async fn meet(&self, site: &str) {
        self.tricky.meet(site).await;
    }

    async fn perform(&self, attempt: Attempt<'_, Data>) -> Result<Origin<Data>, Lost> {
        let planned = self.planned.lock().unwrap().remove(&(attempt.subject.to_owned(), attempt.stage));
        match planned {
            Some((machine, Meddle::Delete)) => drop(self.maas.vanish(&machine)),
            Some((machine, Meddle::SwitchOn)) => {
                let power = Some("on".to_owned());
                self.maas.change(&machine, &Change { power, ..Change::default() });
            }
            Some((machine, Meddle::Put(status))) => {
                self.maas.change(&machine, &Change { status: Some(status), ..Change::default() });
            }
            None => {}
        }
        self.tricky.perform(attempt).await
    }

    async fn undo(&self, attempt: Attempt<'_, Data>) -> Result<Origin<Data>, Lost> {
        self.tricky.undo(attempt).await
    }
}

pub(super) async fn newest(rig: &Rig, id: &str) -> String {
    rig.lifecycle(id).await["run"]["id"].as_str().unwrap().to_owned()
}

/// Returns the run when no worker has it any more.
pub(super) async fn settled(rig: &Rig, run: &str) -> Run<Data> {
    for _ in 0..12_000 {
        let run = Run::<Data>::read(rig.app.store.get(RUN, run).await.unwrap().unwrap()).unwrap();
        if !run.state.is_worked_on() {
            return run;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{:#}", rig.get(&format!("/api/v1/runs/{run}")).await);
}

/// The stage at which a run stopped, and why: it is in the state that the table of its stage gives.
pub(super) fn stopped(run: &Run<Data>, told: &str) -> (Stage, Class, String) {
    let Run { state, record, .. } = run;
    let failure = record.progress.failure.clone().unwrap_or_else(|| panic!("{told}: {state} {record:?}"));
    let expected = TABLE.find(State::Running, failure.stage.when_spent(failure.class)).unwrap().to;
    let expected = if record.progress.undoing { State::FailedManualIntervention } else { expected };
    assert_eq!(*state, expected, "{told}: {record:?}");
    (failure.stage, failure.class, failure.evidence)
}

/// Sends a run on whose cause is seen to: as is recommended, unless that would undo or adopt what is well by now.
pub(super) async fn send_on(rig: &Rig, run: &str) {
    let shown = rig.get(&format!("/api/v1/runs/{run}")).await["data"].clone();
    let recommended =
        shown["recommended"]["action"]["action"].as_str().and_then(|action| action.parse().ok());
    let ours = |action: &Action| matches!(action, Action::Rerun | Action::Resume);
    ask(rig, run, recommended.filter(ours).unwrap_or(Action::RetryStage)).await;
}

/// Asks something of a run, as the API would.
pub(super) async fn ask(rig: &Rig, run: &str, action: Action) {
    let actor =
        Actor { user: Some("admin".to_owned()), comment: Some("seen to".to_owned()), request_id: None };
    let ask = Ask { action, abandon: false, adoption: Adoption::Nothing, at: None, actor };
    act::<Data>(&rig.app.store, run, &ask, rig.app.now()).await.unwrap();
}

/// An agent was asked for each of its tasks once.
pub(super) async fn asked_once(rig: &Rig, run: &str, told: &str) {
    let fields = [("run".to_owned(), run.to_owned())].into();
    let list = wardroom_store::List {
        kind: super::super::task::KIND.to_owned(),
        fields,
        limit: 100,
        ..wardroom_store::List::default()
    };
    let mut asked: Vec<_> =
        rig.app.store.list(&list).await.unwrap().items.into_iter().map(|task| task.content.name).collect();
    let all = asked.len();
    asked.sort();
    asked.dedup();
    assert_eq!(asked.len(), all, "{told}: {asked:?}");
}

/// Where a plan leaves its node.
pub(super) const fn end_of(kind: Kind) -> &'static str {
    match kind {
        Kind::FullDecommission | Kind::Remove => "deleted",
        Kind::Retire => "retired",
        Kind::Onboarding | Kind::Bootstrap | Kind::SoftReset | Kind::StorageCleanup | Kind::Reimage => {
            "active"
        }
    }
}

#[test]
fn every_class_stops_a_run_in_one_of_two_states() {
    for (stage, class) in
        Stage::ALL.iter().flat_map(|stage| Class::ALL.iter().map(move |class| (stage, class)))
    {
        let to = TABLE.find(State::Running, stage.when_spent(*class)).unwrap().to;
        assert!(matches!(to, State::FailedRetryable | State::FailedManualIntervention), "{stage} {class}");
    }
}

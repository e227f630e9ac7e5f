//! Every request that any plan, or its undo, sends to MAAS or a BMC goes wrong once, in every way that is known: the run gets
//! on by itself, or stops where the tables say and gets on when it is sent on; nothing is done twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use wardroom_core::run::{
    State,
    action::Action,
    failure::Class,
    plan::{Kind, Stage},
};
use wardroom_fakes::{
    maas::{Change, Fault, FaultKind, Op, Outcome as MaasOutcome, When},
    redfish,
};
use wardroom_workflow::Run;

use super::{
    super::{data::Data, upstream::Clients},
    harness::{At, DECLARED, Trick, Tricky, check, start_all},
    life::{Life, Meddle, Meddled, ask, asked_once, end_of, newest, send_on, settled, site, stopped},
    rig::{Rig, tries_few},
};

/// A way in which requests go wrong.
#[derive(Debug, Clone, Copy)]
struct Break {
    kind: FaultKind,
    when: When,
    /// Whether the runs get on by themselves.
    alone: bool,
}

const fn lost(kind: FaultKind) -> Break {
    Break { kind, when: When::After, alone: true }
}

const fn refused(kind: FaultKind) -> Break {
    Break { kind, when: When::Before, alone: true }
}

/// A person has to send the runs on, now and then.
const fn stops(kind: FaultKind) -> Break {
    Break { kind, when: When::Before, alone: false }
}

/// Faults after which the operation was done, with its answer lost.
const LOST: &[Break] = &[
    lost(FaultKind::HangUp),
    lost(FaultKind::Status(500)),
    lost(FaultKind::Later(503, 0)),
    lost(FaultKind::Status(504)),
    lost(FaultKind::Garbage),
];
/// It was not done.
const REFUSED: &[Break] = &[
    refused(FaultKind::Status(500)),
    refused(FaultKind::Later(503, 0)),
    refused(FaultKind::Status(504)),
    refused(FaultKind::Later(409, 0)),
];
/// Faults after which the operation was not done and will not be: a refusal because of a status counts as a
/// failure of the machine, whatever was asked for. One is a missing answer, which takes its time.
const STOPS: &[Break] = &[
    stops(FaultKind::Conflict),
    stops(FaultKind::Unauthorized),
    stops(LIE),
    stops(FaultKind::Status(404)),
    Break { kind: FaultKind::Silence, when: When::After, alone: false },
];

/// How often an operation goes wrong in a life; each time it is asked for again, that goes well.
const TIMES: u32 = 16;
/// How often one that names no machine does, at the site: all nodes there share that, and what one repeats may go wrong for
/// another. If all of it comes to one node, the stage that finds or creates the machine still bears it: five failures in
/// which MAAS may have done something, of which one is of the machine's creation and the others of its tag.
const AT_THE_SITE: u32 = 2;
/// Operations that name no machine.
const OF_THE_SITE: &[&str] =
    &["version", "whoami", "subnets", "events", "list", "create", "create_tag", "update_nodes"];
/// Operations that fail in a life of their own: a stage survives one failure of those that end in a release,
/// and a machine that MAAS claims not to have is not deleted.
const APART: &[&str] = &["unlock", "delete"];
/// A fault that looks like the truth: MAAS answers that it does not have a machine that it has.
const LIE: FaultKind = FaultKind::Gone;
/// Stops a run when a stage is done.
const HERE: Trick = Trick::Fail(&[Class::Manual], At::After);
/// A site at which requests go wrong.
struct Broken {
    rig: Rig,
    tricky: Tricky,
    meddled: Meddled,
    how: Break,
    /// How many faults were ordered for each operation.
    ordered: Mutex<BTreeMap<&'static str, u32>>,
}

impl Broken {
    /// Each request for an operation goes wrong, unless it repeats one that did.
    fn order(&self, op: &'static str, machine: Option<&str>, times: u32) {
        let Break { kind, when, .. } = self.how;
        let (op_name, machine) = (Some(op.to_owned()), machine.map(str::to_owned));
        for time in 0..times {
            let skip = u32::from(time > 0);
            let (op, machine) = (op_name.clone(), machine.clone());
            self.rig.maas.fault(Fault { op, machine, skip, times: 1, when, kind });
        }
        *self.ordered.lock().unwrap().entry(op).or_default() += times;
    }

    /// The same for all operations on a machine that are meant.
    fn order_all(&self, machine: &str, meant: impl Fn(&str) -> bool) {
        for op in Op::ALL.iter().map(|op| op.name()).filter(|op| meant(op)) {
            self.order(op, Some(machine), TIMES);
        }
    }

    /// The first request to a BMC goes wrong, as far as a BMC can.
    fn order_of(&self, bmc: &redfish::Fake) {
        let fault = match self.how.kind {
            FaultKind::Status(status) | FaultKind::Later(status @ 503, _) => redfish::Fault::Status(status),
            FaultKind::Unauthorized => redfish::Fault::Status(401),
            FaultKind::Gone => redfish::Fault::Status(404),
            FaultKind::HangUp => redfish::Fault::LostReply,
            FaultKind::Slow(millis) => redfish::Fault::Slow(millis),
            FaultKind::Busy
            | FaultKind::Conflict
            | FaultKind::Unavailable
            | FaultKind::Later(..)
            | FaultKind::LaterAt(..)
            | FaultKind::Silence
            | FaultKind::Garbage
            | FaultKind::Echo => return,
        };
        bmc.fault(fault);
    }

    /// Waits until a run is where it shall be, and sends it on when it stops before that, unless it continues
    /// by itself.
    async fn to(&self, run: &str, there: impl Fn(&Run<Data>) -> bool, told: &str) {
        for _ in 0..100 {
            let seen = settled(&self.rig, run).await;
            if there(&seen) {
                return;
            }
            let why = stopped(&seen, told);
            assert!(!self.how.alone, "{told}: {why:?}");
            send_on(&self.rig, run).await;
        }
        panic!("{told}: it stops again and again");
    }

    /// Registers a node about whose machine requests go wrong, as far as they are meant.
    async fn begin(&self, number: u32, meant: impl Fn(&str) -> bool) -> Life {
        let life = Life::begin(&self.rig, number, |machine, bmc| {
            self.order_all(machine, meant);
            self.order_of(bmc);
        })
        .await;
        // MAAS switches off a machine that it releases, and another user switches it on again.
        self.meddled.plan(&life.id, &life.system_id, Stage::PowerOffMaasNode, Meddle::SwitchOn);
        life
    }

    /// The node is onboarded, reimaged and decommissioned.
    async fn whole(&self, life: Life) {
        let (told, rig) = (format!("{:?}", self.how), &self.rig);
        for kind in [Kind::Onboarding, Kind::Reimage, Kind::FullDecommission] {
            if kind != Kind::Onboarding {
                start_all(rig, &life.id, kind).await;
            }
            let run = newest(rig, &life.id).await;
            self.to(&run, |run| run.state == State::Completed, &format!("{told} {kind}")).await;
            rig.until(&life.id, end_of(kind)).await;
            asked_once(rig, &run, &told).await;
        }
        check(rig, &life.id).await;
        assert!(rig.did(&life.system_id, "power_off") <= 1, "{told}");
        if self.how.kind == LIE {
            // What MAAS says it does not have is not deleted.
            assert!(rig.did(&life.system_id, "delete") <= 1, "{told}");
        } else {
            life.was_whole(rig, &told);
        }
    }

    /// A node is onboarded with a machine that MAAS does not have yet, up to its deployment, and the run is cancelled.
    async fn undone(&self, id: &str) {
        let (told, rig) = (format!("{:?}, undone", self.how), &self.rig);
        let run = newest(rig, id).await;
        let at = async |stage: Stage| {
            let there = |run: &Run<Data>| {
                run.record.progress.stage == stage && stopped(run, &told).2 == "as scripted"
            };
            self.to(&run, there, &told).await;
        };
        at(Stage::CreateOrFindInMaas).await;
        let system_id = rig.system_id(id).await;
        let outcomes = [("deploying".to_owned(), vec![MaasOutcome::Stall])].into();
        rig.maas.change(&system_id, &Change { outcomes, ..Change::default() });
        self.tricky.plan(id, HERE, Some(Stage::DeployViaMaas));
        ask(rig, &run, Action::Resume).await;
        at(Stage::DeployViaMaas).await;
        if self.how.kind != LIE {
            self.order_all(&system_id, |_| true);
        }
        ask(rig, &run, Action::Cancel).await;
        self.to(&run, |run| run.state == State::Cancelled, &told).await;
        check(rig, id).await;
        let did = ["create", "commission", "link_subnet", "deploy", "abort", "release", "delete"];
        assert_eq!(did.map(|op| rig.did(&system_id, op)), [1; 7], "{told}");
        assert!(!rig.maas.machines().contains(&system_id), "{told}: it is left");
    }

    /// Everything that was asked for went wrong, and goes wrong if it is asked for once more.
    fn broke_everything(&self) {
        let asked: BTreeSet<_> = self.rig.maas.requests().into_keys().collect();
        let (left, ordered) = (self.rig.maas.faults(), self.ordered.lock().unwrap());
        let harmed = |op: &str| {
            let left = left.iter().filter(|fault| fault.op.as_deref() == Some(op)).count();
            ordered.get(op).is_some_and(|ordered| u32::try_from(left).unwrap() < *ordered)
        };
        let of_an_undo = ["abort", "unlink_subnet", "restore_storage_configuration"];
        let unharmed = asked.iter().filter(|op| !harmed(op));
        let unharmed: Vec<_> =
            unharmed.filter(|op| self.how.kind != LIE || !of_an_undo.contains(op)).collect();
        assert_eq!(unharmed, [&""; 0], "{:?} never happened to them", self.how);
        for op in of_an_undo.iter().chain(&["power_off", "results", "events", "unlock"]) {
            assert!(asked.contains(op), "{op} was not asked for");
        }
        for (machine, did) in self.rig.maas.effects() {
            let often = did
                .iter()
                .find(|(op, times)| !DECLARED.contains(&op.as_str()) && **times >= u64::from(TIMES));
            assert_eq!(often, None, "{machine}: a time of it never went wrong");
        }
    }
}

/// Nodes live side by side at a site where requests go wrong in one way.
async fn break_each_request(how: Break) {
    let mut rig = site().await;
    if how.kind == FaultKind::Silence {
        let clients = Clients::new(&rig.app.config);
        rig.workers.clients = Arc::new(clients.within(Duration::from_millis(500)));
    }
    let tricky = Tricky::new(&rig);
    let meddled = Meddled::new(&rig, &tricky);
    let mut broken = Broken { rig, tricky, meddled, how, ordered: Mutex::default() };
    let most = broken.begin(1, |op| !APART.contains(&op)).await;
    let apart = broken.begin(2, |op| APART.contains(&op)).await;
    let undone = broken.rig.onboard(3).await;
    broken.tricky.plan(&undone, HERE, Some(Stage::CreateOrFindInMaas));
    for op in OF_THE_SITE {
        broken.order(op, None, AT_THE_SITE);
    }
    broken.rig.work_with(broken.meddled.clone());
    broken.rig.agents();
    tokio::join!(broken.whole(most), broken.whole(apart), broken.undone(&undone));
    broken.broke_everything();
}

async fn break_all(ways: &[Break]) {
    futures_util::future::join_all(ways.iter().map(|how| break_each_request(*how))).await;
}

async fn whatever_reply_is_lost_nothing_is_done_twice() {
    break_all(if tries_few() { &LOST[..2] } else { LOST }).await;
}

/// Decisions do not depend on the database: one is enough for operations that were not done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_request_is_refused_for_now_is_sent_again() {
    break_all(REFUSED).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_request_is_refused_for_good_stops_its_run_and_leads_on() {
    break_all(STOPS).await;
}

/// Late answers are answers.
async fn whatever_reply_is_late_is_waited_for() {
    let mut rig = site().await;
    rig.maas.fault(Fault { op: None, times: u32::MAX, ..Fault::of("", FaultKind::Slow(30)) });
    rig.work();
    rig.agents();
    let life = Life::begin(&rig, 1, |_, bmc| bmc.fault(redfish::Fault::Late(30))).await;
    for kind in [Kind::Onboarding, Kind::Reimage, Kind::FullDecommission] {
        if kind != Kind::Onboarding {
            start_all(&rig, &life.id, kind).await;
        }
        rig.until_run(&life.id, "completed").await;
        rig.until(&life.id, end_of(kind)).await;
    }
    check(&rig, &life.id).await;
    life.was_whole(&rig, "late");
}

long_on_both! {
    threads:
    whatever_reply_is_lost_nothing_is_done_twice
    whatever_reply_is_late_is_waited_for
}

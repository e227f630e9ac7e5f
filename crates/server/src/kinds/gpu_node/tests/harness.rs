//! The real stages against the fakes, and a worker that dies at every point of every plan: whatever was done is done once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use wardroom_core::{
    gpu_node::mapping,
    run::{
        failure::Class,
        plan::{Kind, Stage, When},
    },
};
use wardroom_fakes::maas::{Change, Effects, Fault, FaultKind, Outcome as Ending, Seed};
use wardroom_store::{List, Rows};
use wardroom_workflow::{Attempt, Lost, Outcome, RUN, Run, Stages};

use super::{
    super::{data::Data, stages::Workers},
    rig::{Rig, mac, quick},
};

/// What happens to a worker at a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trick {
    /// It does everything and dies before it can say so: the stage is executed twice.
    Die,
    /// It dies as soon as MAAS did something, before it hears of it; again after everything else that MAAS does.
    Cut,
    /// It does everything, and then a person is needed.
    Stop,
    /// It fails in each of some classes, until that is not borne any longer.
    Fail(&'static [Class], At),
}

/// When a stage fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// Before it does anything.
    Before,
    /// When all of it is done and not recorded.
    After,
}

/// The stages, with tricks.
#[derive(Clone)]
pub(super) struct Tricky {
    workers: Workers,
    tricks: Arc<Mutex<Tricks>>,
    effects: Arc<dyn Fn() -> Effects + Send + Sync>,
}

#[derive(Default)]
struct Tricks {
    /// By node: the trick, and the only stage it is played at, if it is not played at all.
    planned: BTreeMap<String, (Trick, Option<Stage>)>,
    /// How often it was played.
    played: BTreeMap<(String, Stage, bool), u32>,
}

/// Fewer than what needs a person.
const DEATHS: u32 = 3;

impl Tricky {
    pub(super) fn new(rig: &Rig) -> Self {
        let maas = Arc::clone(&rig.maas);
        Self::of(rig, move || maas.effects())
    }

    /// The same, where something else is done that can be cut.
    pub(super) fn of(rig: &Rig, effects: impl Fn() -> Effects + Send + Sync + 'static) -> Self {
        let effects = Arc::new(effects);
        Self { workers: rig.workers.clone(), tricks: Arc::default(), effects }
    }

    /// From now on this happens to the worker of the node.
    pub(super) fn plan(&self, node: &str, trick: Trick, at: Option<Stage>) {
        let mut tricks = self.tricks.lock().unwrap();
        tricks.planned.insert(node.to_owned(), (trick, at));
        tricks.played.retain(|(of, ..), _| of != node);
    }

    /// How often one was played on workers of the node at a stage.
    pub(super) fn times(&self, node: &str, stage: Stage) -> u32 {
        let tricks = self.tricks.lock().unwrap();
        tricks.played.get(&(node.to_owned(), stage, false)).copied().unwrap_or(0)
    }

    /// How often a trick was played on workers of the node.
    pub(super) fn played(&self, node: &str) -> u32 {
        let tricks = self.tricks.lock().unwrap();
        tricks.played.iter().filter(|((at, ..), _)| at == node).map(|(_, times)| times).sum()
    }

    /// The stages of the node at which one was played.
    fn stages(&self, node: &str) -> BTreeSet<Stage> {
        let tricks = self.tricks.lock().unwrap();
        let played =
            tricks.played.iter().filter(|((at, _, undoing), times)| at == node && !undoing && **times > 0);
        played.map(|((_, stage, _), _)| *stage).collect()
    }

    fn next(&self, attempt: &Attempt<'_, Data>, undoing: bool) -> Option<Trick> {
        let mut tricks = self.tricks.lock().unwrap();
        let (trick, at) = *tricks.planned.get(attempt.subject)?;
        let never_undoing = matches!(trick, Trick::Stop | Trick::Fail(..));
        if at.is_some_and(|at| at != attempt.stage) || (undoing && never_undoing) {
            return None;
        }
        let most = match trick {
            Trick::Cut => DEATHS,
            Trick::Die | Trick::Stop => 1,
            Trick::Fail(classes, _) => borne(attempt.stage, classes),
        };
        let played = tricks.played.entry((attempt.subject.to_owned(), attempt.stage, undoing)).or_default();
        (*played < most).then(|| {
            // A cut is played only when there is something to cut, and some fail only when everything is done.
            *played += u32::from(!matches!(trick, Trick::Cut | Trick::Fail(_, At::After)));
            trick
        })
    }

    fn count(&self, node: &str, stage: Stage, undoing: bool) {
        *self.tricks.lock().unwrap().played.entry((node.to_owned(), stage, undoing)).or_default() += 1;
    }

    /// Ends when MAAS did something since.
    async fn something_done(&self, node: &str, stage: Stage, undoing: bool) {
        let before = (self.effects)();
        while (self.effects)() == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.count(node, stage, undoing);
    }

    async fn play(&self, attempt: Attempt<'_, Data>, undoing: bool) -> Result<Outcome<Data>, Lost> {
        let (node, stage) = (attempt.subject.to_owned(), attempt.stage);
        let trick = self.next(&attempt, undoing);
        let work = async {
            if undoing { self.workers.undo(attempt).await } else { self.workers.perform(attempt).await }
        };
        let class = |classes: &[Class]| {
            let played = self.times(&node, stage);
            *classes.iter().find(|class| borne(stage, until(classes, **class)) >= played).unwrap()
        };
        match trick {
            None => work.await,
            Some(Trick::Cut) => tokio::select! {
                outcome = work => outcome,
                () = self.something_done(&node, stage, undoing) => Err(Lost),
            },
            Some(Trick::Die) => work.await.and(Err(Lost)),
            Some(Trick::Stop) => {
                work.await?;
                Ok(Outcome::NeedsOperator { reason: "as scripted".to_owned() })
            }
            Some(Trick::Fail(classes, At::Before)) => Ok(failed(class(classes))),
            Some(Trick::Fail(classes, At::After)) => {
                let came = work.await?;
                if !matches!(came, Outcome::Done(_)) {
                    return Ok(came);
                }
                self.count(&node, stage, undoing);
                Ok(failed(class(classes)))
            }
        }
    }
}

/// How often a stage fails until it is not borne any longer, in each of some classes after the other.
pub(super) fn borne(stage: Stage, classes: &[Class]) -> u32 {
    classes.iter().map(|class| stage.budget(*class) + 1).sum()
}

/// The classes up to one.
pub(super) fn until(classes: &[Class], last: Class) -> &[Class] {
    &classes[..=classes.iter().position(|class| *class == last).unwrap()]
}

fn failed(class: Class) -> Outcome<Data> {
    Outcome::Retry { class, evidence: "as scripted".to_owned(), after: None }
}

impl Stages for Tricky {
    type Data = Data;

    async fn meet(&self, site: &str) {
        self.workers.meet(site).await;
    }

    async fn perform(&self, attempt: Attempt<'_, Data>) -> Result<Outcome<Data>, Lost> {
        self.play(attempt, false).await
    }

    async fn undo(&self, attempt: Attempt<'_, Data>) -> Result<Outcome<Data>, Lost> {
        self.play(attempt, true).await
    }
}

/// A rig with everything that a site can ask for.
pub(super) async fn elaborate() -> Rig {
    Rig::with(quick(), |site| {
        (site.lock, site.remove_machine, site.cleanup_on_reimage) = (true, true, true);
        site.erase = super::super::site::Erase::Quick;
    })
    .await
}

/// The operations that each kind of run performs in MAAS once each; settings may be written again.
#[rustfmt::skip]
const ONCE: &[(Kind, &[&str])] = &[
    (Kind::Onboarding,       &["commission", "link_subnet", "deploy", "lock"]),
    (Kind::SoftReset,        &[]),
    (Kind::StorageCleanup,   &[]),
    (Kind::Reimage,          &["unlock", "release", "deploy", "lock"]),
    // MAAS switches a machine off that it releases.
    (Kind::FullDecommission, &["unlock", "release", "delete"]),
    // A node without a site has nothing done in MAAS; one that only leaves the inventory leaves the machine
    // alone.
    (Kind::Bootstrap,        &[]),
    (Kind::Retire,           &[]),
    (Kind::Remove,           &[]),
];
/// What says how something shall be, and changes nothing when it is so already.
pub(super) const DECLARED: &[&str] =
    &["set_boot_disk", "set_storage_layout", "update_nodes", "update", "create_tag"];

/// Walks through a plan while something goes wrong, and compares what was done to the machine.
async fn walk(kind: Kind, trick: Option<Trick>, fault: Option<Fault>) {
    let mut rig = elaborate().await;
    let system_id = rig.maas.seed(&Seed { macs: vec![mac(1)], ..Seed::default() });
    let tricky = Tricky::new(&rig);
    rig.agents();
    let told = format!("{kind} {trick:?} {fault:?}");
    let prepare = |rig: &Rig, id: &str| {
        trick.inspect(|trick| tricky.plan(id, *trick, None));
        if trick == Some(Trick::Cut) {
            // What MAAS did is known only a moment later.
            rig.maas.fault(Fault { op: None, times: 10_000, ..Fault::of("", FaultKind::Slow(20)).after() });
        }
        if let Some(fault) = fault.clone() {
            rig.maas.fault(fault);
        }
    };
    let mut before = Effects::new();
    let (id, token) =
        if kind == Kind::Bootstrap { rig.by_hand(1).await } else { (rig.onboard(1).await, String::new()) };
    if kind.is_onboarding() {
        prepare(&rig, &id);
        rig.work_with(tricky.clone());
    } else {
        rig.work_with(tricky.clone());
        rig.until(&id, "active").await;
        if kind == Kind::Remove {
            start(&rig, &id, Kind::Retire).await;
            rig.until_run(&id, "completed").await;
        }
        before = rig.maas.effects();
        prepare(&rig, &id);
        start_all(&rig, &id, kind).await;
    }
    if kind == Kind::Bootstrap {
        let enrolled = rig.as_agent("", "/api/v1/gpu-nodes/enroll", json!({"token": token})).await.ok();
        let beat = format!("/api/v1/gpu-nodes/{id}/heartbeat");
        rig.as_agent(enrolled["credential"].as_str().unwrap(), &beat, json!({"checks": []})).await.ok();
    }
    let end = match kind {
        Kind::FullDecommission | Kind::Remove => "deleted",
        Kind::Retire => "retired",
        Kind::Onboarding | Kind::Bootstrap | Kind::SoftReset | Kind::StorageCleanup | Kind::Reimage => {
            "active"
        }
    };
    rig.until_run(&id, "completed").await;
    rig.until(&id, end).await;
    check(&rig, &id).await;
    let of = |effects: &Effects| effects.get(&system_id).cloned().unwrap_or_default();
    let (before, after) = (of(&before), of(&rig.maas.effects()));
    let once = ONCE.iter().find(|(of, _)| *of == kind).unwrap().1;
    for (op, times) in &after {
        let times = times - before.get(op).copied().unwrap_or(0);
        let is_declared = DECLARED.contains(&op.as_str());
        let expected = u64::from(once.contains(&op.as_str()));
        assert!(is_declared || times == expected, "{told}: {op} was done {times} times: {after:?}");
    }
    for op in once {
        assert!(after.contains_key(*op), "{told}: {op} was not done: {after:?}");
    }
    let played = tricky.stages(&id);
    match trick {
        Some(Trick::Die) => assert_eq!(played, stages(kind, &[When::OnFailure]), "{told}"),
        Some(Trick::Cut) => assert!(played.len() >= once.len().min(1), "{told}"),
        Some(Trick::Stop | Trick::Fail(..)) | None => {}
    }
}

/// The stages of a plan, but for some.
pub(super) fn stages(kind: Kind, but: &[When]) -> BTreeSet<Stage> {
    kind.plan().iter().filter(|step| !but.contains(&step.when)).map(|step| step.stage).collect()
}

/// Starts what takes a node out, in whichever way it is asked for.
pub(super) async fn start(rig: &Rig, id: &str, kind: Kind) {
    begin(rig, id, kind, json!({"mode": kind.to_string()})).await;
}

/// The same with every stage that can be asked for.
pub(super) async fn start_all(rig: &Rig, id: &str, kind: Kind) {
    begin(rig, id, kind, json!({"mode": kind.to_string(), "force": true})).await;
}

async fn begin(rig: &Rig, id: &str, kind: Kind, mode: Value) {
    match kind {
        Kind::Retire | Kind::Remove => rig.act(id, kind.as_str(), json!({})).await.ok(),
        Kind::Onboarding
        | Kind::Bootstrap
        | Kind::SoftReset
        | Kind::StorageCleanup
        | Kind::Reimage
        | Kind::FullDecommission => {
            rig.post(&format!("/api/v1/gpu-nodes/{id}/decommissions"), mode).await.ok()
        }
    };
}

/// Every pair of states that a node and its newest run ever had goes together, from its first run to now.
pub(super) async fn check(rig: &Rig, id: &str) {
    let fields = [("subject".to_owned(), id.to_owned())].into();
    let list = List { kind: RUN.to_owned(), fields, limit: 1000, ..List::default() };
    let mut rows = rig.app.store.history("gpu-node", id, Rows::All, 10_000, 0).await.unwrap().0;
    let mut kinds = BTreeMap::new();
    for run in rig.app.store.list(&list).await.unwrap().items {
        let run = Run::<Data>::read(run).unwrap();
        kinds.insert(run.id().to_owned(), run.record.plan.kind);
        rows.extend(rig.app.store.history(RUN, run.id(), Rows::All, 10_000, 0).await.unwrap().0);
    }
    // What was committed together was decided at the same time.
    rows.sort_by_key(|row| (row.entry.at, row.sequence));
    let (mut newest, mut node) = (None, None);
    for (index, row) in rows.iter().enumerate() {
        if let Some(kind) = kinds.get(&row.resource_id) {
            newest = Some((*kind, row.to_state.parse().unwrap()));
        } else {
            node = Some(row.to_state.parse().unwrap());
        }
        let together = rows.get(index + 1).is_some_and(|next| next.entry.at == row.entry.at);
        if let (Some(node), false) = (node, together) {
            let fit = mapping::check(node, newest);
            assert!(fit.is_ok(), "{:?} after {:?} of {}", fit.err(), row.entry, row.kind);
        }
    }
    assert!(!kinds.is_empty(), "{id} never had a run");
}

async fn dies_everywhere(kind: Kind) {
    walk(kind, Some(Trick::Die), None).await;
    walk(kind, Some(Trick::Cut), None).await;
}

async fn an_onboarding_survives_the_death_of_its_worker_at_every_point() {
    dies_everywhere(Kind::Onboarding).await;
}

/// The detour too: a deployment breaks as it repairs, and all sixteen stages are died at.
async fn a_repair_survives_the_death_of_its_worker_at_every_point() {
    for kind in [Kind::Onboarding, Kind::Reimage] {
        let mut rig = elaborate().await;
        let system_id = rig.maas.seed(&Seed { macs: vec![mac(1)], ..Seed::default() });
        let tricky = Tricky::new(&rig);
        rig.agents();
        rig.work_with(tricky.clone());
        let breaks = || {
            let failure = Ending::Fail("timed out: searching for network DataSource".to_owned());
            let outcomes = [("deploying".to_owned(), vec![failure])].into();
            rig.maas.change(&system_id, &Change { outcomes, ..Change::default() });
        };
        let id = if kind == Kind::Onboarding {
            breaks();
            let id = rig.onboard(1).await;
            tricky.plan(&id, Trick::Die, None);
            id
        } else {
            let id = rig.onboard(1).await;
            rig.until(&id, "active").await;
            breaks();
            tricky.plan(&id, Trick::Die, None);
            start_all(&rig, &id, kind).await;
            id
        };
        rig.until_run(&id, "completed").await;
        rig.until(&id, "active").await;
        check(&rig, &id).await;
        let (deployed, released) = if kind == Kind::Onboarding { (2, 1) } else { (3, 2) };
        assert_eq!((rig.did(&system_id, "deploy"), rig.did(&system_id, "release")), (deployed, released));
        assert_eq!(tricky.stages(&id), stages(kind, &[]), "{kind}");
    }
}

async fn a_reset_survives_the_death_of_its_worker_at_every_point() {
    dies_everywhere(Kind::SoftReset).await;
    dies_everywhere(Kind::StorageCleanup).await;
}

async fn a_run_without_maas_survives_a_crash_at_every_point() {
    dies_everywhere(Kind::Bootstrap).await;
    dies_everywhere(Kind::Retire).await;
    dies_everywhere(Kind::Remove).await;
}

async fn a_reimage_survives_the_death_of_its_worker_at_every_point() {
    dies_everywhere(Kind::Reimage).await;
}

async fn a_decommission_survives_the_death_of_its_worker_at_every_point() {
    dies_everywhere(Kind::FullDecommission).await;
}

/// Whatever reply gets lost, on the way out as on the way in, nothing is done twice.
async fn a_lost_reply_repeats_nothing_on_the_way_out() {
    let lost = |op: &str| Some(Fault::of(op, FaultKind::HangUp).after());
    let removed =
        ["unlock", "release", "delete", "query_power_state", "list"].map(|op| (Kind::FullDecommission, op));
    let renewed = ["release", "set_storage_layout", "deploy", "lock"].map(|op| (Kind::Reimage, op));
    let walks = removed.into_iter().chain(renewed).map(|(kind, op)| walk(kind, None, lost(op)));
    futures_util::future::join_all(walks).await;
}

#[test]
fn every_plan_is_walked_through() {
    use wardroom_core::Named as _;
    assert!(Kind::ALL.iter().all(|kind| ONCE.iter().any(|(of, _)| of == kind)));
    // The plans are those of the document: a stage that is taken out of one is missed here.
    let counted = |kind| stages(kind, &[]).len();
    let sizes =
        [Kind::Onboarding, Kind::SoftReset, Kind::StorageCleanup, Kind::Reimage, Kind::FullDecommission];
    assert_eq!(sizes.map(counted), [16, 6, 5, 22, 13]);
    assert_eq!([Kind::Bootstrap, Kind::Retire, Kind::Remove].map(counted), [1, 3, 2]);
}

long_on_both! {
    an_onboarding_survives_the_death_of_its_worker_at_every_point
    a_repair_survives_the_death_of_its_worker_at_every_point
    a_reset_survives_the_death_of_its_worker_at_every_point
    a_run_without_maas_survives_a_crash_at_every_point
    a_reimage_survives_the_death_of_its_worker_at_every_point
    a_decommission_survives_the_death_of_its_worker_at_every_point
}

long_on_both! {
    threads:
    a_lost_reply_repeats_nothing_on_the_way_out
}

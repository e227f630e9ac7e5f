//! Which workers may write, and when.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::sync::watch;
use wardroom_core::run::{
    State,
    action::{Action, Already, Goal},
    failure::Class,
    plan::{Kind, Stage},
};
use wardroom_workflow::{Did, Engine, RUN, Rate, Settings};

use crate::{
    database::Database,
    rig::{Node, Rig, course},
    world::{Doing, Fault, now},
};

/// A worker stands in a stage; awaiting the task lets it continue.
async fn standing(rig: &Arc<Rig>, kind: Kind, stage: Stage) -> (String, tokio::task::JoinHandle<()>) {
    let id = rig.start(kind).await;
    rig.world.plan(&id, stage, Doing::Perform, Fault::Stand, 1);
    let worker = Arc::clone(rig);
    let task = tokio::spawn(async move {
        worker.engine().tick().await.unwrap();
    });
    rig.world.standing.notified().await;
    (id, task)
}

/// What the newest row says of the attempt that an action took from its worker.
async fn lost(rig: &Rig, id: &str, of: &str) -> serde_json::Value {
    let rows = rig.history(RUN, id).await;
    let row = rows.iter().find(|row| !row.entry.metadata["action"].is_null()).unwrap();
    let told = row.entry.metadata.clone();
    assert!(!told[of].is_null() && told["outcome"] == "lost", "{told}");
    assert!(told["stage"].is_string() && told["attempt"] == 1, "{told}");
    assert!(told["started_at"].is_string() && told["ended_at"].is_string(), "{told}");
    told
}

pub(crate) async fn a_worker_that_wakes_up_late_writes_nothing(database: Database) {
    let rig = Rig::new(database).await;
    let (id, late) = standing(&rig, Kind::Retire, Stage::DrainNode).await;
    let node = rig.node(&id).await;
    rig.expire().await;
    assert_eq!(rig.node(&id).await, node, "an expired lease changes nothing");
    assert_eq!(rig.settle(&id).await, State::Completed);
    let rows = rig.history(RUN, &id).await.len();
    rig.world.gate.0.add_permits(1);
    late.await.unwrap();
    assert_eq!(rig.history(RUN, &id).await.len(), rows);
    assert_eq!(rig.node(&id).await, Node::Retired);
    rig.check(&id).await;
}

/// Stages that each end before a lease has to be renewed take longer together than it lasts: no other worker
/// takes the run.
pub(crate) async fn a_run_stays_in_hand_from_stage_to_stage(database: Database) {
    let rig = Rig::new(database).await;
    let id = rig.start(Kind::Onboarding).await;
    for stage in &course(Kind::Onboarding)[..4] {
        rig.world.plan(&id, *stage, Doing::Perform, Fault::Slow(1900), 1);
    }
    let settings = Settings { lease: Duration::from_secs(6), ..rig.settings() };
    let engine = Engine::new(rig.store.clone(), rig.world.clone(), settings, now);
    let worked = async {
        engine.tick().await.unwrap();
    };
    let watched = async {
        let name = format!("{RUN}/{id}");
        while rig.run(&id).await.record.data.done.len() < 4 {
            let is_begun = rig.run(&id).await.record.progress.attempt > 0;
            let lease = rig.store.lease(&name).await.unwrap();
            if is_begun {
                assert!(
                    lease.is_some_and(|lease| !lease.remaining.is_zero()),
                    "it can be taken from its worker"
                );
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::join!(worked, watched);
    assert_eq!(rig.settle(&id).await, State::Completed);
}

pub(crate) async fn an_operator_takes_the_run_from_a_lost_worker(database: Database) {
    let rig = Rig::new(database).await;
    let (id, late) = standing(&rig, Kind::FullDecommission, Stage::RemoveGpuaasNodeRecord).await;
    assert_eq!(rig.node(&id).await, Node::Removing);
    let live = rig.act(&id, Action::Resume).await.unwrap();
    assert_eq!(live.did, Did::Already(Already::InProgress));
    rig.expire().await;
    assert_eq!(rig.node(&id).await, Node::Removing, "an expired lease changes nothing");
    assert_eq!(rig.act(&id, Action::Resume).await.unwrap().did, Did::Requeued);
    assert_eq!(lost(&rig, &id, "requeued").await["class"], "crashed");
    assert_eq!(rig.act(&id, Action::Resume).await.unwrap().did, Did::Already(Already::Queued));
    let rows = rig.history(RUN, &id).await.len();
    rig.world.gate.0.add_permits(1);
    late.await.unwrap();
    assert_eq!(rig.history(RUN, &id).await.len(), rows, "whose run was taken has nothing to say");
    assert_eq!(rig.settle(&id).await, State::Completed);
}

pub(crate) async fn a_frozen_run_is_not_finished_by_its_worker(database: Database) {
    let rig = Rig::new(database).await;
    let (id, worker) = standing(&rig, Kind::Retire, Stage::RetireGpuaasNode).await;
    rig.act(&id, Action::MarkManualInterventionRequired).await.unwrap();
    let stopped = lost(&rig, &id, "action").await;
    assert!(stopped["evidence"].as_str().unwrap().contains("frozen"), "{stopped}");
    // Also when it is sent on before the worker noticed.
    rig.act(&id, Action::Resume).await.unwrap();
    let rows = rig.history(RUN, &id).await.len();
    rig.world.gate.0.add_permits(1);
    worker.await.unwrap();
    assert_eq!(rig.history(RUN, &id).await.len(), rows);
    assert_eq!(rig.node(&id).await, Node::Draining);
    assert_eq!(rig.settle(&id).await, State::Completed);
}

pub(crate) async fn a_goal_reaches_the_worker_that_has_the_run(database: Database) {
    let rig = Rig::new(database).await;
    let (id, worker) = standing(&rig, Kind::Onboarding, Stage::ConfigureStorage).await;
    assert_eq!(rig.act(&id, Action::Cancel).await.unwrap().did, Did::Headed(Goal::Cancel));
    assert_eq!(rig.act(&id, Action::Cancel).await.unwrap().did, Did::Already(Already::Undoing));
    rig.world.gate.0.add_permits(1);
    worker.await.unwrap();
    assert_eq!(rig.settle(&id).await, State::Cancelled);
    assert_eq!(rig.world.reversible(&id), []);
    assert!(
        !rig.world.effects(&id).contains_key(&Stage::ApplyRocePhase2),
        "it stopped at the next safe point"
    );
}

/// A worker that has put a run off and not yet let go of it does not make the run sleep on with its new goal.
pub(crate) async fn a_goal_does_not_wait_for_the_next_look(database: Database) {
    let rig = Rig::new(database).await;
    let id = rig.start(Kind::Onboarding).await;
    rig.world.plan(&id, Stage::CommissionNode, Doing::Perform, Fault::Wait, u32::MAX);
    rig.live().await;
    let waiting = rig.run(&id).await;
    assert!(waiting.record.hold.waiting.is_some(), "{waiting:?}");
    let later = now() + jiff::SignedDuration::from_hours(1);
    let lease = format!("{RUN}/{id}");
    let lease = rig.store.acquire_lease(&lease, "a holder that releases it", Duration::from_secs(60)).await;
    assert!(rig.store.put_off(&lease.unwrap().unwrap(), &waiting.resource, later).await.unwrap());
    assert_eq!(rig.act(&id, Action::Cancel).await.unwrap().did, Did::Headed(Goal::Cancel));
    rig.expire().await;
    assert_eq!(rig.settle(&id).await, State::Cancelled);
}

/// SQLite compares times to the millisecond: a run that is due now is found this much later at the latest.
const DUE: std::time::Duration = std::time::Duration::from_millis(2);

/// An operator that fixed the cause of a failure does not wait for the next attempt; a second request changes
/// nothing, and the budgets stay as they are.
pub(crate) async fn an_operator_does_not_wait_for_a_back_off(database: Database) {
    let rig = Rig::new(database).await;
    let hour = jiff::SignedDuration::from_hours(1);
    let settings = Settings { first_backoff: hour, longest_backoff: hour, ..rig.settings() };
    let patient = Engine::new(rig.store.clone(), rig.world.clone(), settings, now);
    for (action, stage) in [
        (Action::RetryStage, Stage::ConfigureStorage),
        (Action::Resume, Stage::ConfigureStorage),
        (Action::Rerun, Kind::Onboarding.first()),
    ] {
        let id = rig.start(Kind::Onboarding).await;
        rig.world.plan(&id, stage, Doing::Perform, Fault::Fail(Class::Retryable), 1);
        tokio::time::sleep(DUE).await;
        patient.tick().await.unwrap();
        let waits = rig.run(&id).await;
        assert_eq!(waits.record.progress.stage, stage);
        assert!(waits.resource.content.due_at.unwrap() > now(), "{waits:?}");
        let (first, second) = (rig.act(&id, action).await.unwrap(), rig.act(&id, action).await.unwrap());
        assert_eq!((first.did, second.did), (Did::Requeued, Did::Already(Already::Queued)), "{action}");
        assert!(first.run.content.due_at.unwrap() <= now());
        assert_eq!(first.run.version, second.run.version, "{action}: the second press changes nothing");
        let queued = rig.run(&id).await.record;
        assert_eq!(
            (queued.progress.failures, queued.progress.attempt),
            (waits.record.progress.failures, waits.record.progress.attempt)
        );
        let asked = rig.history(RUN, &id).await.pop().unwrap().entry;
        assert_eq!((asked.entry_type.as_str(), asked.user_id.as_deref()), ("action", Some("ann")));
        tokio::time::sleep(DUE).await;
        patient.tick().await.unwrap();
        assert_eq!(rig.settle(&id).await, State::Completed);
    }
}

/// Fifty runs at a site with four places, beside one that never gets better: all end, and the engine stops.
pub(crate) async fn no_run_starves(database: Database) {
    let rig = Rig::new(database).await;
    let poison = rig.start(Kind::Onboarding).await;
    rig.world.plan(&poison, Stage::LoadSiteConfig, Doing::Perform, Fault::Wait, u32::MAX);
    let mut ids = Vec::new();
    for _ in 0..50 {
        ids.push(rig.start(Kind::Retire).await);
    }
    let (stop, stopping) = watch::channel(false);
    let engines: Vec<_> =
        (0..2).map(|_| tokio::spawn(Arc::new(rig.engine()).run(stopping.clone()))).collect();
    for id in &ids {
        while rig.run(id).await.state.is_open() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(rig.run(id).await.state, State::Completed);
        rig.check(id).await;
    }
    stop.send(true).unwrap();
    for engine in engines {
        engine.await.unwrap();
    }
    assert_eq!(rig.run(&poison).await.state, State::Running);
}

/// How slow a site is, is known before many of its runs are under way: they would wait for each other's turns.
pub(crate) async fn a_site_is_met_before_its_runs_are_executed(database: Database) {
    let rig = Rig::new(database).await;
    let (mut world, settings) = (rig.world.clone(), rig.settings());
    world.pace = Some((settings.limits.clone(), Rate { per_second: 0.1, burst: 1 }));
    let engine = Engine::new(rig.store.clone(), world, settings, now);
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(rig.start(Kind::Retire).await);
    }
    engine.tick().await.unwrap();
    assert_eq!(rig.world.inside.1.load(Ordering::Relaxed), 1, "one at a time is all it bears");
    for id in &ids {
        assert_eq!(rig.settle(id).await, State::Completed);
    }
}

/// Two servers on one store keep to one limit together: what they call in all takes as long as it must.
#[expect(clippy::disallowed_methods, reason = "how long it takes is what is measured")]
pub(crate) async fn servers_share_a_limit(database: Database) {
    const RATE: Rate = Rate { per_second: 50.0, burst: 2 };
    let rig = Rig::new(database).await;
    let engines: Vec<_> = (0..2)
        .map(|_| {
            let (mut world, settings) = (rig.world.clone(), rig.settings());
            world.rate = Some(RATE);
            (settings.limits.clone(), Engine::new(rig.store.clone(), world, settings, now))
        })
        .collect();
    let limits: Vec<_> = engines.iter().map(|(limits, _)| limits.clone()).collect();
    let (stop, stopping) = watch::channel(false);
    let mut tasks: Vec<_> =
        engines.into_iter().map(|(_, engine)| tokio::spawn(Arc::new(engine).run(stopping.clone()))).collect();
    until(|| limits.iter().all(|limits| limits.servers() == 2)).await;
    let began = std::time::Instant::now();
    let mut ids = Vec::new();
    for _ in 0..40 {
        ids.push(rig.start(Kind::Retire).await);
    }
    for id in &ids {
        while rig.run(id).await.state.is_open() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let took = began.elapsed();
    let calls: u32 = ids.iter().flat_map(|id| rig.world.effects(id).into_values()).sum();
    let least = Duration::from_secs_f64(f64::from(calls - RATE.burst) / RATE.per_second);
    assert!(took >= least, "{calls} calls in {took:?}, not in {least:?} at least");
    // A server that ends without a word is counted for a while, and no longer.
    tasks.remove(0).abort();
    until(|| limits[1].servers() == 1).await;
    stop.send(true).unwrap();
    tasks.remove(0).await.unwrap();
}

async fn until(is_so: impl Fn() -> bool) {
    for _ in 0..2000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("waited in vain");
}

//! Who may write, and when.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;
use wardroom_core::run::{
    State,
    action::{Action, Already, Goal},
    plan::{Kind, Stage},
};
use wardroom_workflow::{Did, RUN};

use crate::{
    database::Database,
    rig::{Node, Rig},
    world::{Doing, Fault},
};

/// A worker stands in a stage; whoever waits for the task can let it go on.
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

pub(crate) async fn an_operator_takes_the_run_from_a_lost_worker(database: Database) {
    let rig = Rig::new(database).await;
    let (id, late) = standing(&rig, Kind::FullDecommission, Stage::RemoveGpuaasNodeRecord).await;
    assert_eq!(rig.node(&id).await, Node::Removing);
    let live = rig.act(&id, Action::Resume).await.unwrap();
    assert_eq!(live.did, Did::Already(Already::InProgress));
    rig.expire().await;
    assert_eq!(rig.node(&id).await, Node::Removing, "an expired lease changes nothing");
    assert_eq!(rig.act(&id, Action::Resume).await.unwrap().did, Did::Requeued);
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

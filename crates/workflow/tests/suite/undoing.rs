//! What a run did is undone, the last thing first, and only that.

use wardroom_core::run::{
    State,
    action::Action,
    failure::Class,
    plan::{Kind, Stage},
};
use wardroom_workflow::{Adoption, Did, RUN};

use crate::{
    database::Database,
    rig::{Node, Rig, course, end_of, every_stage},
    world::{Doing, Fault},
};

const FOREVER: u32 = u32::MAX;

/// Brings a run to wait at a stage.
async fn waiting_at(rig: &Rig, kind: Kind, stage: Stage) -> String {
    let id = rig.start(kind).await;
    rig.world.plan(&id, stage, Doing::Perform, Fault::Wait, FOREVER);
    for _ in 0..100 {
        rig.live().await;
        if rig.run(&id).await.record.hold.waiting.is_some() {
            return id;
        }
    }
    panic!("{kind} does not get to {stage}");
}

fn is_at_rest(node: Node) -> bool {
    !matches!(node, Node::Enrolling | Node::Draining | Node::Removing)
}

pub(crate) async fn a_cancel_undoes_what_was_done_at_any_stage(database: Database) {
    let rig = Rig::new(database).await;
    let faults = [None, Some(Fault::DieAfterwards), Some(Fault::DieAtOnce), Some(Fault::LoseReply)];
    let with = |(kind, stage)| faults.iter().map(move |&fault| (kind, stage, fault));
    for (kind, stage, fault) in rig.cases(every_stage().into_iter().flat_map(with).collect()) {
        let id = waiting_at(&rig, kind, stage).await;
        let done = rig.world.reversible(&id);
        if let Some((first, fault)) = done.last().zip(fault) {
            rig.world.plan(&id, *first, Doing::Undo, fault, 1);
        }
        rig.act(&id, Action::Cancel).await.unwrap();
        assert_eq!(rig.settle(&id).await, State::Cancelled, "{kind} at {stage}");
        assert_eq!(rig.world.reversible(&id), [], "{kind} at {stage}");
        let in_order: Vec<_> = course(kind).into_iter().filter(|stage| done.contains(stage)).rev().collect();
        assert_eq!(rig.world.undone(&id), in_order, "{kind} at {stage}");
        assert!(is_at_rest(rig.node(&id).await), "{kind} at {stage}: {}", rig.node(&id).await);
    }
}

pub(crate) async fn a_clean_restart_does_everything_once_more(database: Database) {
    let rig = Rig::new(database).await;
    for (kind, stage) in rig.cases(every_stage()) {
        let id = waiting_at(&rig, kind, stage).await;
        rig.act(&id, Action::RestartClean).await.unwrap();
        rig.world.heal(&id);
        assert_eq!(rig.settle(&id).await, State::Completed, "{kind} at {stage}");
        assert_eq!(rig.node(&id).await, end_of(kind));
        let undone = rig.world.undone(&id);
        for (effect, count) in rig.world.effects(&id) {
            let expected = if undone.contains(&effect) { 2 } else { 1 };
            assert_eq!(count, expected, "{kind} at {stage}: {effect}");
        }
        assert_eq!(rig.run(&id).await.record.data.given, "given");
    }
}

pub(crate) async fn an_undo_that_keeps_failing_needs_a_person(database: Database) {
    let rig = Rig::new(database).await;
    for (kind, undone) in rig.cases(every_stage()) {
        let last = *course(kind).last().unwrap();
        if undone == last || undone.undo().is_none() {
            continue;
        }
        let id = waiting_at(&rig, kind, last).await;
        rig.world.plan(&id, undone, Doing::Undo, Fault::Fail(Class::Retryable), FOREVER);
        rig.act(&id, Action::Cancel).await.unwrap();
        assert_eq!(rig.settle(&id).await, State::FailedManualIntervention, "{kind} {undone}");
        assert_eq!(rig.run(&id).await.record.progress.attempt, undone.budget(Class::Retryable) + 1);
        let refused = rig.act(&id, Action::Rerun).await;
        assert!(refused.is_err(), "what is half undone is not run again");
        rig.world.heal(&id);
        rig.act(&id, Action::RetryStage).await.unwrap();
        assert_eq!(rig.settle(&id).await, State::Cancelled, "{kind} {undone}");
        assert_eq!(rig.world.reversible(&id), []);
    }
}

pub(crate) async fn an_abandoned_run_undoes_nothing(database: Database) {
    let rig = Rig::new(database).await;
    let id = waiting_at(&rig, Kind::Onboarding, Stage::WaitForDeployed).await;
    let done = rig.world.reversible(&id);
    assert!(rig.ask(&id, Action::Cancel, Adoption::Nothing, true).await.is_err(), "freeze it first");
    rig.act(&id, Action::MarkManualInterventionRequired).await.unwrap();
    let answer = rig.ask(&id, Action::Cancel, Adoption::Nothing, true).await.unwrap();
    assert!(matches!(answer.did, Did::Moved(_)));
    assert_eq!(rig.settle(&id).await, State::Cancelled);
    assert_eq!(rig.world.reversible(&id), done);
    assert_eq!(rig.node(&id).await, Node::Quarantined, "a node that was given up is not used");
    let rows = rig.history(RUN, &id).await;
    let last = &rows.last().unwrap().entry;
    assert_eq!((last.user_id.as_deref(), last.comment.as_deref()), (Some("ann"), Some("because")));
}

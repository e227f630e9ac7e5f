//! A failure that stays stops the run in the documented state, and no other run.

use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};
use wardroom_core::{
    Named,
    run::{
        State, TABLE,
        action::Action,
        failure::Class,
        plan::{Kind, Stage},
    },
};
use wardroom_workflow::{Breaker, Engine, RUN, Settings};

use crate::{
    database::Database,
    rig::{Node, Rig, end_of, every_stage},
    world::{Doing, Fault, now},
};

const FOREVER: u32 = u32::MAX;

pub(crate) async fn a_class_that_keeps_failing_stops_the_run_where_it_should(database: Database) {
    let rig = Rig::new(database).await;
    let with = |(kind, stage)| Class::ALL.iter().map(move |&class| (kind, stage, class));
    for (kind, stage, class) in rig.cases(every_stage().into_iter().flat_map(with).collect()) {
        let id = rig.start(kind).await;
        rig.world.plan(&id, stage, Doing::Perform, Fault::Fail(class), FOREVER);
        let expected = TABLE.find(State::Running, stage.when_spent(class)).unwrap().to;
        assert_eq!(rig.settle(&id).await, expected, "{kind} {stage} {class}");
        let record = rig.run(&id).await.record;
        assert_eq!(record.progress.attempt, stage.budget(class) + 1, "{kind} {stage} {class}");
        assert_eq!(record.progress.failure.unwrap().class, class);
        assert!(!matches!(rig.node(&id).await, Node::Removing), "the identity is kept");
        rig.world.heal(&id);
        rig.act(&id, Action::RetryStage).await.unwrap();
        assert_eq!(rig.settle(&id).await, State::Completed, "{kind} {stage} {class}");
        assert_eq!(rig.node(&id).await, end_of(kind));
    }
}

pub(crate) async fn a_stage_that_panics_affects_no_other_run(database: Database) {
    let rig = Rig::new(database).await;
    let poison = rig.start(Kind::Onboarding).await;
    rig.world.plan(&poison, Stage::CommissionNode, Doing::Perform, Fault::Panic, FOREVER);
    let other = rig.start(Kind::Onboarding).await;
    assert_eq!(rig.settle(&other).await, State::Completed);
    assert_eq!(rig.settle(&poison).await, State::FailedManualIntervention);
    let failure = rig.run(&poison).await.record.progress.failure.unwrap();
    assert_eq!(failure.class, Class::Crashed);
    assert!(failure.evidence.contains("as scripted"), "{failure:?}");
    assert_eq!(rig.node(&poison).await, Node::Enrolling);
}

pub(crate) async fn a_server_that_dies_every_time_is_noticed(database: Database) {
    let rig = Rig::new(database).await;
    let id = rig.start(Kind::Retire).await;
    rig.world.plan(&id, Stage::DrainNode, Doing::Perform, Fault::DieAtOnce, FOREVER);
    assert_eq!(rig.settle(&id).await, State::FailedManualIntervention);
    assert_eq!(rig.run(&id).await.record.progress.failure.unwrap().class, Class::Crashed);
    assert_eq!(rig.node(&id).await, Node::Draining);
}

/// A datasource failure is repaired twice, then a person has to look.
pub(crate) async fn a_detour_is_bounded(database: Database) {
    let rig = Rig::new(database).await;
    for kind in [Kind::Onboarding, Kind::Reimage] {
        for rounds in 0..5 {
            let id = rig.start(kind).await;
            rig.world.plan(&id, Stage::WaitForDeployed, Doing::Perform, Fault::Break, rounds);
            let state = rig.settle(&id).await;
            let run = rig.run(&id).await;
            let rows = rig.history(RUN, &id).await;
            let repaired = rows.iter().filter(|row| {
                row.entry.metadata["stage"] == Stage::RecoverForDatasourceRetry.as_str()
                    && row.entry.metadata["outcome"] == "done"
            });
            let repaired = repaired.count();
            if rounds <= 2 {
                assert_eq!((state, repaired), (State::Completed, usize::try_from(rounds).unwrap()), "{kind}");
            } else {
                assert_eq!((state, repaired), (State::FailedManualIntervention, 2), "{kind}");
                assert_eq!(run.record.progress.failure.unwrap().class, Class::Datasource);
            }
        }
    }
    let id = rig.start(Kind::Retire).await;
    rig.world.plan(&id, Stage::DrainNode, Doing::Perform, Fault::Break, 1);
    assert_eq!(rig.settle(&id).await, State::FailedManualIntervention, "nothing repairs a drain");
}

pub(crate) async fn an_unsafe_node_is_quarantined(database: Database) {
    let rig = Rig::new(database).await;
    let cases = [
        (Kind::Onboarding, Stage::CreateOrFindInMaas, Node::Quarantined),
        (Kind::SoftReset, Stage::ValidateCleanNode, Node::Quarantined),
        (Kind::Reimage, Stage::LoadSiteConfig, Node::Quarantined),
        (Kind::Reimage, Stage::ReleaseMaasNode, Node::Retired),
        (Kind::FullDecommission, Stage::ReleaseMaasNode, Node::Retired),
    ];
    for (kind, stage, expected) in cases {
        let id = rig.start(kind).await;
        rig.world.plan(&id, stage, Doing::Perform, Fault::Unsafe, 1);
        assert_eq!(rig.settle(&id).await, State::FailedManualIntervention, "{kind} {stage}");
        assert_eq!(rig.node(&id).await, expected, "{kind} {stage}");
        rig.act(&id, Action::Resume).await.unwrap();
        assert_eq!(rig.settle(&id).await, State::Completed, "{kind} {stage}");
    }
}

pub(crate) async fn a_wait_is_bounded_and_leaves_no_trail(database: Database) {
    let rig = Rig::new(database).await;
    let id = rig.start(Kind::Bootstrap).await;
    rig.world.plan(&id, Stage::WaitForAgentEnrollment, Doing::Perform, Fault::Wait, FOREVER);
    let engine = || Engine::new(rig.store.clone(), rig.world.clone(), rig.settings(), now);
    for _ in 0..3 {
        engine().tick().await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(4)).await;
    }
    let before = rig.run(&id).await;
    assert_eq!(before.record.hold.waiting.as_ref().unwrap().reason, "as scripted");
    for _ in 0..5 {
        engine().tick().await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(4)).await;
    }
    let after = rig.run(&id).await;
    assert_eq!(after.resource.version, before.resource.version, "looking again is no history");
    assert!(after.resource.content.due_at > before.resource.content.due_at);

    // One that is looked at now and then.
    let (kind, stage) = (Kind::Onboarding, Stage::WaitForAgentEnrollment);
    let id = rig.start(kind).await;
    rig.world.plan(&id, stage, Doing::Perform, Fault::Wait, FOREVER);
    let patience = kind.patience_at(stage).as_mins();
    for minutes in (0..patience).step_by(5) {
        look(&rig, patience + 5 - minutes).await;
        assert_eq!(rig.run(&id).await.record.progress.failure, None, "after {minutes} minutes");
    }
    look(&rig, 0).await;
    let run = rig.run(&id).await;
    assert_eq!(run.state, TABLE.find(State::Running, stage.when_spent(Class::Overdue)).unwrap().to);
    assert_eq!(run.record.progress.failure.unwrap().class, Class::Overdue);
}

static BEHIND: AtomicI64 = AtomicI64::new(0);

/// Behind, so that what is due by it is due by the database's clock.
fn slow_clock() -> Timestamp {
    now() - SignedDuration::from_mins(BEHIND.load(Ordering::Relaxed))
}

/// One look at the runs there are, so many minutes behind.
async fn look(rig: &Rig, behind: i64) {
    BEHIND.store(behind, Ordering::Relaxed);
    let engine = Engine::new(rig.store.clone(), rig.world.clone(), rig.settings(), slow_clock);
    engine.tick().await.unwrap();
    // Until whatever comes next is due.
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
}

/// Also at stages where MAAS has the last word: that it is busy says nothing of the machine.
pub(crate) async fn a_busy_upstream_is_waited_for_long_and_not_for_ever(database: Database) {
    let rig = Rig::new(database).await;
    let cases = [
        (Kind::Onboarding, Stage::WaitForReady, 60),
        (Kind::Onboarding, Stage::LoadSiteConfig, 60),
        (Kind::Bootstrap, Stage::WaitForAgentEnrollment, 24 * 60),
        (Kind::Reimage, Stage::ReleaseMaasNode, 8 * 60),
    ];
    for (kind, stage, minutes) in cases {
        let id = rig.start(kind).await;
        let plan = |fault| rig.world.plan(&id, stage, Doing::Perform, fault, 1);
        plan(Fault::Busy(minutes - 1));
        look(&rig, minutes + 1).await;
        let run = rig.run(&id).await;
        assert!(run.record.hold.waiting.is_some_and(|waiting| waiting.busy), "{kind} {stage}");
        plan(Fault::Busy(0));
        look(&rig, 2).await;
        assert_eq!(rig.run(&id).await.state, State::Running, "{kind} {stage}");
        // No answer at all is no sign that it is any better.
        plan(Fault::Fail(Class::Unanswered));
        look(&rig, 2).await;
        let run = rig.run(&id).await;
        assert_eq!((run.state, run.record.progress.failures.len()), (State::Running, 1), "{kind} {stage}");
        plan(Fault::Busy(2));
        look(&rig, 2).await;
        assert_eq!(rig.run(&id).await.state, State::Running, "{kind} {stage}");
        plan(Fault::Busy(0));
        look(&rig, 0).await;
        let run = rig.run(&id).await;
        assert_eq!(run.state, State::FailedRetryable, "{kind} {stage}: {:?}", run.record);
        let failure = run.record.progress.failure.unwrap();
        assert_eq!(failure.class, Class::Unanswered);
        assert!(failure.evidence.contains(&format!("more than {minutes} minutes")), "{failure:?}");
        rig.act(&id, Action::RetryStage).await.unwrap();
        assert_eq!(rig.settle(&id).await, State::Completed, "{kind} {stage}");
    }
}

/// The time in which an upstream was busy does not count for a stage, and all other time does.
pub(crate) async fn a_busy_moment_starts_no_patience_anew(database: Database) {
    const BUSY: i64 = 5;
    let rig = Rig::new(database).await;
    let stage = Stage::WaitForReady;
    let id = rig.start(Kind::Onboarding).await;
    let patience = Kind::Onboarding.patience_at(stage).as_mins();
    let mut behind = 3 * patience;
    let mut see = async |fault, minutes| {
        behind -= minutes;
        rig.world.plan(&id, stage, Doing::Perform, fault, 1);
        look(&rig, behind).await;
        rig.run(&id).await
    };
    see(Fault::Wait, 0).await;
    for _ in 0..3 {
        see(Fault::Busy(0), patience / 4 + 1).await;
        let run = see(Fault::Wait, BUSY).await;
        assert_eq!(run.state, State::Running, "{:?}", run.record);
    }
    see(Fault::Busy(0), patience / 4 + 1).await;
    let run = see(Fault::Wait, BUSY).await;
    assert_eq!(run.state, State::FailedManualIntervention, "{:?}", run.record);
    assert_eq!(run.record.progress.failure.unwrap().class, Class::Overdue);
}

/// No server runs for longer than any patience: that time does not count for the waiting stage, and excuses
/// it once.
pub(crate) async fn an_outage_is_charged_to_no_stage(database: Database) {
    let rig = Rig::new(database).await;
    let stage = Stage::WaitForReady;
    let id = rig.start(Kind::Onboarding).await;
    let patience = Kind::Onboarding.patience_at(stage).as_mins();
    rig.world.plan(&id, stage, Doing::Perform, Fault::Wait, FOREVER);
    look(&rig, 600).await;
    for behind in [600 - 3 * patience, 600 - 6 * patience] {
        look(&rig, behind).await;
        let run = rig.run(&id).await;
        assert_eq!(run.state, State::Running, "{:?}", run.record);
        assert!(run.record.hold.waiting.is_some(), "{:?}", run.record);
    }
    // The run is looked at every few minutes.
    let restarted = 600 - 6 * patience;
    for minutes in (5..patience).step_by(5) {
        look(&rig, restarted - minutes).await;
        assert_eq!(rig.run(&id).await.state, State::Running, "after {minutes} minutes");
    }
    look(&rig, restarted - patience - 5).await;
    let run = rig.run(&id).await;
    assert_eq!(run.record.progress.failure.map(|failure| failure.class), Some(Class::Overdue));
}

/// Only time in which an upstream was asked and busy counts: not an outage of the servers, and not time
/// before another answer.
pub(crate) async fn an_upstream_that_was_not_asked_was_not_busy(database: Database) {
    let rig = Rig::new(database).await;
    let (kind, stage) = (Kind::Onboarding, Stage::WaitForReady);
    for between in [None, Some(Fault::Fail(Class::Unanswered))] {
        let id = rig.start(kind).await;
        let plan = |fault| rig.world.plan(&id, stage, Doing::Perform, fault, 1);
        plan(Fault::Busy(0));
        look(&rig, 600).await;
        if let Some(fault) = between {
            plan(fault);
            look(&rig, 600).await;
        }
        // No server runs for ten hours.
        for _ in 0..3 {
            plan(Fault::Busy(0));
            look(&rig, 0).await;
            let run = rig.run(&id).await;
            assert_eq!(run.state, State::Running, "{between:?}: {:?}", run.record);
            assert!(run.record.hold.busy_since.is_some());
        }
        plan(Fault::Fail(Class::Retryable));
        look(&rig, 0).await;
        assert_eq!(rig.run(&id).await.record.hold.busy_since, None, "it was answered");
        assert_eq!(rig.settle(&id).await, State::Completed);
    }
}

/// Nor while the run was due and found no place at its site, however often it came back to see; and that is kept, once.
pub(crate) async fn a_run_without_a_place_did_not_ask(database: Database) {
    let rig = Rig::new(database).await;
    let stage = Stage::WaitForReady;
    for between in [None, Some(Fault::Fail(Class::Unanswered))] {
        let id = rig.start(Kind::Onboarding).await;
        let plan = |fault| rig.world.plan(&id, stage, Doing::Perform, fault, 1);
        plan(Fault::Busy(0));
        look(&rig, 600).await;
        if let Some(fault) = between {
            plan(fault);
            look(&rig, 600).await;
        }
        let full = async |behind| {
            BEHIND.store(behind, Ordering::Relaxed);
            let settings = Settings { site_cap: 0, ..rig.settings() };
            Engine::new(rig.store.clone(), rig.world.clone(), settings, slow_clock).tick().await.unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            rig.run(&id).await.resource.version
        };
        let kept = full(599).await;
        for behind in (1..599).rev().step_by(50) {
            assert_eq!(full(behind).await, kept, "that it waits on is no history");
        }
        for fault in [Fault::Fail(Class::Unanswered), Fault::Busy(0), Fault::Busy(0)] {
            plan(fault);
            look(&rig, 0).await;
            let run = rig.run(&id).await;
            assert_eq!(run.state, State::Running, "{between:?}: {:?}", run.record);
            assert!(run.record.hold.busy_since.is_some() && run.record.hold.no_slot_since.is_none());
        }
        assert_eq!(rig.settle(&id).await, State::Completed);
    }
}

static READ: AtomicI64 = AtomicI64::new(0);

/// Two minutes pass at each look.
fn creeping_clock() -> Timestamp {
    now() - SignedDuration::from_hours(24 * 30)
        + SignedDuration::from_mins(2 * READ.fetch_add(1, Ordering::Relaxed))
}

/// A run that waits for each turn gets so few answers that their waits add up to nothing; that does not last
/// for ever either, and a few answers do not end it.
pub(crate) async fn an_upstream_that_is_asked_seldom_is_not_waited_for_for_ever(database: Database) {
    let rig = Rig::new(database).await;
    let id = rig.start(Kind::Onboarding).await;
    let stage = Stage::WaitForReady;
    rig.world.plan(&id, stage, Doing::Perform, Fault::Busy(0), FOREVER);
    let engine = Engine::new(rig.store.clone(), rig.world.clone(), rig.settings(), creeping_clock);
    let mut answers = 0;
    while rig.run(&id).await.state != State::FailedRetryable {
        assert!(answers < 200, "{:?}", rig.run(&id).await.record);
        answers += engine.tick().await.unwrap();
    }
    assert!(answers > 20, "given up after {answers} answers");
    assert_eq!(rig.run(&id).await.record.progress.failure.unwrap().class, Class::Unanswered);
}

/// A try counts from before it is made: a worker that crashes before it records the answer has used it up all
/// the same.
pub(crate) async fn a_password_is_tried_twice(database: Database) {
    let rig = Rig::new(database).await;
    let breaker = Breaker::new(rig.store.clone());
    let bmc = "bmc-1.example";
    let may_try = async |bmc: &str, secret: &str| breaker.try_once(bmc, secret, now()).await.unwrap();
    assert!(may_try(bmc, "one").await);
    breaker.not_judged(bmc, "one", now()).await.unwrap();
    breaker.not_judged(bmc, "another", now()).await.unwrap();
    assert!(may_try(bmc, "one").await);
    assert!(Breaker::new(rig.store.clone()).try_once(bmc, "one", now()).await.unwrap(), "after a restart");
    assert!(!may_try(bmc, "one").await, "whichever run asks");
    assert!(may_try("bmc-2.example", "one").await);
    breaker.forgive(bmc, now()).await.unwrap();
    assert!(may_try(bmc, "one").await && may_try(bmc, "one").await && !may_try(bmc, "one").await);
    assert!(may_try(bmc, "two").await, "another secret is another chance");
    breaker.forgive("never seen", now()).await.unwrap();
    breaker.not_judged("never seen", "one", now()).await.unwrap();
}

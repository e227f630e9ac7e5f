//! Whatever happens on the way, the run ends where it should and nothing is done twice.

use std::collections::{BTreeMap, BTreeSet};

use wardroom_core::{
    Named,
    run::{
        State,
        failure::Class,
        plan::{Kind, Stage},
    },
};
use wardroom_workflow::RUN;

use crate::{
    database::Database,
    rig::{Node, Rig, course, end_of, every_stage},
    world::{Doing, Fault},
};

async fn completes(rig: &Rig, id: &str, kind: Kind, told: &str) {
    assert_eq!(rig.settle(id).await, State::Completed, "{kind} {told}");
    assert_eq!(rig.node(id).await, end_of(kind), "{kind} {told}");
    let run = rig.run(id).await;
    let effects = rig.world.effects(id);
    assert_eq!(effects.keys().copied().collect::<BTreeSet<_>>(), course(kind).into_iter().collect());
    assert!(effects.values().all(|&count| count == 1), "{kind} {told}: {effects:?}");
    assert!(run.resource.content.keys.is_empty() && run.resource.content.due_at.is_none());
}

pub(crate) async fn every_plan_reaches_its_end(database: Database) {
    let rig = Rig::new(database).await;
    for &kind in Kind::ALL {
        let id = rig.start(kind).await;
        completes(&rig, &id, kind, "undisturbed").await;
        let data = rig.run(&id).await.record.data;
        // Enrolling is seen in one look and finished in the next.
        let mut done = data.done;
        done.dedup();
        assert_eq!(done, course(kind), "each stage saw what the one before it knew");
        assert_eq!(data.given, "given");
    }
}

pub(crate) async fn a_crash_before_or_after_any_effect_is_survived(database: Database) {
    let rig = Rig::new(database).await;
    let faults = [Fault::DieAtOnce, Fault::DieIntending, Fault::DieAfterwards];
    for (kind, stage, fault) in rig.cases(with_each(&faults)) {
        let id = rig.start(kind).await;
        rig.world.plan(&id, stage, Doing::Perform, fault, 1);
        completes(&rig, &id, kind, &format!("{fault:?} at {stage}")).await;
        let rows = rig.history(RUN, &id).await;
        let lost = rows.iter().find(|row| row.entry.metadata["outcome"] == "lost");
        let lost = &lost.expect("the attempt that got lost is on record").entry.metadata;
        assert!(lost["class"] == "crashed" && lost["evidence"].is_string(), "{kind} {stage}: {lost}");
    }
}

fn with_each(faults: &[Fault]) -> Vec<(Kind, Stage, Fault)> {
    let with = |(kind, stage)| faults.iter().map(move |&fault| (kind, stage, fault));
    every_stage().into_iter().flat_map(with).collect()
}

pub(crate) async fn a_lost_reply_repeats_nothing(database: Database) {
    let rig = Rig::new(database).await;
    for (kind, stage) in rig.cases(every_stage()) {
        let id = rig.start(kind).await;
        rig.world.plan(&id, stage, Doing::Perform, Fault::LoseReply, 1);
        completes(&rig, &id, kind, &format!("reply lost at {stage}")).await;
    }
}

pub(crate) async fn a_stage_that_fails_once_is_tried_again(database: Database) {
    let rig = Rig::new(database).await;
    let classes = [Class::Retryable, Class::Credentials, Class::Datasource, Class::Crashed];
    for (kind, stage, fault) in rig.cases(with_each(&classes.map(Fault::Fail))) {
        let id = rig.start(kind).await;
        rig.world.plan(&id, stage, Doing::Perform, fault, 1);
        completes(&rig, &id, kind, &format!("{fault:?} once at {stage}")).await;
    }
}

pub(crate) async fn skipped_stages_are_recorded(database: Database) {
    let rig = Rig::new(database).await;
    for (kind, stage) in [(Kind::Retire, Stage::DrainNode), (Kind::Remove, Stage::RemoveGpuaasNodeRecord)] {
        let reason = "the host is dead".to_owned();
        let id = rig
            .start_with(kind, crate::rig::start_of(kind), |order| {
                order.skip = BTreeMap::from([(stage, reason.clone())]);
            })
            .await;
        assert_eq!(rig.settle(&id).await, State::Completed);
        assert_eq!(rig.node(&id).await, end_of(kind));
        assert!(!rig.world.effects(&id).contains_key(&stage), "the agent was not asked");
        let rows = rig.history(RUN, &id).await;
        let skipped = rows.iter().find(|row| row.entry.metadata["outcome"] == "skipped").unwrap();
        assert_eq!(skipped.entry.metadata["stage"], stage.as_str());
        assert_eq!(skipped.entry.metadata["reason"], reason);
    }
}

/// Every attempt of every stage is in the history, with start, end, outcome, class and evidence.
pub(crate) async fn the_record_of_a_run_is_complete(database: Database) {
    let rig = Rig::new(database).await;
    let id = rig.start(Kind::Onboarding).await;
    let stage = Stage::ConfigureStorage;
    rig.world.plan(&id, stage, Doing::Perform, Fault::Fail(Class::Retryable), 2);
    assert_eq!(rig.settle(&id).await, State::Completed);
    let rows = rig.history(RUN, &id).await;
    let ended: Vec<_> = rows
        .iter()
        .map(|row| &row.entry.metadata)
        .filter(|metadata| metadata["ended_at"].is_string())
        .map(|told| {
            assert!(told["started_at"].as_str() <= told["ended_at"].as_str());
            let text = |name: &str| told[name].as_str().unwrap_or("").to_owned();
            (
                text("stage"),
                told["attempt"].as_u64().unwrap(),
                text("outcome"),
                text("class"),
                text("evidence"),
            )
        })
        .collect();
    let mut expected = Vec::new();
    for at in course(Kind::Onboarding) {
        let name = at.to_string();
        let last = if at == stage { 3 } else { 1 };
        for attempt in 1..last {
            let failed = ["failed", "retryable", "as scripted"].map(str::to_owned);
            let [outcome, class, evidence] = failed;
            expected.push((name.clone(), attempt, outcome, class, evidence));
        }
        expected.push((name, last, "done".to_owned(), String::new(), String::new()));
    }
    assert_eq!(ended, expected);
    assert_eq!(rig.node(&id).await, Node::Active);
}

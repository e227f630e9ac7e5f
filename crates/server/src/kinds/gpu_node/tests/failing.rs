//! Every stage of every plan fails in every class, one after the other, up to its budget and once more:
//! before it does anything, or after all of it is done and not recorded. The run stops where the tables say,
//! continues when it is sent on, and nothing is done twice.

use std::collections::BTreeMap;

use serde_json::json;
use wardroom_core::{
    Named as _,
    run::{
        State,
        action::Action,
        failure::Class,
        plan::{Kind, When},
    },
};
use wardroom_fakes::maas::Effects;

use super::{
    harness::{At, Trick, Tricky, borne, check, stages, start_all, until},
    life::{Life, ask, asked_once, end_of, newest, send_on, settled, site, stopped},
    rig::{Rig, tries_few},
};

/// The whole life of a node that a site manages.
const WHOLE: &[Kind] =
    &[Kind::Onboarding, Kind::SoftReset, Kind::StorageCleanup, Kind::Reimage, Kind::FullDecommission];
/// Another one, which leaves its machine alone in the end.
const SHORT: &[Kind] = &[Kind::Retire, Kind::Remove];

/// How many classes one node goes through: several live side by side.
const EACH: usize = 3;

/// A class for each way in which a run goes on.
const BEFORE: &[Class] = &[Class::Retryable, Class::Overdue, Class::Settings, Class::Manual];

struct Failing<'a> {
    rig: &'a Rig,
    tricky: &'a Tricky,
    classes: &'static [Class],
    at: At,
}

impl Failing<'_> {
    fn plan(&self, id: &str) {
        self.tricky.plan(id, Trick::Fail(self.classes, self.at), None);
    }

    /// Follows a plan to its end: it stops at every stage once for each class, when as much was borne as the stage bears.
    async fn follow(&self, id: &str, kind: Kind) {
        let Self { rig, tricky, classes, at } = *self;
        let id_of_run = newest(rig, id).await;
        let mut seen: BTreeMap<_, Vec<Class>> = BTreeMap::new();
        loop {
            let told = format!("{kind} {at:?}");
            let run = settled(rig, &id_of_run).await;
            if run.state == State::Completed {
                break;
            }
            let (stage, class, evidence) = stopped(&run, &told);
            assert_eq!(
                (stage, evidence.as_str()),
                (run.record.progress.stage, "as scripted"),
                "{told}: {class}"
            );
            assert_eq!(
                tricky.times(id, stage),
                borne(stage, until(classes, class)),
                "{told} {stage} {class}"
            );
            seen.entry(stage).or_default().push(class);
            // What is recommended for wrong settings is to enter the run again from the top, from where a detour that is done
            // is not come to again.
            let detour = kind.plan().iter().any(|step| step.stage == stage && step.when == When::OnFailure);
            if class == Class::Settings && detour == (at == At::Before) {
                send_on(rig, &id_of_run).await;
            } else {
                let manual = class == Class::Manual;
                ask(rig, &id_of_run, if manual { Action::Resume } else { Action::RetryStage }).await;
            }
        }
        let all = stages(kind, &[]).into_iter().map(|stage| (stage, classes.to_vec())).collect();
        assert_eq!(seen, all, "{kind} {at:?}");
        rig.until(id, end_of(kind)).await;
        check(rig, id).await;
        asked_once(rig, &id_of_run, &format!("{kind} {at:?}")).await;
    }

    async fn whole(&self, life: Life) {
        for kind in WHOLE {
            if *kind != Kind::Onboarding {
                self.plan(&life.id);
                start_all(self.rig, &life.id, *kind).await;
            }
            self.follow(&life.id, *kind).await;
        }
        life.was_whole(self.rig, &format!("{:?}", self.at));
    }

    async fn short(&self, life: Life) {
        self.rig.until(&life.id, "active").await;
        let of = |effects: &Effects| effects.get(&life.system_id).cloned();
        let before = of(&self.rig.maas.effects());
        for kind in SHORT {
            self.plan(&life.id);
            start_all(self.rig, &life.id, *kind).await;
            self.follow(&life.id, *kind).await;
        }
        assert_eq!(of(&self.rig.maas.effects()), before, "the machine is left alone");
    }

    async fn by_hand(&self, (id, token): (String, String)) {
        let enrolled = self.rig.as_agent("", "/api/v1/gpu-nodes/enroll", json!({"token": token})).await.ok();
        let beat = format!("/api/v1/gpu-nodes/{id}/heartbeat");
        self.rig.as_agent(enrolled["credential"].as_str().unwrap(), &beat, json!({"checks": []})).await.ok();
        self.follow(&id, Kind::Bootstrap).await;
    }
}

async fn fail_everywhere(classes: &'static [Class], at: At) {
    let mut rig = site().await;
    let tricky = Tricky::new(&rig);
    let mut whole = Vec::new();
    for (number, classes) in (1..).zip(classes.chunks(EACH)) {
        let life = Life::begin(&rig, number, |_, _| {}).await;
        tricky.plan(&life.id, Trick::Fail(classes, at), None);
        whole.push((classes, life));
    }
    let short = Life::begin(&rig, 100, |_, _| {}).await;
    let by_hand = rig.by_hand(101).await;
    tricky.plan(&by_hand.0, Trick::Fail(classes, at), None);
    rig.work_with(tricky.clone());
    rig.agents();
    let (rig, tricky) = (&rig, &tricky);
    let failing = |classes| Failing { rig, tricky, classes, at };
    let whole = whole.into_iter().map(|(classes, life)| async move { failing(classes).whole(life).await });
    let all = failing(classes);
    tokio::join!(futures_util::future::join_all(whole), all.short(short), all.by_hand(by_hand));
}

async fn a_stage_whose_work_is_not_written_down_stops_where_the_tables_say_and_repeats_nothing() {
    fail_everywhere(if tries_few() { BEFORE } else { Class::ALL }, At::After).await;
}

/// Decisions do not depend on the database: one is enough for stages that did nothing, with one class for
/// each course; scripted stages try all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stage_that_fails_stops_where_the_tables_say_and_goes_on() {
    fail_everywhere(BEFORE, At::Before).await;
}

long_on_both! {
    threads:
    a_stage_whose_work_is_not_written_down_stops_where_the_tables_say_and_repeats_nothing
}

//! What holds for every sequence of reports.

use jiff::{SignedDuration, Timestamp, ToSpan};
use proptest::{collection::vec, option, prelude::*, sample::select};
use wardroom_core::Invalid;
use wardroom_core::cluster::{
    self, AdapterStatus, Condition, Desired, Heard, RawCondition, RawReport, Report, ReportedCondition,
    Status, Verdict, classify, fold, overlay, upsert, validate,
};

const ADAPTERS: [&str; 3] = ["dns", "pull-secret", "validation"];

fn second(second: i64) -> Timestamp {
    Timestamp::constant(1_760_702_400, 0) + second.seconds()
}

/// A cluster with what the adapters said of it, as the server keeps it.
#[derive(Debug, Clone, PartialEq, Default)]
struct Stored {
    statuses: Vec<AdapterStatus>,
    conditions: Vec<Condition>,
}

impl Stored {
    /// What the server does with one report.
    fn arrive(&mut self, desired: &Desired<'_>, report: Report) {
        let index = self.statuses.iter().position(|status| status.adapter == report.adapter);
        let stored = index.map(|index| &self.statuses[index]);
        let Verdict::Store { folds } = classify(desired.generation, stored, &report) else { return };
        let status = upsert(stored, report);
        match index {
            Some(index) => self.statuses[index] = status,
            None => self.statuses.push(status),
        }
        if folds {
            self.conditions = fold(desired, &self.statuses, &self.conditions);
        }
    }

    fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// The generation at which every adapter is available, if there is one.
    fn agreement(&self) -> Option<i64> {
        let generation = self.statuses.first()?.observed_generation;
        let agrees = |status: &AdapterStatus| {
            let available = status.condition(cluster::AVAILABLE).map(|condition| condition.status);
            status.observed_generation == generation && available == Some(Status::True)
        };
        let agreed = self.statuses.len() == ADAPTERS.len() && self.statuses.iter().all(agrees);
        agreed.then_some(generation)
    }
}

/// What happens to a cluster.
#[derive(Debug, Clone)]
enum Step {
    Arrives(Report),
    Changes,
    Deleted,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => report(1..=3, mostly_true()).prop_map(Step::Arrives),
        2 => Just(Step::Changes),
        1 => Just(Step::Deleted),
    ];
    vec(step, 0..40)
}

fn report(
    generations: std::ops::RangeInclusive<i64>,
    available: impl Strategy<Value = Status>,
) -> impl Strategy<Value = Report> {
    let others = (any_status(), any_status(), option::of(any_status()), option::of(any_status()));
    (select(&ADAPTERS[..]), generations, 0..600i64, available, others).prop_map(
        |(adapter, observed_generation, at, available, (applied, health, finalized, custom))| {
            let known = [
                ("Available", Some(available)),
                ("Applied", Some(applied)),
                ("Health", Some(health)),
                ("Finalized", finalized),
                ("Custom", custom),
            ];
            let condition = |(type_, status): (&str, Option<Status>)| {
                Some(ReportedCondition { type_: type_.into(), status: status?, reason: None, message: None })
            };
            let conditions = known.into_iter().filter_map(condition).collect();
            Report { adapter: adapter.into(), observed_generation, observed_time: second(at), conditions }
        },
    )
}

fn any_status() -> impl Strategy<Value = Status> {
    select(vec![Status::True, Status::False, Status::Unknown])
}

/// Adapters that agree now and then.
fn mostly_true() -> impl Strategy<Value = Status> {
    prop_oneof![5 => Just(Status::True), 1 => any_status()]
}

fn definite() -> impl Strategy<Value = Status> {
    select(vec![Status::True, Status::False])
}

/// Lets steps happen to a new cluster and shows it after each, together with what it was before.
fn live(steps: Vec<Step>, mut see: impl FnMut(&Desired<'_>, &Stored, &Stored)) {
    let required = ADAPTERS.map(String::from);
    let mut desired = Desired {
        generation: 1,
        updated_time: second(0),
        required_adapters: &required,
        deleted: false,
        active_children: false,
    };
    let mut stored = Stored::default();
    for step in steps {
        let before = stored.clone();
        match step {
            Step::Arrives(report) => stored.arrive(&desired, report),
            Step::Changes | Step::Deleted => {
                let deleted = desired.deleted || matches!(step, Step::Deleted);
                desired = Desired {
                    generation: desired.generation + 1,
                    updated_time: second(100 * desired.generation),
                    deleted,
                    ..desired
                };
                stored.conditions = fold(&desired, &stored.statuses, &stored.conditions);
            }
        }
        see(&desired, &before, &stored);
    }
}

fn outcome(steps: Vec<Step>) -> Stored {
    let mut last = Stored::default();
    live(steps, |_, _, stored| last = stored.clone());
    last
}

fn raw_text() -> impl Strategy<Value = Option<String>> {
    let text = prop_oneof![
        select(vec![
            "Available",
            "Applied",
            "Health",
            "True",
            "False",
            "Unknown",
            "",
            "2025-10-17T12:00:00Z"
        ])
        .prop_map(String::from),
        any::<String>(),
    ];
    option::of(text)
}

prop_compose! {
    fn raw_condition()(type_ in raw_text(), status in raw_text(), reason in raw_text(), message in raw_text())
        -> RawCondition {
        RawCondition { type_, status, reason, message }
    }
}

prop_compose! {
    fn raw_report()(
        adapter in raw_text(),
        observed_generation in option::of(any::<i64>()),
        observed_time in raw_text(),
        conditions in option::of(vec(raw_condition(), 0..8)),
    ) -> RawReport {
        RawReport { adapter, observed_generation, observed_time, conditions }
    }
}

proptest! {
    /// Any input has an answer, and a refusal has a reason.
    #[test]
    fn validation_is_total(raw in raw_report(), now in -10_000..10_000i64) {
        let answer = validate(raw.clone(), second(now));
        prop_assert_eq!(&answer, &validate(raw, second(now)));
        if let Err(problems) = answer {
            prop_assert!(!problems.is_empty());
            let told = |problem: &Invalid| !problem.field.is_empty() && problem.message.len() < 300;
            prop_assert!(problems.iter().all(told), "{:?}", problems);
        }
    }

    /// What the server sends on is what it would take in.
    #[test]
    fn a_report_survives_its_own_wire_format(report in report(1..=4, any_status())) {
        let raw: RawReport = serde_json::from_value(serde_json::to_value(&report).unwrap()).unwrap();
        prop_assert_eq!(validate(raw, report.observed_time), Ok(report));
    }

    /// A report that arrives twice leaves what it leaves when it arrives once.
    #[test]
    fn a_replay_changes_nothing(steps in steps()) {
        let repeated = steps.iter().flat_map(|step| match step {
            Step::Arrives(_) => vec![step.clone(); 2],
            Step::Changes | Step::Deleted => vec![step.clone()],
        });
        prop_assert_eq!(outcome(repeated.collect()), outcome(steps));
    }

    /// Folding again what was folded changes nothing, so that the write can be skipped.
    #[test]
    fn a_fold_is_stable(steps in steps()) {
        live(steps, |desired, _, stored| {
            let folded = fold(desired, &stored.statuses, &stored.conditions);
            assert_eq!(folded, fold(desired, &stored.statuses, &stored.conditions));
            assert_eq!(folded, fold(desired, &stored.statuses, &folded));
        });
    }

    /// Within a generation the last observation decides, in whatever order reports arrive.
    ///
    /// Apart from two times: since when a status holds depends on the changes that were seen, and an overtaken
    /// report is never seen; the first to arrive, not the first to be observed, creates the row.
    #[test]
    fn arrival_order_does_not_matter(
        (sent, arrived) in vec(report(1..=1, definite()), 1..12).prop_flat_map(|mut reports| {
            for (report, at) in reports.iter_mut().zip(0..) { report.observed_time = second(at) }
            (Just(reports.clone()), Just(reports).prop_shuffle())
        }),
    ) {
        let said = |reports: Vec<Report>| {
            let mut last = outcome(reports.into_iter().map(Step::Arrives).collect());
            last.statuses.sort_by(|a, b| a.adapter.cmp(&b.adapter));
            for status in &mut last.statuses {
                status.created_time = second(0);
                for condition in &mut status.conditions { condition.last_transition_time = second(0) }
            }
            last.statuses
        };
        prop_assert_eq!(said(sent), said(arrived));
    }

    /// Since when a status holds moves when the status moves, and only then; what was created stays created.
    #[test]
    fn times_move_with_their_status(steps in steps()) {
        live(steps, |_, before, after| {
            for old in &before.statuses {
                let new = after.statuses.iter().find(|new| new.adapter == old.adapter).unwrap();
                assert_eq!(old.created_time, new.created_time);
                for old_condition in &old.conditions {
                    let Some(new_condition) = new.condition(&old_condition.type_) else { continue };
                    if old_condition.status == new_condition.status {
                        assert_eq!(old_condition.last_transition_time, new_condition.last_transition_time);
                    } else {
                        assert_eq!(new_condition.last_transition_time, new.last_report_time);
                    }
                }
            }
            for old in &before.conditions {
                let Some(new) = after.condition(&old.type_) else { continue };
                assert_eq!(old.created_time, new.created_time);
                if old.status == new.status {
                    assert_eq!(old.last_transition_time, new.last_transition_time);
                }
            }
        });
    }

    /// `Reconciled` speaks of the current generation, `LastKnownReconciled`, when true, of one at which all
    /// adapters were seen to agree; while a living cluster is reconciled both say the same.
    #[test]
    fn generations_are_consistent(steps in steps()) {
        let mut good = None;
        live(steps, |desired, _, stored| {
            let Some(reconciled) = stored.condition(cluster::RECONCILED) else { return };
            let last_known = stored.condition(cluster::LAST_KNOWN_RECONCILED).unwrap();
            assert_eq!(reconciled.observed_generation, desired.generation);
            assert!((1..=desired.generation).contains(&last_known.observed_generation));
            if reconciled.status == Status::True && !desired.deleted {
                assert_eq!(last_known.status, Status::True);
                assert_eq!(last_known.observed_generation, desired.generation);
            }
            good = stored.agreement().or(good);
            if last_known.status == Status::True {
                assert_eq!(good, Some(last_known.observed_generation));
            }
        });
    }

    /// Silence touches nothing but `Reconciled`, never makes anything look better, and ends with a report.
    #[test]
    fn silence_only_doubts(steps in steps(), patience in 0..600i64, now in 0..1200i64) {
        live(steps, |desired, _, stored| {
            let heard: Vec<_> = stored.statuses.iter().map(|status| Heard {
                adapter: &status.adapter,
                status: Some(status),
                received_at: Some(status.last_report_time),
                patience: SignedDuration::from_secs(patience),
                excused: SignedDuration::ZERO,
            }).collect();
            let mut shown = stored.conditions.clone();
            overlay(desired, &heard, second(now), &mut shown);
            for (kept, shown) in stored.conditions.iter().zip(&shown) {
                if kept.type_ != cluster::RECONCILED { assert_eq!(kept, shown) }
                if shown.status != kept.status {
                    assert_eq!((kept.status, shown.status), (Status::True, Status::Unknown));
                    assert!(shown.last_transition_time < second(now));
                }
            }
            // Every adapter reports.
            let mut fresh = stored.conditions.clone();
            let received_at = second(now);
            let spoken: Vec<_> = heard.iter().map(|heard| Heard { received_at: Some(received_at), ..*heard }).collect();
            overlay(desired, &spoken, second(now), &mut fresh);
            assert_eq!(fresh, stored.conditions);
        });
    }
}

//! What holds for every device, whatever it reports and whenever it is asked about.

use jiff::{SignedDuration, Timestamp};
use proptest::{option::of, prelude::*, sample::select};
use wardroom_core::{
    Named,
    device::{
        self, Facts, Fleet, Report,
        applications::{self, Application},
        condition::{Condition, Conditions, Status},
        lifecycle,
        resource::{Health, Resources},
        summary, updated,
    },
};

/// What a store would hold, owned.
#[derive(Debug, Clone)]
struct Device {
    last_seen: Option<Timestamp>,
    timeout: SignedDuration,
    report: Option<Reported>,
    texts: [Option<String>; 4],
    fleet: Option<Option<String>>,
    enrolled: bool,
    decommission_requested: bool,
}

#[derive(Debug, Clone)]
struct Reported {
    resources: [Option<Health>; 3],
    conditions: [Option<(Status, String, String)>; 3],
    rendered_version: Option<String>,
    applications: Vec<(String, String)>,
}

impl Device {
    /// Hands the facts to a function: they borrow a list that lives no longer.
    fn with<T>(&self, reached: lifecycle::Status, ask: impl FnOnce(&Facts<'_>) -> T) -> T {
        let listed = self.report.iter().flat_map(|report| &report.applications);
        let applications: Vec<_> =
            listed.map(|(name, state)| Application { name, state: state.as_str().into() }).collect();
        let [rendered_version, template_version, last_rollout_error, owner] =
            self.texts.each_ref().map(|text| text.as_deref());
        ask(&Facts {
            last_seen: self.last_seen,
            excused: SignedDuration::ZERO,
            timeout: self.timeout,
            report: self.report.as_ref().map(|report| report.borrowed(&applications)),
            rendered_version,
            template_version,
            last_rollout_error,
            owner,
            fleet: self.fleet.as_ref().map(|version| Fleet { template_version: version.as_deref() }),
            enrolled: self.enrolled,
            decommission_requested: self.decommission_requested,
            reached,
        })
    }
}

impl Reported {
    fn borrowed<'a>(&'a self, applications: &'a [Application<'a>]) -> Report<'a> {
        let [cpu, memory, disk] = self.resources;
        let [updating, rebooting, decommissioning] = self.conditions.each_ref().map(|condition| {
            let (status, reason, message) = condition.as_ref()?;
            Some(Condition { status: *status, reason, message })
        });
        Report {
            resources: Resources { cpu, memory, disk },
            conditions: Conditions { updating, rebooting, decommissioning },
            rendered_version: self.rendered_version.as_deref(),
            applications,
        }
    }
}

/// Mostly the words that mean something, sometimes any text at all.
fn words(known: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop_oneof![4 => select(known).prop_map(str::to_owned), 1 => any::<String>()]
}

fn times() -> impl Strategy<Value = Timestamp> {
    let all = Timestamp::MIN.as_second()..=Timestamp::MAX.as_second();
    let second = prop_oneof![
        4 => 1_767_226_000_i64..1_767_227_000,
        1 => all,
        1 => select(vec![Timestamp::MIN.as_second(), Timestamp::MAX.as_second()]),
    ];
    second.prop_map(|second| Timestamp::from_second(second).expect("inside the range"))
}

fn reports() -> impl Strategy<Value = Reported> {
    let reasons = words(&[
        "",
        "Preparing",
        "Rebooting",
        "Error",
        "Started",
        "Completed",
        "DecommissionStateComplete",
        "DecommissionStateError",
    ]);
    let condition = (select(Status::ALL), reasons, words(&["", "boom."]));
    let states = words(&["Preparing", "Starting", "Running", "Error", "Completed", "Stopped"]);
    (
        proptest::array::uniform3(of(select(Health::ALL))),
        proptest::array::uniform3(of(condition)),
        of(words(&["", "1", "2"])),
        proptest::collection::vec((any::<String>(), states), 0..8),
    )
        .prop_map(|(resources, conditions, rendered_version, applications)| Reported {
            resources,
            conditions,
            rendered_version,
            applications,
        })
}

fn devices() -> impl Strategy<Value = Device> {
    (
        of(times()),
        prop_oneof![Just(300_i64), any::<i64>()].prop_map(SignedDuration::from_secs),
        of(reports()),
        proptest::array::uniform4(of(words(&["", "1", "2"]))),
        of(of(words(&["", "1", "2"]))),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(last_seen, timeout, report, texts, fleet, enrolled, decommission_requested)| {
            Device { last_seen, timeout, report, texts, fleet, enrolled, decommission_requested }
        })
}

proptest! {
    /// Total and deterministic, and every answer is a sentence of bounded length.
    #[test]
    fn every_device_has_one_answer(device in devices(), now in times(), reached in select(lifecycle::Status::ALL)) {
        let first = device.with(reached, |facts| device::derive(facts, now));
        let again = device.clone().with(reached, |facts| device::derive(facts, now));
        prop_assert_eq!(&first, &again);

        let infos = [
            &first.summary.info,
            &first.updated.info,
            &first.application_summary.info,
            &first.lifecycle.info,
        ];
        for info in infos {
            prop_assert!(info.ends_with('.') && info.trim() == info.as_ref(), "{:?}", info);
            prop_assert!(info.chars().count() < 3_500, "{} characters", info.chars().count());
        }
    }

    /// A lifecycle never goes back, whatever facts follow each other.
    #[test]
    fn a_lifecycle_never_goes_back(history in proptest::collection::vec(devices(), 1..12)) {
        let mut reached = lifecycle::Status::Unknown;
        for device in history {
            let next = device.with(reached, lifecycle::derive).status;
            let fresh = device.with(lifecycle::Status::Unknown, lifecycle::derive).status;
            prop_assert_eq!(next, fresh.max(reached));
            reached = next;
        }
    }

    /// Silence makes a device offline whatever it reported, and one beat brings back what it was before.
    #[test]
    fn a_reconnect_puts_every_status_right_at_once(device in devices(), seen in times()) {
        let timeout = SignedDuration::from_mins(5);
        let heard = Device { last_seen: Some(seen), timeout, ..device };
        let late = seen.saturating_add(SignedDuration::from_secs(301)).expect("no calendar units");
        prop_assume!(timeout < late.duration_since(seen));
        let reached = lifecycle::Status::Unknown;

        let before = heard.with(reached, |facts| device::derive(facts, seen));
        let lost = heard.with(reached, |facts| device::derive(facts, late));
        prop_assert_eq!(lost.summary.status, summary::Status::Offline);
        prop_assert_eq!(lost.application_summary.status, applications::Status::Unknown);
        let kept = match before.updated.status {
            updated::Status::Updating | updated::Status::Unknown => updated::Status::Unknown,
            updated::Status::UpToDate => updated::Status::UpToDate,
            updated::Status::OutOfDate => updated::Status::OutOfDate,
        };
        prop_assert_eq!(lost.updated.status, kept);
        prop_assert_eq!(&lost.lifecycle, &before.lifecycle);

        let back = Device { last_seen: Some(late), ..heard };
        prop_assert_eq!(back.with(reached, |facts| device::derive(facts, late)), before);
    }
}

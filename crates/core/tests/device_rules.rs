//! The rules of a device's statuses: cases, with what each info says.

use jiff::{SignedDuration, Timestamp};
use wardroom_core::{
    Named,
    device::{
        Derived, Facts, Fleet, Report,
        applications::{self, Application},
        condition::{Condition, Conditions, Status, Type},
        disconnection_timeout, lifecycle,
        resource::{Health, Resources},
        summary, updated,
    },
};

/// 2026-01-01T00:10:00Z.
const NOW: Timestamp = Timestamp::constant(1_767_226_200, 0);
const HEALTHY: Resources =
    Resources { cpu: Some(Health::Healthy), memory: Some(Health::Healthy), disk: Some(Health::Healthy) };

fn ago(seconds: i64) -> Option<Timestamp> {
    Some(NOW - SignedDuration::from_secs(seconds))
}

fn condition(status: Status, reason: &'static str, message: &'static str) -> Option<Condition<'static>> {
    Some(Condition { status, reason, message })
}

/// Heard a minute ago, with this report.
fn heard(report: Report<'_>) -> Facts<'_> {
    Facts { last_seen: ago(60), report: Some(report), ..Facts::default() }
}

fn updating(status: Status, reason: &'static str, message: &'static str) -> Report<'static> {
    let conditions = Conditions { updating: condition(status, reason, message), ..Conditions::default() };
    Report { resources: HEALTHY, conditions, ..Report::default() }
}

#[track_caller]
fn check<S: Named + std::fmt::Debug>(derived: Derived<S>, status: S, info: &str) {
    assert_eq!((derived.status, derived.info.as_ref()), (status, info));
}

#[test]
fn summary_says_what_is_wrong_and_what_ends_it() {
    use summary::{Status::*, derive};
    let resources =
        |cpu, memory, disk| heard(Report { resources: Resources { cpu, memory, disk }, ..Report::default() });
    let rebooting = Conditions { rebooting: condition(Status::True, "", ""), ..Conditions::default() };
    let (healthy, unknown) = (Some(Health::Healthy), Some(Health::Unknown));
    let (degraded, error, critical) = (Some(Health::Degraded), Some(Health::Error), Some(Health::Critical));

    for (facts, status, info) in [
        (Facts::default(), Offline, "Never heard; its agent has to connect for the first time."),
        (
            Facts { last_seen: ago(301), ..heard(updating(Status::True, "Rebooting", "")) },
            Offline,
            "Last heard at 2026-01-01T00:04:59Z, and 5m of silence are allowed; its agent has to call.",
        ),
        (
            heard(Report { conditions: rebooting, ..Report::default() }),
            Rebooting,
            "Reboots; its agent has to report that it is back.",
        ),
        (
            heard(updating(Status::True, "Rebooting", "")),
            Rebooting,
            "Reboots into an update; its agent has to report the next state of that update.",
        ),
        (heard(updating(Status::True, "ApplyingUpdate", "")), Online, "CPU, memory and disk are healthy."),
        (heard(updating(Status::False, "Rebooting", "")), Online, "CPU, memory and disk are healthy."),
        (
            resources(critical, degraded, error),
            Error,
            "CPU is Critical, memory is Degraded, disk is Error; Online again when reported Healthy.",
        ),
        (
            resources(unknown, degraded, None),
            Degraded,
            "memory is Degraded; Online again when reported Healthy. The health of CPU, disk is not known.",
        ),
        (resources(healthy, healthy, healthy), Online, "CPU, memory and disk are healthy."),
        (
            resources(healthy, unknown, None),
            Online,
            "Nothing is reported unhealthy, but the health of memory, disk is not known.",
        ),
        (
            Facts { last_seen: ago(0), ..Facts::default() },
            Online,
            "Nothing is reported unhealthy, but the health of CPU, memory, disk is not known.",
        ),
    ] {
        check(derive(&facts, NOW), status, info);
    }
}

/// Runs one version of the spec while version 5 is rendered for it.
fn runs(version: Option<&'static str>, report: Report<'static>) -> Facts<'static> {
    let report = Report { rendered_version: version, ..report };
    Facts { rendered_version: Some("5"), ..heard(report) }
}

/// Runs its spec and belongs to the fleet `edge`.
fn in_fleet(at: Option<&'static str>, wanted: Option<&'static str>) -> Facts<'static> {
    let fleet = Some(Fleet { template_version: wanted });
    Facts { owner: Some("edge"), template_version: at, fleet, ..runs(Some("5"), Report::default()) }
}

#[test]
fn updated_says_how_far_an_update_is() {
    use updated::{Status::*, derive};
    let idle = Report::default();

    for (facts, status, info) in [
        (Facts::default(), Unknown, "Its agent never reported; what it runs is known when it does."),
        (
            Facts { last_seen: ago(1), ..Facts::default() },
            Unknown,
            "Its agent never reported; what it runs is known when it does.",
        ),
        (
            Facts { last_seen: ago(301), ..heard(updating(Status::True, "ApplyingUpdate", "half way")) },
            Unknown,
            "Lost during an update, last heard at 2026-01-01T00:04:59Z in ApplyingUpdate; \
             how it ended is known when the device is heard again.",
        ),
        (heard(updating(Status::True, "Preparing", "40 of 90 MB")), Updating, "Preparing: 40 of 90 MB."),
        (heard(updating(Status::True, "", "busy")), Updating, "busy."),
        (
            heard(updating(Status::True, "RollingBack", "")),
            Updating,
            "The update failed and the agent restores what ran before it.",
        ),
        (
            heard(updating(Status::True, "Retrying", "")),
            Updating,
            "Its agent works on an update and says no more.",
        ),
        (runs(Some("5"), idle), UpToDate, "Runs the spec rendered for it."),
        (heard(idle), UpToDate, "Runs the spec rendered for it."),
        (Facts { owner: Some(""), ..runs(Some("5"), idle) }, UpToDate, "Runs the spec rendered for it."),
        (
            Facts { last_seen: ago(301), ..runs(Some("5"), idle) },
            UpToDate,
            "Ran what it should when it was last heard.",
        ),
        (
            in_fleet(Some("v2"), Some("v2")),
            UpToDate,
            "Runs the spec rendered for it from the current template of its fleet.",
        ),
    ] {
        check(derive(&facts, NOW), status, info);
    }
}

#[test]
fn out_of_date_names_the_difference_and_the_one_that_acts() {
    let idle = Report::default();
    let failed = |message| updating(Status::False, "Error", message);

    for (facts, info) in [
        (runs(Some("4"), idle), "Runs version 4, should run 5: its agent has to apply it."),
        (runs(None, idle), "Reports no version, should run 5: its agent has to apply it."),
        (runs(Some(""), idle), "Reports no version, should run 5: its agent has to apply it."),
        (
            Facts { rendered_version: None, ..runs(Some("4"), idle) },
            "Runs version 4, but none is rendered for it: the server has to.",
        ),
        (
            Facts { last_seen: ago(301), ..runs(Some("4"), idle) },
            "Runs version 4, should run 5: its agent has to apply it. \
             Offline: nothing changes before it is heard again.",
        ),
        (
            runs(Some("4"), failed("disk full.")),
            "Its agent gave up the last update: disk full. It does not repeat it: a new version is needed. \
             Runs version 4, should run 5: its agent has to apply it.",
        ),
        (
            Facts { last_rollout_error: Some("no label site"), ..in_fleet(Some("v1"), Some("v2")) },
            "The rollout to it failed: no label site. \
             Is at template version v1, edge is at v2: the rollout has to reach it.",
        ),
        (
            in_fleet(None, Some("v2")),
            "Is at no template version, edge is at v2: the rollout has to reach it.",
        ),
        (
            in_fleet(Some(""), Some("")),
            "Its fleet edge has no template version yet: the server has to make one.",
        ),
        (
            Facts { fleet: None, ..in_fleet(Some("v2"), None) },
            "Its fleet edge does not exist: create it, or change the owner.",
        ),
        (
            runs(Some("4"), failed("")),
            "Its agent gave up the last update: no message. It does not repeat it: a new version is needed. \
             Runs version 4, should run 5: its agent has to apply it.",
        ),
    ] {
        check(updated::derive(&facts, NOW), updated::Status::OutOfDate, info);
    }
}

#[test]
fn applications_name_the_ones_that_are_not_in_service() {
    use applications::{Status::*, derive};
    let long = "x".repeat(300);
    let cut = format!(
        "a is in the unfamiliar state \"{}…\"; Healthy again when reported Running or Completed.",
        "x".repeat(250)
    );

    for (states, status, info) in [
        (&[][..], Healthy, "It has no applications."),
        (&["Running", "Completed"], Healthy, "Every application runs or has completed."),
        (
            &["Running", "Starting"],
            Degraded,
            "b is Starting; Healthy again when reported Running or Completed.",
        ),
        (
            &["Preparing", "Error"],
            Error,
            "b is Error, a is Preparing; Healthy again when reported Running or Completed.",
        ),
        (
            &["Stopped"],
            Degraded,
            "a is in the unfamiliar state \"Stopped\"; Healthy again when reported Running or Completed.",
        ),
        (
            &[" "],
            Degraded,
            "a is in the unfamiliar state \"(blank)\"; Healthy again when reported Running or Completed.",
        ),
        (&[long.as_str()], Degraded, cut.as_str()),
        (
            &["Error"; 7],
            Error,
            "a is Error, b is Error, c is Error, d is Error, e is Error and 2 more; \
             Healthy again when reported Running or Completed.",
        ),
    ] {
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let listed: Vec<_> = names
            .iter()
            .zip(states)
            .map(|(name, &state)| Application { name, state: state.into() })
            .collect();
        let facts = heard(Report { applications: &listed, ..Report::default() });
        check(derive(&facts, NOW), status, info);

        let lost = Facts { last_seen: ago(301), ..facts };
        check(derive(&lost, NOW), Unknown, "Offline; its applications are known when it is heard again.");
    }

    let silent = Facts { last_seen: ago(1), ..Facts::default() };
    check(
        derive(&silent, NOW),
        Unknown,
        "Its agent never reported; its applications are known when it does.",
    );
}

#[test]
fn lifecycle_says_what_follows() {
    use lifecycle::{Status::*, derive};
    let agent = |status, reason, message| {
        let decommissioning = condition(status, reason, message);
        Report { conditions: Conditions { decommissioning, ..Conditions::default() }, ..Report::default() }
    };
    let enrolled = |report| Facts { enrolled: true, ..heard(report) };
    let requested = |report| Facts { decommission_requested: true, ..enrolled(report) };
    let finished = "Its agent has finished decommissioning; nothing follows.";

    for (facts, status, info) in [
        (Facts::default(), Unknown, "Not enrolled; an operator has to approve its enrolment request."),
        (enrolled(Report::default()), Enrolled, "Enrolled; it may be given work."),
        (
            enrolled(agent(Status::True, "Started", "")),
            Enrolled,
            "Enrolled, but its agent decommissions it without a request.",
        ),
        (
            requested(Report::default()),
            Decommissioning,
            "Decommissioning was requested; its agent has to pick that up.",
        ),
        (
            requested(agent(Status::True, "DecommissionStateStarted", "")),
            Decommissioning,
            "Its agent has started to decommission it and has to finish.",
        ),
        (
            requested(agent(Status::False, "Completed", "")),
            Decommissioning,
            "Decommissioning was requested; its agent has to pick that up.",
        ),
        (
            requested(agent(Status::True, "Paused", "")),
            Decommissioning,
            "Decommissioning was requested; its agent has to pick that up.",
        ),
        (requested(agent(Status::True, "Completed", "")), Decommissioned, finished),
        (requested(agent(Status::True, "DecommissionStateComplete", "")), Decommissioned, finished),
        (requested(agent(Status::True, "DecommissionStateCompleted", "")), Decommissioned, finished),
        (
            requested(agent(Status::True, "DecommissionStateError", "disk is read-only")),
            Decommissioned,
            "Its agent could not finish decommissioning: disk is read-only. What is left must be wiped by hand.",
        ),
        (
            requested(agent(Status::True, "Error", "")),
            Decommissioned,
            "Its agent could not finish decommissioning: no message. What is left must be wiped by hand.",
        ),
        (
            Facts { reached: Decommissioned, ..enrolled(Report::default()) },
            Decommissioned,
            "Was decommissioned before, and a lifecycle never goes back.",
        ),
        (
            Facts { reached: Decommissioning, ..enrolled(Report::default()) },
            Decommissioning,
            "Its decommissioning was requested before, and a lifecycle never goes back.",
        ),
        (
            Facts { reached: Enrolled, ..Facts::default() },
            Enrolled,
            "Was enrolled before, and a lifecycle never goes back.",
        ),
    ] {
        check(derive(&facts), status, info);
    }
}

#[test]
fn silence_is_counted_strictly_and_to_the_ends_of_time() {
    let seen = |last_seen, timeout| Facts { last_seen, timeout, ..Facts::default() };
    let minutes = SignedDuration::from_mins;

    for (facts, now, disconnected) in [
        (seen(None, minutes(5)), NOW, true),
        (seen(ago(299), minutes(5)), NOW, false),
        (seen(ago(300), minutes(5)), NOW, false),
        (seen(ago(300).map(|seen| seen - SignedDuration::from_nanos(1)), minutes(5)), NOW, true),
        (seen(ago(-60), minutes(5)), NOW, false),
        (seen(Some(Timestamp::MAX), minutes(5)), Timestamp::MAX, false),
        (seen(Some(Timestamp::MAX), minutes(5)), Timestamp::MIN, false),
        (seen(Some(Timestamp::MIN), minutes(5)), Timestamp::MAX, true),
        (seen(Some(Timestamp::MIN), SignedDuration::MAX), Timestamp::MAX, false),
    ] {
        assert_eq!(facts.is_disconnected(now), disconnected, "{facts:?} at {now}");
    }
}

#[test]
fn the_timeout_leaves_room_for_three_intervals() {
    let seconds = SignedDuration::from_secs;
    for (fleet, interval, timeout) in [
        (None, seconds(60), seconds(300)),
        (None, seconds(200), seconds(600)),
        (Some(seconds(90)), seconds(30), seconds(90)),
        (Some(seconds(10)), seconds(30), seconds(90)),
        (Some(seconds(3600)), seconds(30), seconds(3600)),
        (None, SignedDuration::MAX, SignedDuration::MAX),
    ] {
        assert_eq!(disconnection_timeout(fleet, interval), timeout, "{fleet:?} {interval:?}");
    }
}

#[test]
fn a_report_may_say_warning_for_degraded() {
    assert_eq!(Health::from_report("Warning"), Ok(Health::Degraded));
    for &health in Health::ALL {
        assert_eq!(Health::from_report(health.as_str()), Ok(health));
    }
    assert_eq!(
        Health::from_report("warning").map_err(|unknown| unknown.to_string()),
        Err("unknown value \"warning\", expected one of: Healthy, Degraded, Error, Critical, Unknown".into())
    );
}

#[test]
fn conditions_are_set_by_type() {
    let set = |of| {
        let mut conditions = Conditions::default();
        conditions.set(of, Condition { status: Status::True, reason: "", message: "" });
        conditions
    };
    let given = condition(Status::True, "", "");
    assert_eq!(set(Type::Updating), Conditions { updating: given, ..Conditions::default() });
    assert_eq!(set(Type::Rebooting), Conditions { rebooting: given, ..Conditions::default() });
    assert_eq!(
        set(Type::DeviceDecommissioning),
        Conditions { decommissioning: given, ..Conditions::default() }
    );
}

#[test]
fn statuses_have_the_document_s_names_on_the_wire() {
    let facts = Facts { enrolled: true, ..heard(Report { resources: HEALTHY, ..Report::default() }) };
    let statuses = wardroom_core::device::derive(&facts, NOW);
    let wire = serde_json::to_value(&statuses).unwrap();
    let status = |field: &str| wire[field]["status"].as_str().map(str::to_owned).unwrap_or_default();

    assert_eq!(
        ["summary", "updated", "applicationSummary", "lifecycle"].map(status),
        ["Online", "UpToDate", "Healthy", "Enrolled"]
    );
    assert_eq!(serde_json::from_value::<wardroom_core::device::Statuses>(wire).unwrap(), statuses);
}

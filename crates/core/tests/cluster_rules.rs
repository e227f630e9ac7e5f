//! The rules of cluster status, one by one.

use jiff::{SignedDuration, Timestamp, ToSpan};
use serde_json::{Value, json};
use wardroom_core::{
    Named,
    cluster::{
        AdapterStatus, Condition, Desired, Discard, Heard, RawReport, Report, ReportedCondition, Silent,
        Status, Verdict, all_finalized, check_required, classify, fold, overlay, silent, successful_type,
        upsert, validate,
    },
};

use Status::{False, True, Unknown};

/// The minute after the hour at which everything here begins.
fn minute(minute: i64) -> Timestamp {
    Timestamp::constant(1_760_702_400, 0) + minute.minutes()
}

// Validation.

fn payload() -> Value {
    json!({
        "adapter": "validation",
        "observed_generation": 1,
        "observed_time": minute(0).to_string(),
        "conditions": [
            {"type": "Available", "status": "False", "reason": "JobRunning", "message": "line one\n\tline two"},
            {"type": "Applied", "status": "True"},
            {"type": "Health", "status": "True"},
            {"type": "Finalized", "status": "Unknown"},
        ],
        "data": {"zone": "Z1"},
        "metadata": {"job_name": "validation-1"},
    })
}

fn validated(payload: Value, now: Timestamp) -> Result<Report, Vec<String>> {
    let raw: RawReport = serde_json::from_value(payload).expect("every field is optional");
    validate(raw, now).map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

/// Sets one field (or removes it, with null) and expects these problems and no other.
#[track_caller]
fn refuses(pointer: &str, value: Value, expected: &[&str]) {
    let mut payload = payload();
    *payload.pointer_mut(pointer).expect("the payload has this field") = value;
    assert_eq!(validated(payload, minute(0)).expect_err("this is refused"), expected);
}

#[test]
fn a_valid_report_keeps_everything_it_says() {
    let report = validated(payload(), minute(0)).unwrap();
    let mut wire = payload();
    let object = wire.as_object_mut().unwrap();
    object.retain(|field, _| !["data", "metadata"].contains(&field.as_str()));
    assert_eq!(serde_json::to_value(&report).unwrap(), wire);
    assert_eq!(report.available(), False);
}

#[test]
fn a_refused_field_is_named_with_what_to_do() {
    let carries = "every report carries Available, Applied, Health";
    refuses("/adapter", Value::Null, &["adapter: missing; send a name"]);
    refuses("/adapter", json!(" "), &["adapter: is empty; send a name"]);
    refuses("/adapter", json!("a\0"), &["adapter: contains the control character '\\0'; remove it"]);
    refuses(
        "/adapter",
        json!("a".repeat(101)),
        &["adapter: has 101 bytes, at most 100 are allowed; shorten it"],
    );
    refuses(
        "/observed_generation",
        Value::Null,
        &["observed_generation: missing; send the generation of the cluster that was acted on"],
    );
    refuses(
        "/observed_generation",
        json!(0),
        &["observed_generation: is 0; generations count from 1: send the cluster's own"],
    );
    refuses(
        "/observed_time",
        Value::Null,
        &["observed_time: missing; send when the state was observed, as RFC 3339"],
    );
    refuses(
        "/observed_time",
        json!("yesterday"),
        &["observed_time: \"yesterday\" is not an RFC 3339 time such as 2025-10-17T12:00:05Z"],
    );
    refuses("/conditions", Value::Null, &[&format!("conditions: missing; {carries}")]);
    refuses("/conditions/0/type", json!("Extra"), &[&format!("conditions: Available is missing; {carries}")]);
    refuses("/conditions/3/type", Value::Null, &["conditions[3].type: missing; send a name"]);
    refuses("/conditions/3/type", json!(""), &["conditions[3].type: is empty; send a name"]);
    refuses(
        "/conditions/3/type",
        json!("Health"),
        &["conditions[3].type: \"Health\" is already in conditions[2]; send each type once"],
    );
    refuses(
        "/conditions/3/status",
        Value::Null,
        &["conditions[3].status: missing; send True, False or Unknown"],
    );
    refuses(
        "/conditions/0/status",
        json!("true"),
        &["conditions[0].status: is \"true\"; send True, False or Unknown, spelled like that"],
    );
    refuses(
        "/conditions/0/reason",
        json!("Two\nLines"),
        &["conditions[0].reason: contains the control character '\\n'; remove it"],
    );
    refuses(
        "/conditions/0/reason",
        json!("r".repeat(1025)),
        &["conditions[0].reason: has 1025 bytes, at most 1024 are allowed; shorten it"],
    );
    refuses(
        "/conditions/0/message",
        json!("m".repeat(2049)),
        &["conditions[0].message: has 2049 bytes, at most 2048 are allowed; shorten it"],
    );
    refuses(
        "/conditions",
        json!(vec![json!({}); 65]),
        &["conditions: has 65 entries, at most 64 are allowed; leave some out"],
    );
}

#[test]
fn every_problem_is_listed_at_once() {
    let problems = validated(json!({"conditions": [{"type": "Available"}]}), minute(0)).unwrap_err();
    let fields: Vec<_> = problems.iter().map(|problem| problem.split(':').next().unwrap()).collect();
    let expected = [
        "adapter",
        "observed_generation",
        "observed_time",
        "conditions",
        "conditions",
        "conditions[0].status",
    ];
    assert_eq!(fields, expected);
}

#[test]
fn the_limits_themselves_are_accepted() {
    let mut payload = payload();
    payload["adapter"] = json!("a".repeat(100));
    payload["conditions"][0]["reason"] = json!("r".repeat(1024));
    payload["conditions"][0]["message"] = json!("m".repeat(2048));
    for extra in 4..64 {
        payload["conditions"]
            .as_array_mut()
            .unwrap()
            .push(json!({"type": format!("Extra{extra}"), "status": "True"}));
    }
    assert_eq!(validated(payload, minute(0)).map(|report| report.conditions.len()), Ok(64));
}

#[test]
fn the_time_of_observation_is_near_the_servers() {
    let at = |now: Timestamp| validated(payload(), now).map(|_| ());
    assert_eq!(at(minute(-5)), Ok(()));
    assert_eq!(at(minute(30)), Ok(()));
    let ahead = "observed_time: is 5m 1s ahead of the server, 5m is allowed; set the adapter's clock";
    assert_eq!(at(minute(-5) - 1.second()), Err(vec![ahead.into()]));
    let behind = "observed_time: is 30m 1s behind the server, 30m is allowed; observe again and report that";
    assert_eq!(at(minute(30) + 1.second()), Err(vec![behind.into()]));
}

// Classification and upsert.

fn report(adapter: &str, generation: i64, at: i64, conditions: &[(&str, Status)]) -> Report {
    let condition = |&(type_, status): &(&str, Status)| ReportedCondition {
        type_: type_.into(),
        status,
        reason: None,
        message: None,
    };
    Report {
        adapter: adapter.into(),
        observed_generation: generation,
        observed_time: minute(at),
        conditions: conditions.iter().map(condition).collect(),
    }
}

fn stored(adapter: &str, generation: i64, at: i64, available: Status) -> AdapterStatus {
    upsert(None, report(adapter, generation, at, &[("Available", available)]))
}

type Said = (i64, i64, Status);

/// (generation, minute, Available) of what is stored and of what arrives, at a cluster of generation 3.
#[track_caller]
fn classifies(before: Option<Said>, arrives: Said, expected: Verdict) {
    let before = before.map(|(generation, at, available)| stored("dns", generation, at, available));
    let (generation, at, available) = arrives;
    let arrives = report("dns", generation, at, &[("Available", available)]);
    assert_eq!(classify(3, before.as_ref(), &arrives), expected);
}

#[test]
fn a_report_is_stored_unless_a_rule_discards_it() {
    let folds = Verdict::Store { folds: true };
    classifies(None, (3, 0, True), folds);
    classifies(None, (1, 0, False), folds);
    classifies(None, (3, 0, Unknown), Verdict::Store { folds: false });
    classifies(Some((3, 5, True)), (3, 6, False), folds);
    classifies(Some((3, 5, True)), (3, 5, False), folds);
    classifies(Some((2, 5, True)), (3, 1, False), folds);
    classifies(Some((2, 5, Unknown)), (2, 6, True), folds);

    classifies(None, (4, 0, True), Verdict::Discard(Discard::FutureGeneration));
    classifies(Some((3, 5, True)), (2, 9, True), Verdict::Discard(Discard::OlderGeneration));
    classifies(Some((3, 5, True)), (3, 4, True), Verdict::Discard(Discard::OlderObservedTime));
    classifies(Some((2, 5, True)), (3, 9, Unknown), Verdict::Discard(Discard::RepeatedUnknown));
    classifies(Some((2, 5, Unknown)), (2, 9, Unknown), Verdict::Discard(Discard::RepeatedUnknown));
}

#[test]
fn a_discard_says_what_to_do() {
    for &discard in Discard::ALL {
        assert!(discard.meaning().contains("; ") && discard.meaning().ends_with('.'), "{discard}");
    }
}

#[test]
fn an_upsert_replaces_conditions_and_keeps_since_when() {
    let first =
        upsert(None, report("dns", 1, 1, &[("Available", False), ("Applied", True), ("Custom", True)]));
    assert!(first.conditions.iter().all(|condition| condition.last_transition_time == minute(1)));
    let second = report("dns", 2, 7, &[("Applied", True), ("Available", True), ("Health", True)]);
    let second = upsert(Some(&first), second);

    let since: Vec<_> =
        second.conditions.iter().map(|c| (c.type_.as_str(), c.last_transition_time)).collect();
    assert_eq!(since, [("Applied", minute(1)), ("Available", minute(7)), ("Health", minute(7))]);
    assert_eq!((second.created_time, second.last_report_time), (minute(1), minute(7)));
    assert_eq!(second.observed_generation, 2);
}

// The fold.

/// A cluster whose desired state changed at minute 10.
fn desired(generation: i64, required_adapters: &[String]) -> Desired<'_> {
    Desired {
        generation,
        updated_time: minute(10),
        required_adapters,
        deleted: false,
        active_children: false,
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// A condition in one line: type, status, reason, generation, minutes of creation, update and transition.
fn short(condition: &Condition) -> String {
    let Condition { type_, status, reason, observed_generation: generation, .. } = condition;
    let reason = reason.as_deref().unwrap_or("-");
    let minutes = |time: Timestamp| time.duration_since(minute(0)).as_mins();
    let created = minutes(condition.created_time);
    let updated = minutes(condition.last_updated_time);
    let moved = minutes(condition.last_transition_time);
    format!("{type_} {status} {reason} g{generation} {created} {updated} {moved}")
}

/// Folds and expects these conditions.
#[track_caller]
fn folds(
    desired: &Desired<'_>,
    statuses: &[AdapterStatus],
    previous: &[Condition],
    expected: &[&str],
) -> Vec<Condition> {
    let conditions = fold(desired, statuses, previous);
    assert_eq!(conditions.iter().map(short).collect::<Vec<_>>(), expected);
    conditions
}

#[test]
fn a_cluster_is_reconciled_generation_by_generation() {
    let required = names(&["dns", "pull-secret"]);
    let cluster = desired(1, &required);
    let new = folds(
        &cluster,
        &[],
        &[],
        &[
            "Reconciled False ReconciledMissingAdapters g1 10 10 10",
            "LastKnownReconciled False AdaptersMissingReports g1 10 10 10",
        ],
    );
    let done =
        [stored("pull-secret", 1, 12, True), stored("other", 1, 11, False), stored("dns", 1, 13, True)];
    let done = folds(
        &cluster,
        &done,
        &new,
        &[
            "Reconciled True ReconciledAll g1 10 12 12",
            "LastKnownReconciled True AllAdaptersReconciled g1 10 12 12",
            "DnsSuccessful True - g1 10 13 13",
            "PullSecretSuccessful True - g1 10 12 12",
        ],
    );

    let cluster = Desired { generation: 2, updated_time: minute(20), ..cluster };
    let changed = folds(
        &cluster,
        &[stored("dns", 2, 21, False), stored("pull-secret", 1, 12, True)],
        &done,
        &[
            "Reconciled False ReconciledMissingAdapters g2 10 21 20",
            "LastKnownReconciled True AllAdaptersReconciled g1 10 12 12",
            "DnsSuccessful False - g2 10 21 21",
            "PullSecretSuccessful True - g1 10 12 12",
        ],
    );
    let expected = "generation 2 waits for dns (not available), pull-secret (last reported generation 1)";
    assert_eq!(changed[0].message.as_deref(), Some(expected));

    folds(
        &cluster,
        &[stored("dns", 2, 22, True), stored("pull-secret", 2, 23, True)],
        &changed,
        &[
            "Reconciled True ReconciledAll g2 10 22 22",
            "LastKnownReconciled True AllAdaptersReconciled g2 10 22 12",
            "DnsSuccessful True - g2 10 22 22",
            "PullSecretSuccessful True - g2 10 23 12",
        ],
    );
}

#[test]
fn success_that_a_new_generation_keeps_has_not_moved() {
    let required = names(&["a"]);
    let before = fold(&desired(1, &required), &[stored("a", 1, 11, True)], &[]);
    let cluster = Desired { updated_time: minute(20), active_children: true, ..desired(2, &required) };
    let expected = [
        "Reconciled True ReconciledAll g2 10 21 11",
        "LastKnownReconciled True AllAdaptersReconciled g2 10 21 11",
        "ASuccessful True - g2 10 21 11",
    ];
    folds(&cluster, &[stored("a", 2, 21, True)], &before, &expected);
}

#[test]
fn a_report_that_cannot_count_is_missing() {
    let required = names(&["future", "unknown", "silent"]);
    let statuses = [stored("future", 3, 1, True), stored("unknown", 2, 1, Unknown)];
    let conditions = folds(
        &desired(2, &required),
        &statuses,
        &[],
        &[
            "Reconciled False ReconciledMissingAdapters g2 10 10 10",
            "LastKnownReconciled False AdaptersMissingReports g1 10 10 10",
        ],
    );
    let expected = "no word yet on being available: future, unknown, silent";
    assert_eq!(conditions[1].message.as_deref(), Some(expected));
}

#[test]
fn a_cluster_without_required_adapters_is_not_reconciled_and_claims_no_past() {
    let required = names(&["a"]);
    let before = fold(&desired(4, &required), &[stored("a", 4, 1, True)], &[]);
    folds(
        &desired(4, &[]),
        &[stored("a", 4, 1, True)],
        &before,
        &[
            "Reconciled False ReconciledMissingAdapters g4 10 10 10",
            "LastKnownReconciled False AdaptersMissingReports g1 10 10 10",
        ],
    );
}

/// Reports are (generation, minute, Available) of adapters a and b; `held` is the generation last known good.
#[track_caller]
fn last_known(held: Option<i64>, a: Said, b: Said, expected: &str) {
    let required = names(&["a", "b"]);
    let good = |generation| {
        let statuses = [stored("a", generation, 1, True), stored("b", generation, 2, True)];
        fold(&desired(generation, &required), &statuses, &[])
    };
    let previous = held.map(good).unwrap_or_default();
    let statuses = [stored("a", a.0, a.1, a.2), stored("b", b.0, b.1, b.2)];
    let conditions = fold(&desired(3, &required), &statuses, &previous);
    assert_eq!(short(&conditions[1]), format!("LastKnownReconciled {expected}"));
}

#[test]
fn the_last_known_good_generation_is_sticky() {
    last_known(None, (2, 5, True), (2, 4, True), "True AllAdaptersReconciled g2 10 4 4");
    last_known(None, (2, 5, True), (3, 6, True), "False AdaptersNotAtSameGeneration g3 10 10 10");
    last_known(Some(2), (2, 5, True), (3, 6, True), "True AllAdaptersReconciled g2 10 1 1");
    last_known(Some(2), (2, 5, True), (3, 6, False), "True AllAdaptersReconciled g2 10 1 1");
    last_known(Some(2), (3, 5, False), (3, 6, False), "True AllAdaptersReconciled g2 10 1 1");
    last_known(Some(2), (2, 5, False), (3, 6, True), "False AdapterReportedNotAvailable g3 10 1 1");
    last_known(Some(3), (3, 5, True), (3, 6, False), "False AdapterReportedNotAvailable g3 10 5 5");
    last_known(None, (3, 5, True), (3, 6, False), "False AdapterReportedNotAvailable g3 10 5 5");
    last_known(Some(2), (2, 5, True), (2, 6, Unknown), "False AdaptersMissingReports g2 10 1 1");
}

fn finalizing(adapter: &str, generation: i64, at: i64, finalized: Status) -> AdapterStatus {
    upsert(None, report(adapter, generation, at, &[("Available", False), ("Finalized", finalized)]))
}

#[test]
fn a_deleted_cluster_is_reconciled_when_everything_is_gone() {
    let required = names(&["a", "b"]);
    let cluster = Desired { deleted: true, ..desired(2, &required) };
    let busy = [finalizing("a", 2, 11, True), finalizing("b", 2, 12, False)];
    let gone = [finalizing("a", 2, 11, True), finalizing("b", 2, 13, True)];
    let stale = [finalizing("a", 2, 11, True), finalizing("b", 1, 13, True)];
    let parent = Desired { active_children: true, ..cluster };
    let reconciled =
        |cluster: &Desired<'_>, statuses: &[AdapterStatus]| short(&fold(cluster, statuses, &[])[0]);

    let waits = "Reconciled False ReconciledMissingAdapters g2 10 11 11";
    assert_eq!(reconciled(&cluster, &busy), waits);
    assert_eq!(reconciled(&cluster, &stale), waits);
    assert_eq!(reconciled(&parent, &busy), waits);
    assert_eq!(reconciled(&cluster, &gone), "Reconciled True ReconciledAll g2 10 11 11");
    assert_eq!(reconciled(&parent, &gone), "Reconciled False ReconciledWaitingForChildren g2 10 11 11");

    assert!(all_finalized(&required, 2, &gone) && all_finalized(&[], 2, &[]));
    assert!(!all_finalized(&required, 2, &busy) && !all_finalized(&required, 2, &stale));
    assert!(!all_finalized(&required, 2, &gone[..1]));
}

#[test]
fn an_adapter_gives_its_condition_a_name() {
    let check = |adapter, expected| assert_eq!(successful_type(adapter), expected);
    check("dns", "DnsSuccessful");
    check("pull-secret", "PullSecretSuccessful");
    check("a--b", "ABSuccessful");
    check("-a-", "ASuccessful");
    check("", "Successful");
    check("-", "Successful");
    check("cert-manager-2", "CertManager2Successful");
    check("aBC.d_e", "ABC.d_eSuccessful");
    check("éa-ßb", "ÉaßbSuccessful");
}

#[test]
fn required_adapters_have_conditions_of_their_own() {
    let check = |given: &[&str], expected: &[&str]| {
        let problems = check_required(&names(given)).err().unwrap_or_default();
        assert_eq!(problems.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    };
    check(&["a", "b", "ab"], &[]);
    check(&["a", "a"], &["required_adapters[1]: \"a\" is listed twice; remove one"]);
    check(
        &["a-b", "a--b"],
        &["required_adapters[1]: \"a--b\" and \"a-b\" both become ABSuccessful; rename one"],
    );
    check(&["a", ""], &["required_adapters[1]: is empty; name an adapter or remove the entry"]);
}

// Silence.

/// Adapters a and b reported at minute 1 and 2, were heard then, and have a patience of 30 and 60 minutes.
fn at_minute(now: i64, a: AdapterStatus, b: AdapterStatus, cluster: &Desired<'_>) -> (String, String) {
    let statuses = [a, b];
    let heard = [(0, 1, 30), (1, 2, 60)].map(|(index, at, patience)| Heard {
        adapter: &statuses[index].adapter,
        status: Some(&statuses[index]),
        received_at: Some(minute(at)),
        patience: SignedDuration::from_mins(patience),
        excused: SignedDuration::ZERO,
    });
    let mut conditions = fold(cluster, &statuses, &[]);
    overlay(cluster, &heard, minute(now), &mut conditions);
    (short(&conditions[0]), conditions[0].message.as_deref().unwrap_or_default().into())
}

#[test]
fn silence_past_patience_is_said() {
    let required = names(&["a", "b"]);
    let cluster = desired(1, &required);
    let good = |now| at_minute(now, stored("a", 1, 1, True), stored("b", 1, 2, True), &cluster);

    let told = "every required adapter is available at this generation";
    assert_eq!(good(31), ("Reconciled True ReconciledAll g1 10 1 1".into(), told.into()));
    let (reconciled, message) = good(32);
    assert_eq!(reconciled, "Reconciled Unknown ReconciledAdapterSilent g1 10 1 31");
    assert_eq!(
        message,
        format!("silent past their patience: a (last heard {}); before that, {told}", minute(1))
    );
    let (reconciled, message) = good(100);
    assert_eq!(reconciled, "Reconciled Unknown ReconciledAdapterSilent g1 10 1 31");
    assert!(
        message.contains(&format!("a (last heard {}), b (last heard {})", minute(1), minute(2))),
        "{message}"
    );

    let (reconciled, message) = at_minute(100, stored("a", 1, 1, True), stored("b", 1, 2, False), &cluster);
    assert_eq!(reconciled, "Reconciled False ReconciledMissingAdapters g1 10 1 1");
    assert!(message.starts_with("generation 1 waits for b (not available); silent past"), "{message}");
}

#[test]
fn only_a_required_adapter_can_be_silent() {
    let required = names(&["a", "b"]);
    let told = |cluster: &Desired<'_>, a, b| at_minute(100, a, b, cluster).1;

    let cluster = desired(1, &required[..1]);
    let other = told(&cluster, stored("a", 1, 1, True), stored("b", 1, 2, True));
    assert!(other.contains("a (last") && !other.contains("b (last"), "only a is required: {other}");
    let cluster = Desired { deleted: true, ..desired(1, &required) };
    let gone = told(&cluster, finalizing("a", 1, 1, True), finalizing("b", 1, 2, True));
    assert_eq!(gone, "every required adapter has finalized");
}

#[test]
fn patience_may_be_endless() {
    let required = names(&["a"]);
    let status = stored("a", 1, 1, True);
    let silent_for = |patience, now| {
        let heard = [Heard {
            adapter: "a",
            status: Some(&status),
            received_at: Some(minute(1)),
            patience,
            excused: SignedDuration::ZERO,
        }];
        silent(&Desired { updated_time: minute(0), ..desired(1, &required) }, &heard, now)
            .collect::<Vec<_>>()
            .first()
            .map(|Silent { since, .. }| *since)
    };
    assert_eq!(silent_for(SignedDuration::MAX, Timestamp::MAX), None);
    assert_eq!(silent_for(SignedDuration::ZERO, minute(2)), Some(minute(1)));
}

/// An adapter that has not reported on the desired generation is counted from when it was desired, not from
/// an older report; and time in which the server did not listen does not count.
#[test]
fn silence_counts_from_the_last_word_or_the_last_change() {
    let required = names(&["a"]);
    let cluster = Desired { updated_time: minute(10), ..desired(2, &required) };
    let behind = stored("a", 1, 1, True);
    let since = |received_at: Option<i64>, excused| {
        let heard = [Heard {
            adapter: "a",
            status: received_at.map(|_| &behind),
            received_at: received_at.map(minute),
            patience: SignedDuration::from_mins(30),
            excused: SignedDuration::from_mins(excused),
        }];
        silent(&cluster, &heard, minute(1000)).next().map(|silent| silent.since)
    };
    assert_eq!(since(None, 0), Some(minute(40)), "never heard");
    assert_eq!(since(Some(1), 0), Some(minute(40)), "heard before the change only");
    assert_eq!(since(Some(20), 0), Some(minute(50)), "heard since");
    assert_eq!(since(Some(20), 100), Some(minute(150)), "and we were deaf for a while");
}

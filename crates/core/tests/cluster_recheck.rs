//! When adapters are told of a cluster again: the rules by table, and against recorded decisions.

use std::{env, fs, path::PathBuf};

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use wardroom_core::cluster::{Condition, Recheck, Status};

const RECHECK: Recheck =
    Recheck { unreconciled: SignedDuration::from_secs(10), reconciled: SignedDuration::from_mins(30) };

fn reconciled(status: Status, observed_generation: i64, observed: Timestamp) -> Condition {
    Condition {
        type_: "Reconciled".into(),
        status,
        reason: None,
        message: None,
        observed_generation,
        created_time: observed,
        last_updated_time: observed,
        last_transition_time: observed,
    }
}

#[test]
fn a_cluster_is_due_after_its_pause() {
    let at = |second: i64| Timestamp::from_second(1_000_000 + second).unwrap();
    let check = |conditions: &[Condition], told: Option<i64>, due: Option<i64>| {
        let found = RECHECK.due(2, conditions, told.map(at));
        assert_eq!(found, due.map_or(Timestamp::MIN, at), "{conditions:?} {told:?}");
    };
    check(&[], None, None);
    check(&[], Some(5), Some(15));
    check(&[reconciled(Status::False, 1, at(0))], None, None);
    check(&[reconciled(Status::True, 1, at(0))], Some(5), Some(15));
    check(&[reconciled(Status::False, 2, at(0))], None, Some(10));
    check(&[reconciled(Status::False, 2, at(0))], Some(7), Some(17));
    check(&[reconciled(Status::False, 2, at(8))], Some(7), Some(18));
    check(&[reconciled(Status::True, 2, at(0))], None, Some(1800));
    // One adapter is silent, so that the oldest observation does not move: the others are told once in a while.
    check(&[reconciled(Status::True, 2, at(0))], Some(1801), Some(3601));
    let never = Recheck { unreconciled: SignedDuration::MAX, reconciled: SignedDuration::MAX };
    assert_eq!(never.due(1, &[reconciled(Status::True, 1, at(0))], None), Timestamp::MAX);
}

#[derive(Deserialize)]
struct Row {
    id: String,
    table: String,
    #[serde(rename = "in")]
    input: serde_json::Value,
    expect: serde_json::Value,
}

#[derive(Deserialize)]
struct Recorded {
    conditions: Option<Vec<RecordedCondition>>,
    generation: i64,
}

#[derive(Deserialize)]
struct RecordedCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    observed_generation: i64,
    last_updated_time: Option<String>,
}

/// The conditions as ours; nothing where the recorded ones have a status or time that a fold cannot give, or a type twice.
fn conditions(recorded: &Recorded) -> Option<Vec<Condition>> {
    let ours = |condition: &RecordedCondition| {
        let time: Timestamp = condition.last_updated_time.as_ref()?.parse().ok()?;
        let is_real = time > Timestamp::UNIX_EPOCH;
        let ours = reconciled(condition.status.parse().ok()?, condition.observed_generation, time);
        is_real.then(|| Condition { type_: condition.type_.clone().into(), ..ours })
    };
    let conditions: Vec<_> = recorded.conditions.iter().flatten().map(ours).collect::<Option<_>>()?;
    let count = conditions.iter().filter(|condition| condition.type_ == "Reconciled").count();
    (count <= 1).then_some(conditions)
}

#[test]
fn contract_hyperfleet_sentinel() {
    let folder = env::var_os("WARDROOM_CONTRACT_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    );
    if !folder.is_dir() {
        println!("no recorded answers in {}: nothing replayed", folder.display());
        return;
    }
    let text = fs::read_to_string(folder.join("hyperfleet-sentinel-oracle.jsonl")).unwrap();
    let mut replayed = 0;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let row: Row = serde_json::from_str(line).unwrap();
        // Other rules than the usual ones are expressions, which ours are not.
        if row.table != "decision" || row.input["config"] != "default" || row.input["resource"].is_null() {
            continue;
        }
        let recorded: Recorded = serde_json::from_value(row.input["resource"].clone()).unwrap();
        let Some(conditions) = conditions(&recorded) else { continue };
        let Some(now) = row.input["now"].as_str() else { continue };
        let now: Timestamp = now.parse().unwrap();
        let is_due = RECHECK.due(recorded.generation, &conditions, None) < now;
        assert_eq!(is_due, row.expect["decision"] == "publish", "{}: {line}", row.id);
        replayed += 1;
    }
    println!("replayed {replayed} decisions");
    assert!(replayed > 200, "{replayed}");
}

//! Replays recorded status inputs: ours must be the document's answers, and DESIGN.md's where it has none.

use std::{collections::BTreeMap, fs, path::PathBuf};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use wardroom_core::device::{
    Facts, Fleet, Report,
    applications::{self, Application},
    condition::{Condition, Conditions, Status},
    lifecycle,
    resource::{Health, Resources},
    summary, updated,
};

const NOW: Timestamp = Timestamp::constant(1_767_226_200, 0);
const TABLES: [&str; 4] = ["summary", "updated", "seed_applications", "seed_lifecycle"];

#[test]
fn contract_device_statuses_are_those_of_the_document() {
    let folder = std::env::var_os("WARDROOM_CONTRACT_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    );
    if !folder.is_dir() {
        println!("no recorded answers at {}: nothing replayed", folder.display());
        return;
    }

    let recorded = fs::read_to_string(folder.join("flightctl-status-oracle.jsonl")).unwrap();
    let mut replayed = BTreeMap::from(TABLES.map(|table| (table, 0)));
    let mut wrong = Vec::new();
    for line in recorded.lines().filter(|line| !line.trim().is_empty()) {
        let row: Value = serde_json::from_str(line).unwrap();
        let Some(count) = replayed.get_mut(text(&row["table"])) else { continue };
        *count += 1;
        let (ours, expected) = (answer(&row), expected(&row));
        if ours != expected {
            wrong.push(format!("{} should be {expected}, is {ours}: {}", row["id"], row["in"]));
        }
    }

    println!("replayed {replayed:?}");
    assert!(replayed["summary"] > 0 && replayed["updated"] > 0, "the main tables are there: {replayed:?}");
    assert!(wrong.is_empty(), "{} rows differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// The document's answer; DESIGN.md's where the document has none, or takes missing versions for equal ones.
fn expected(row: &Value) -> &str {
    let (table, given) = (text(&row["table"]), &row["in"]);
    match row["seed"]["status"].as_str() {
        Some("UpToDate") if table == "updated" && lacks_a_version(given) => "OutOfDate",
        Some(documented) => documented,
        None => decided(table, given).unwrap_or("decided by a rule"),
    }
}

/// What DESIGN.md says about inputs that the document leaves open.
fn decided(table: &str, given: &Value) -> Option<&'static str> {
    match table {
        // A resource reported as Unknown does not make a device unhealthy.
        "summary" => {
            let resources = ["cpu", "memory", "disk"].map(|name| text(&given[name]));
            let well = resources.iter().all(|health| ["Healthy", "Unknown", ""].contains(health));
            well.then_some("Online")
        }
        // What is missing cannot be matched.
        "updated" => lacks_a_version(given).then_some("OutOfDate"),
        // A state outside the document's five counts as degraded.
        "seed_applications" => {
            let mut states = given["applications"].as_array()?.iter().map(text);
            let known = ["Preparing", "Starting", "Running", "Error", "Completed"];
            states.any(|state| !known.contains(&state)).then_some("Degraded")
        }
        _ => None,
    }
}

/// The device has an owner, but no such fleet exists or one of the two template versions is missing.
fn lacks_a_version(given: &Value) -> bool {
    let unset = |field: &str| text(&given[field]).is_empty();
    let missing = unset("fleetTemplateVersion") || unset("deviceRenderedTemplateVersion");
    !unset("owner") && (given["fleetExists"] != true || missing)
}

/// Our answer.
fn answer(row: &Value) -> &'static str {
    let given = &row["in"];
    let applications: Vec<Application<'_>> = given["applications"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|state| Application { name: "recorded", state: text(state).into() })
        .collect();
    let facts = facts(given, &applications);
    match text(&row["table"]) {
        "summary" => summary::derive(&facts, NOW).status.as_str(),
        "updated" => updated::derive(&facts, NOW).status.as_str(),
        "seed_applications" => applications::derive(&facts, NOW).status.as_str(),
        "seed_lifecycle" => lifecycle::derive(&facts).status.as_str(),
        table => panic!("no derivation for the table {table}"),
    }
}

/// A recorded input as facts; what a table does not mention is unset.
fn facts<'a>(given: &'a Value, applications: &'a [Application<'a>]) -> Facts<'a> {
    let age = match given["disconnected"].as_bool() {
        Some(disconnected) => Some(if disconnected { 301 } else { 0 }),
        None => given["lastSeenAgeSeconds"].as_i64(),
    };
    let conditions = Conditions {
        updating: condition(&given["updatingCondition"]),
        rebooting: None,
        decommissioning: condition(&given["decommissioningCondition"]),
    };
    let resources = Resources {
        cpu: health(&given["cpu"]),
        memory: health(&given["memory"]),
        disk: health(&given["disk"]),
    };
    let rendered_version = given["reportedRenderedVersion"].as_str();
    Facts {
        last_seen: age.map(|age| NOW - SignedDuration::from_secs(age)),
        report: Some(Report { resources, conditions, rendered_version, applications }),
        rendered_version: given["renderedVersionAnnotation"].as_str(),
        template_version: given["deviceRenderedTemplateVersion"].as_str(),
        last_rollout_error: given["lastRolloutError"].as_str(),
        owner: given["owner"].as_str(),
        fleet: (given["fleetExists"] == true)
            .then(|| Fleet { template_version: given["fleetTemplateVersion"].as_str() }),
        enrolled: given["enrollmentComplete"] == true,
        decommission_requested: given["specDecommissioning"] == true,
        ..Facts::default()
    }
}

fn condition(given: &Value) -> Option<Condition<'_>> {
    // What is neither true nor false is unknown.
    let status = given["status"].as_str()?.parse().unwrap_or(Status::Unknown);
    Some(Condition { status, reason: text(&given["reason"]), message: text(&given["message"]) })
}

fn health(given: &Value) -> Option<Health> {
    // A value that we do not know says as little as none.
    given.as_str().and_then(|given| Health::from_report(given).ok())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

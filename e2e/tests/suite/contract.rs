//! The answers of the system that document 002 was written for, replayed where the document and our decisions agree.

#![expect(clippy::print_stdout, reason = "a test says what it leaves out")]

use std::{collections::BTreeSet, path::PathBuf};

use serde_json::{Value, json};

use crate::support::{Backend, Site, fleet::STATES, mac, node_in, on_both};

on_both! {
    contract_of_the_transitions,
    contract_of_the_reports,
}

/// States and words of the recorded system that document 002 does not have.
const BEYOND: &[&str] = &["serving_source", "cloning_target", "event"];

/// Where the document and `DESIGN.md` decide otherwise, as rules over a recorded row.
type Rule = fn(&Value) -> bool;
const DEVIATIONS: &[(&str, Rule)] =
    &[("document 002 has no move from installed to reprovision: a node is verified first", |row| {
        row["from"] == "installed" && row["to"] == "reprovision"
    })];

fn recorded(file: &str) -> Option<Vec<Value>> {
    let default = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data"));
    let folder = std::env::var_os("WARDROOM_CONTRACT_DATA").map_or(default, PathBuf::from);
    let Ok(text) = std::fs::read_to_string(folder.join(file)) else {
        println!("{file} is not there: nothing is replayed");
        return None;
    };
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    Some(rows.into_iter().filter(|row| !is_beyond(row)).collect())
}

fn is_beyond(row: &Value) -> bool {
    ["from", "to", "state", "field"]
        .iter()
        .any(|part| row[part].as_str().is_some_and(|word| BEYOND.contains(&word)))
}

fn contract_of_the_transitions(on: Backend) {
    let Some(rows) = recorded("pureboot-transition-matrix.jsonl") else { return };
    let pairs: BTreeSet<_> =
        rows.iter().map(|row| (row["from"].to_string(), row["to"].to_string())).collect();
    assert_eq!(pairs.len(), STATES.len() * STATES.len(), "every pair of states is recorded");
    let site = Site::start(on);
    let mut deviations = 0;
    for (number, row) in rows.iter().enumerate() {
        let (from, to) = (row["from"].as_str().unwrap(), row["to"].as_str().unwrap());
        let id = node_in(&site.admin(), from, number);
        let body = json!({"state": to, "force": row["force"]});
        let reply = site.admin().patch(&format!("/api/v1/nodes/{id}/state"), &body);
        let deviates = DEVIATIONS.iter().any(|(_, rule)| rule(row));
        deviations += usize::from(deviates);
        // Their server answers 400 where ours answers 409.
        let expected = if row["status"] == 200 && !deviates { 200 } else { 409 };
        assert_eq!(reply.status, expected, "{row}: {}", reply.text());
        if expected == 200 {
            assert_eq!(reply.json()["data"]["state"], row["result"], "{row}");
        }
    }
    assert_eq!(deviations, DEVIATIONS.len(), "a rule is about nothing");
}

fn contract_of_the_reports(on: Backend) {
    let Some(rows) = recorded("pureboot-report-matrix.jsonl") else { return };
    assert_eq!(rows.len(), STATES.len() * 4, "every state and every word is recorded");
    let site = Site::start(on);
    for (number, row) in rows.iter().enumerate() {
        let id = node_in(&site.admin(), row["state"].as_str().unwrap(), number);
        let report = json!({"mac_address": mac(number), "installation_status": row["value"]});
        let reply = site.admin().post("/api/v1/report", &report);
        assert_eq!(reply.status, row["status"], "{row}: {}", reply.text());
        let node = site.admin().get(&format!("/api/v1/nodes/{id}")).expect(200)["data"].clone();
        assert_eq!(node["state"], row["new_state"], "{row}");
        assert_eq!(node["install_attempts"], row["install_attempts"], "{row}");
    }
}

//! The report table of document 002: every state and every word a node may say of its installation.

use serde_json::{Value, json};

use crate::support::{Backend, Site, fleet::STATES, mac, node_in, on_both};

on_both! {
    every_report_in_every_state,
    the_separate_endpoint_follows_the_same_table,
    started_again_changes_nothing,
    an_attempt_that_is_named_counts_once,
    a_report_counts_whatever_its_words,
    progress_is_tracked,
    unknown_fields_of_a_report_are_ignored_with_a_warning,
}

const REPORTS: &[&str] = &["started", "progress", "complete", "failed"];

/// Where a report leads: the table of document 002. Everything else changes nothing.
fn expected(state: &str, report: &str) -> (&'static str, u64) {
    match (state, report) {
        ("pending", "started") => ("installing", 0),
        ("installing", "complete") => ("installed", 0),
        ("installing", "failed") => ("installing", 1),
        (state, _) => (STATES.iter().find(|known| **known == state).unwrap(), 0),
    }
}

fn every_report_in_every_state(on: Backend) {
    check_table(on, |site, number, _, report| {
        let report = json!({
            "mac_address": mac(number), "installation_status": report, "installation_progress": 7,
            "installation_error": "no disk", "hostname": "n1",
        });
        site.admin().post("/api/v1/report", &report).expect(200)
    });
}

fn the_separate_endpoint_follows_the_same_table(on: Backend) {
    check_table(on, |site, _, id, report| {
        let status = json!({"status": report, "progress": 7, "error": "no disk"});
        site.admin().post(&format!("/api/v1/nodes/{id}/installation-status"), &status).expect(200)
    });
}

fn check_table(on: Backend, send: impl Fn(&Site, usize, &str, &str) -> Value) {
    let site = Site::start(on);
    for (row, state) in STATES.iter().enumerate() {
        for (column, report) in REPORTS.iter().enumerate() {
            let number = row * 10 + column;
            let id = node_in(&site.admin(), state, number);
            let moves = |site: &Site| {
                site.admin().get(&format!("/api/v1/nodes/{id}/history")).expect(200)["total"]
                    .as_i64()
                    .unwrap()
            };
            let before = moves(&site);
            let said = send(&site, number, &id, report);
            let (to, attempts) = expected(state, report);
            assert_eq!(said["data"]["id"], *id, "{report} in {state} is about another node");
            let node = site.admin().get(&format!("/api/v1/nodes/{id}")).expect(200)["data"].clone();
            assert_eq!(node["state"], to, "{report} in {state}");
            assert_eq!(node["install_attempts"], attempts, "{report} in {state}");
            assert_eq!(moves(&site) - before, i64::from(to != *state), "{report} in {state}");
            if to != *state {
                let newest = site.admin().get(&format!("/api/v1/nodes/{id}/history?limit=1")).expect(200);
                assert_eq!(newest["data"][0]["triggered_by"], "node_report", "{report} in {state}");
            }
        }
    }
}

/// A node in `installing`, and its reports.
fn installing(site: &Site) -> (String, impl Fn(Value) -> Value) {
    let id = node_in(&site.admin(), "installing", 1);
    let path = format!("/api/v1/nodes/{id}/installation-status");
    (id, move |status: Value| site.admin().post(&path, &status).expect(200)["data"].clone())
}

fn started_again_changes_nothing(on: Backend) {
    let site = Site::start(on);
    let (id, say) = installing(&site);
    say(json!({"status": "failed", "error": "no disk"}));
    let rows = || {
        let rows = site.admin().get(&format!("/api/v1/history?kind=node&id={id}")).expect(200);
        rows["data"].as_array().unwrap().len()
    };
    let before = rows();
    let node = say(json!({"status": "started"}));
    assert_eq!((&node["state"], &node["install_attempts"]), (&json!("installing"), &json!(1)));
    assert_eq!(rows(), before);
}

fn an_attempt_that_is_named_counts_once(on: Backend) {
    let site = Site::start(on);
    let (id, say) = installing(&site);
    let failed = |attempt: &str| say(json!({"status": "failed", "attempt_id": attempt, "error": attempt}));
    for (attempt, count, state) in [
        ("a", 1, "installing"),
        ("a", 1, "installing"),
        ("b", 2, "installing"),
        ("b", 2, "installing"),
        // A late report.
        ("a", 2, "installing"),
        ("c", 3, "install_failed"),
        ("c", 3, "install_failed"),
        ("d", 3, "install_failed"),
    ] {
        let node = failed(attempt);
        assert_eq!((&node["install_attempts"], &node["state"]), (&json!(count), &json!(state)), "{attempt}");
    }
    let node = site.admin().get(&format!("/api/v1/nodes/{id}")).expect(200);
    assert_eq!(node["data"]["last_install_error"], "c");
    let newest = site.admin().get(&format!("/api/v1/nodes/{id}/history?limit=1")).expect(200);
    assert_eq!(newest["data"][0]["metadata"], json!({"attempt": 3, "error": "c"}));
}

/// Texts of installers and firmware are cleaned and cut, because a refused report would be lost.
fn a_report_counts_whatever_its_words(on: Backend) {
    let site = Site::start(on);
    let (id, say) = installing(&site);
    let node = say(json!({"status": "failed", "error": "\u{1b}[31mno disk\u{1b}[0m\n\ttwice"}));
    assert_eq!((&node["install_attempts"], &node["state"]), (&json!(1), &json!("installing")));
    assert_eq!(node["last_install_error"], " [31mno disk [0m\n\ttwice");
    let node = say(json!({"status": "failed", "error": "é".repeat(10_000)}));
    assert_eq!((&node["install_attempts"], &node["state"]), (&json!(2), &json!("installing")));
    assert_eq!(node["last_install_error"], "é".repeat(4000));
    let report = json!({
        "mac_address": mac(1), "installation_status": "complete", "vendor": "A\u{7}cme", "model": "é".repeat(300),
    });
    let node = site.admin().post("/api/v1/report", &report).expect(200)["data"].clone();
    assert_eq!(node["state"], "installed");
    assert_eq!((&node["vendor"], &node["model"]), (&json!("A cme"), &json!("é".repeat(255))));
    assert_eq!(site.admin().get(&format!("/api/v1/nodes/{id}")).expect(200)["data"]["vendor"], "A cme");
}

fn progress_is_tracked(on: Backend) {
    let site = Site::start(on);
    let (id, say) = installing(&site);
    let path = format!("/api/v1/nodes/{id}");
    let before = site.admin().get(&path);
    let rows = || {
        let rows = site.admin().get(&format!("/api/v1/history?kind=node&id={id}&limit=100")).expect(200);
        rows["data"].as_array().unwrap().len()
    };
    let written = rows();
    for percent in [7, 23, 42] {
        let node = say(json!({"status": "progress", "progress": percent}));
        assert_eq!(node["install_progress"], percent);
        assert_eq!(node["updated_at"], before.json()["data"]["updated_at"]);
    }
    // An observation makes no history and no new version, but every reader sees it.
    assert_eq!(rows(), written);
    for index in 0..site.servers.len() {
        let after = site.admin_at(index).get(&path);
        assert_eq!(after.header("etag"), before.header("etag"));
        assert_eq!(after.expect(200)["data"]["install_progress"], 42);
        let listed = site.admin_at(index).get("/api/v1/nodes?state=installing").expect(200);
        assert_eq!(listed["data"][0]["install_progress"], 42);
    }
    assert_eq!(say(json!({"status": "progress"}))["install_progress"], 42);
    assert_eq!(say(json!({"status": "complete"}))["install_progress"], 100);
    let node = site.admin().get(&format!("/api/v1/nodes/{id}")).expect(200);
    assert_eq!(node["data"]["state"], "installed");
    for progress in [-1, 101, 1_000_000] {
        let report = json!({"mac_address": mac(1), "installation_status": "progress", "installation_progress": progress});
        assert_eq!(site.admin().post("/api/v1/report", &report).wrong_fields(), ["installation_progress"]);
    }
}

fn unknown_fields_of_a_report_are_ignored_with_a_warning(on: Backend) {
    let site = Site::start(on);
    let report = json!({"mac_address": mac(1), "colour": "red"});
    let reply = site.admin().post("/api/v1/report", &report);
    reply.expect(200);
    assert!(reply.header("warning").is_some_and(|warning| warning.contains("colour")), "{reply:?}");
}

//! History: the shape of document 002, actors, and protection against rewriting. And `why`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{
    Backend, Site,
    chain::{audit, verify_all},
    fleet::STATES,
    mac, node_in, on_both, wait_for,
};

on_both! {
    transitions_have_the_shape_of_the_document,
    people_are_named,
    the_chain_verifies_and_outlives_its_node,
    history_cannot_be_rewritten,
    tampering_is_noticed,
    why_says_what_to_do,
}

fn transitions_have_the_shape_of_the_document(on: Backend) {
    let site = Site::start(on);
    let id = node_in(&site.admin(), "installing", 1);
    let failed = json!({"mac_address": mac(1), "installation_status": "failed", "installation_error": "Disk not found"});
    (0..3).for_each(|_| drop(site.admin().post("/api/v1/report", &failed).expect(200)));
    let path = format!("/api/v1/nodes/{id}/history");
    let history = site.admin().get(&format!("{path}?limit=50&offset=0")).expect(200);
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(keys(&history), ["data", "total"].map(str::to_owned).into());
    assert_eq!(history["total"], 3, "transitions only: {history}");
    let row = &history["data"][0];
    let document =
        ["id", "from_state", "to_state", "triggered_by", "user_id", "comment", "metadata", "created_at"];
    assert_eq!(keys(row), document.map(str::to_owned).into());
    assert_eq!((&row["from_state"], &row["to_state"]), (&json!("installing"), &json!("install_failed")));
    assert_eq!(row["triggered_by"], "node_report");
    assert_eq!(row["comment"], Value::Null);
    assert_eq!(row["metadata"], json!({"error": "Disk not found", "attempt": 3}));
    assert_eq!(row["id"].as_str().unwrap().len(), 36, "a UUID");
    assert!(row["created_at"].as_str().unwrap().ends_with('Z'), "{row}");

    let states = |query: &str| -> Vec<String> {
        let page = site.admin().get(&format!("{path}?{query}")).expect(200);
        assert_eq!(page["total"], 3);
        page["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["to_state"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(states(""), ["install_failed", "installing", "pending"]);
    assert_eq!(states("limit=1&offset=1"), ["installing"]);
    assert_eq!(states("offset=2"), ["pending"]);
    assert!(states("offset=3").is_empty());
    site.admin().get("/api/v1/nodes/missing/history").problem(404);
}

fn people_are_named(on: Backend) {
    let site = Site::start(on);
    let (_, token) = site.new_token(&json!({"name": "olga", "role": "operator"}));
    let id = node_in(&site.admin(), "active", 1);
    let olga = site.caller(1, Some(&token)).with("x-request-id", "req-7");
    let moved = olga
        .patch(&format!("/api/v1/nodes/{id}/state"), &json!({"state": "migrating", "comment": "new board"}));
    moved.expect(200);
    assert_eq!(moved.header("x-request-id"), Some("req-7"));
    let row = site.admin().get(&format!("/api/v1/history?kind=node&id={id}&limit=1")).expect(200)["data"][0]
        .clone();
    for (field, value) in
        [("user_id", "olga"), ("triggered_by", "admin"), ("comment", "new board"), ("request_id", "req-7")]
    {
        assert_eq!(row[field], value, "{row}");
    }
}

fn the_chain_verifies_and_outlives_its_node(on: Backend) {
    let site = Site::start(on);
    let id = node_in(&site.admin(), "active", 1);
    site.admin()
        .patch(
            &format!("/api/v1/nodes/{id}"),
            &json!({"labels": {"a": "b"}, "hostname": "ü \u{1f6a2} \"quoted\""}),
        )
        .expect(200);
    site.admin().to_state(&id, "retired").expect(200);
    site.admin().delete(&format!("/api/v1/nodes/{id}")).expect(200);
    verify_all(&site);
    let rows = site.admin().get(&format!("/api/v1/history?kind=node&id={id}")).expect(200);
    assert_eq!(rows["data"].as_array().unwrap().len(), 8);
}

fn history_cannot_be_rewritten(on: Backend) {
    let site = Site::start_with(on, &[("WARDROOM_AUDIT_CHECKPOINT_SECONDS", "1")]);
    node_in(&site.admin(), "active", 1);
    let refused = |sql: &str| {
        let error = site.database.execute(sql).expect_err(sql);
        assert!(error.contains("append-only"), "{sql}: {error}");
    };
    refused("UPDATE history SET comment = 'nothing happened'");
    refused("DELETE FROM history WHERE sequence = 1");
    // SQLite refuses by the row, so there has to be one.
    wait_for("a checkpoint", || site.database.execute("UPDATE checkpoints SET row_count = 0").err());
    refused("UPDATE checkpoints SET row_count = 0");
    refused("DELETE FROM checkpoints");
    if on == Backend::Postgres {
        refused("TRUNCATE history");
        refused("TRUNCATE checkpoints");
    } else {
        refused("INSERT OR REPLACE INTO history SELECT * FROM history WHERE sequence = 1");
        refused("REPLACE INTO checkpoints SELECT * FROM checkpoints");
    }
    verify_all(&site);
}

/// A user who may drop a trigger can rewrite a row, but not its hash.
fn tampering_is_noticed(on: Backend) {
    let site = Site::start(on);
    let id = node_in(&site.admin(), "active", 1);
    let drop = match on {
        Backend::Sqlite => {
            "SELECT 1; PRAGMA writable_schema = ON; DELETE FROM sqlite_master WHERE type = 'trigger'; PRAGMA writable_schema = RESET"
        }
        Backend::Postgres => "ALTER TABLE history DISABLE TRIGGER ALL",
    };
    site.database.execute(drop).unwrap();
    let tamper = format!(
        "UPDATE history SET comment = 'nothing happened' WHERE resource_id = '{id}' AND sequence = 3"
    );
    site.database.execute(&tamper).unwrap();
    let rows = crate::support::chain::all_rows(&site.admin());
    let noticed = std::panic::catch_unwind(|| crate::support::chain::verify(&rows));
    assert!(noticed.is_err(), "the chain still verifies");
    if let Some((verified, said)) = audit(&site) {
        assert!(!verified && said.contains(&id) && said.contains('3'), "audit verify: {said}");
    }
}

fn why_says_what_to_do(on: Backend) {
    let site = Site::start(on);
    for (number, state) in STATES.iter().enumerate() {
        let id = node_in(&site.admin(), state, number);
        let why =
            site.admin().get(&format!("/api/v1/resources/node/{id}/why")).expect(200)["data"][0].clone();
        assert_eq!(why["state"], *state);
        assert!(why["meaning"].as_str().is_some_and(|meaning| !meaning.is_empty()), "{why}");
        assert!(why["since"].is_string(), "{why}");
        assert_eq!(why["exits"].as_array().unwrap().is_empty(), *state == "retired", "{why}");
        assert_eq!(
            why["patience_ends"].is_string(),
            matches!(*state, "installing" | "deprovisioning" | "migrating")
        );
    }
    let id = node_in(&site.admin(), "installing", 90);
    let failed =
        json!({"mac_address": mac(90), "installation_status": "failed", "installation_error": "no disk"});
    (0..3).for_each(|_| drop(site.admin().post("/api/v1/report", &failed).expect(200)));
    let why = site.admin().get(&format!("/api/v1/resources/node/{id}/why")).expect(200)["data"][0].clone();
    assert!(why["blockers"].to_string().contains("no disk"), "{why}");
    assert_eq!(why["next"]["do"], "call");
    assert!(why["next"].to_string().contains("force"), "{why}");
    site.admin().get("/api/v1/resources/node/missing/why").problem(404);
    site.admin().get("/api/v1/resources/spoon/x/why").problem(400);
}

//! Changes by people: ETags, deletions, workflows.

use serde_json::{Value, json};

use crate::support::{
    Api, Backend, Site, at_once,
    fleet::{MOVES, STATES, assert_names_moves_from, workflow},
    mac, node_in, on_both,
};

on_both! {
    every_pair_of_states_is_as_the_document_says,
    force_lifts_the_retry_limit_and_opens_no_move,
    an_etag_guards_the_version_that_was_read,
    members_are_corrected_under_their_etag,
    a_report_leaves_the_etag_alone,
    a_patch_changes_clears_and_keeps,
    only_a_retired_node_is_deleted_and_history_stays,
    workflows_live_and_die,
    every_change_is_logged_once,
}

fn every_pair_of_states_is_as_the_document_says(on: Backend) {
    let site = Site::start(on);
    let api = site.admin();
    for (row, (from, allowed)) in MOVES.iter().enumerate() {
        for (column, to) in STATES.iter().enumerate() {
            let id = node_in(&api, from, row * 100 + column);
            let reply = api.to_state(&id, to);
            if allowed.contains(to) {
                assert_eq!(reply.expect(200)["data"]["state"], *to, "{from} to {to}");
                continue;
            }
            assert_names_moves_from(&reply.problem(409), from);
            assert_eq!(node(&api, &id)["state"], *from);
        }
    }
}

fn force_lifts_the_retry_limit_and_opens_no_move(on: Backend) {
    let site = Site::start(on);
    let api = site.admin();
    let id = node_in(&api, "installing", 1);
    let report =
        json!({"mac_address": mac(1), "installation_status": "failed", "installation_error": "no disk"});
    for attempt in 1..=3 {
        assert_eq!(api.post("/api/v1/report", &report).expect(200)["data"]["install_attempts"], attempt);
    }
    let path = format!("/api/v1/nodes/{id}/state");
    let refused = api.patch(&path, &json!({"state": "pending"})).problem(409);
    assert!(refused["detail"].as_str().unwrap().contains("force"), "{refused}");
    api.patch(&path, &json!({"state": "active", "force": true})).problem(409);

    let forced = json!({"state": "pending", "force": true, "comment": "new disk"});
    let node = api.patch(&path, &forced).expect(200)["data"].clone();
    assert_eq!((&node["install_attempts"], &node["last_install_error"]), (&json!(0), &Value::Null));
    let newest = api.get(&format!("/api/v1/nodes/{id}/history?limit=1")).expect(200)["data"][0].clone();
    assert_eq!((&newest["comment"], &newest["triggered_by"]), (&json!("new disk"), &json!("admin")));

    api.to_state(&id, "retired").expect(200);
    api.patch(&path, &forced).problem(409);
}

fn an_etag_guards_the_version_that_was_read(on: Backend) {
    let site = Site::start(on);
    let id = node_in(&site.admin(), "active", 1);
    let path = format!("/api/v1/nodes/{id}");
    let read = || site.admin().get(&path).header("etag").unwrap().to_owned();
    let tag = read();
    assert_eq!(tag, read(), "both servers give the same tag");
    let guarded = |tag: &str| site.admin().with("if-match", tag);

    let changed = guarded(&tag).patch(&path, &json!({"labels": {"rack": "a"}}));
    changed.expect(200);
    let new = changed.header("etag").unwrap().to_owned();
    assert_ne!(new, tag);
    assert_eq!(new, read());
    let stale = guarded(&tag);
    for refused in [
        stale.patch(&path, &json!({"labels": {"rack": "b"}})),
        stale.to_state(&id, "migrating"),
        stale.delete(&path),
    ] {
        assert_eq!(refused.problem(412)["code"], "changed");
    }
    guarded(&format!("\"other\", {new}")).to_state(&id, "migrating").expect(200);
    guarded("*").to_state(&id, "active").expect(200);

    // Of many with the same tag one wins.
    let tag = read();
    let replies = at_once(20, |index| {
        let label = json!({"labels": {"winner": index.to_string()}});
        site.admin_at(index).with("if-match", &tag).patch(&path, &label).status
    });
    assert_eq!(replies.iter().filter(|status| **status == 200).count(), 1, "{replies:?}");
    assert_eq!(replies.iter().filter(|status| **status == 412).count(), 19, "{replies:?}");

    for (kind, spec) in [
        ("groups", json!({"name": "berlin"})),
        ("workflows", json!({"name": "debian", "kernel": "http://boot.example/vmlinuz"})),
    ] {
        let list = format!("/api/v1/{kind}");
        let made = site.admin().post(&list, &spec);
        made.expect(201);
        let path = format!("{list}/{}", spec["name"].as_str().unwrap());
        let tag = site.admin().get(&path).header("etag").unwrap().to_owned();
        assert_eq!(made.header("etag"), Some(&*tag));
        guarded("\"stale\"").put(&path, &spec).problem(412);
        guarded("\"stale\"").delete(&path).problem(412);
        guarded(&tag).put(&path, &spec).expect(200);
        guarded(&tag).delete(&path).expect(200);
    }
    let made = site.admin().post("/api/v1/tokens", &json!({"name": "short", "role": "viewer"}));
    let path = format!("/api/v1/tokens/{}", made.expect(201)["data"]["id"].as_str().unwrap());
    guarded("\"stale\"").delete(&path).problem(412);
    let gone = guarded(made.header("etag").unwrap()).delete(&path);
    assert_eq!(gone.expect(200)["data"]["state"], "revoked");
    assert_ne!(gone.header("etag"), made.header("etag"));
}

fn members_are_corrected_under_their_etag(on: Backend) {
    let site = Site::start(on);
    let api = site.admin();
    api.post("/api/satellites", &json!({"name": "edge-01"})).expect(200);
    let made = api.post("/api/v1/gpu-nodes", &json!({"hostname": "gpu-1"})).expect(201);
    let gpu_node = format!("/api/v1/gpu-nodes/{}", made["data"]["id"].as_str().unwrap());
    for (path, change) in [
        (gpu_node.as_str(), json!({"labels": {"rack": "a"}, "model": "A", "macs": [mac(1)]})),
        ("/api/satellites/edge-01", json!({"labels": {"rack": "a"}, "heartbeat_interval": "@every 40s"})),
    ] {
        let tag = api.get(path).header("etag").unwrap().to_owned();
        let held = site.admin().with("if-match", &tag);
        let changed = held.patch(path, &change);
        assert_eq!(changed.expect(200)["data"]["labels"], json!({"rack": "a"}));
        assert_eq!(site.admin().get(path).header("etag"), changed.header("etag"));
        assert_eq!(held.patch(path, &json!({"labels": {"rack": "b"}})).problem(412)["code"], "changed");
        let same = api.patch(path, &change);
        assert_eq!(same.header("etag"), changed.header("etag"), "what is so already changes nothing");
        api.patch(path, &json!({"state": "active"})).problem(400);
        let cleared = api.patch(path, &json!({"labels": {"rack": null}})).expect(200);
        assert_eq!(cleared["data"]["labels"], json!({}));
    }
}

fn a_report_leaves_the_etag_alone(on: Backend) {
    let site = Site::start(on);
    let id = node_in(&site.admin(), "installing", 1);
    let path = format!("/api/v1/nodes/{id}");
    let tag = site.admin().get(&path).header("etag").unwrap().to_owned();
    for report in [
        json!({"ip_address": "10.0.0.7", "vendor": "Acme", "hostname": "n1", "serial_number": "7"}),
        json!({"installation_status": "progress", "installation_progress": 40}),
        json!({"installation_status": "failed", "installation_error": "no disk"}),
    ] {
        let mut report = report;
        report["mac_address"] = json!(mac(1));
        site.admin().post("/api/v1/report", &report).expect(200);
        assert_eq!(site.admin().get(&path).header("etag"), Some(&*tag), "{report}");
    }
    site.admin().with("if-match", &tag).patch(&path, &json!({"labels": {"rack": "a"}})).expect(200);
}

fn a_patch_changes_clears_and_keeps(on: Backend) {
    let site = Site::start(on);
    let api = site.admin();
    workflow(&api, "debian");
    api.post("/api/v1/groups", &json!({"name": "berlin"})).expect(201);
    let create = json!({
        "mac_address": "52-54-00-AB-CD-EF", "hostname": "n1", "workflow_id": "debian", "group_id": "berlin",
        "vendor": "Acme", "model": "X", "serial_number": "7", "system_uuid": "u", "labels": {"rack": "a", "row": "1"},
    });
    let made = api.post("/api/v1/nodes", &create).expect(201)["data"].clone();
    assert_eq!(made["mac_address"], "52:54:00:ab:cd:ef");
    assert_eq!((&made["install_attempts"], &made["last_install_error"]), (&json!(0), &Value::Null));
    let id = made["id"].as_str().unwrap();
    let path = format!("/api/v1/nodes/{id}");
    let rows = || {
        api.get(&format!("/api/v1/history?kind=node&id={id}")).expect(200)["data"].as_array().unwrap().len()
    };

    let patch = json!({"workflow_id": null, "labels": {"rack": null, "shelf": "2"}});
    let node = api.patch(&path, &patch).expect(200)["data"].clone();
    assert_eq!(node["labels"], json!({"row": "1", "shelf": "2"}));
    assert_eq!((&node["workflow_id"], &node["group_id"]), (&Value::Null, &json!("berlin")));
    assert_eq!((&node["hostname"], &node["vendor"]), (&json!("n1"), &json!("Acme")));
    let before = rows();
    api.patch(&path, &json!({})).expect(200);
    api.patch(&path, &json!({"labels": {"row": "1"}})).expect(200);
    assert_eq!(rows(), before, "what changes nothing is no change");
    for (patch, field) in [
        (json!({"workflow_id": "missing"}), "workflow_id"),
        (json!({"group_id": "missing"}), "group_id"),
        (json!({"labels": {"white space": "x"}}), "labels"),
        (json!({"state": "active"}), "state"),
    ] {
        assert!(api.patch(&path, &patch).wrong_fields()[0].starts_with(field), "{patch}");
    }
}

fn only_a_retired_node_is_deleted_and_history_stays(on: Backend) {
    let site = Site::start(on);
    let api = site.admin();
    let id = node_in(&api, "active", 1);
    let path = format!("/api/v1/nodes/{id}");
    let refused = api.delete(&path).problem(409);
    assert_eq!(refused["allowed_actions"][0]["body"], json!({"state": "retired"}), "{refused}");
    api.to_state(&id, "retired").expect(200);
    api.delete(&path).expect(200);
    assert_eq!(site.admin().get(&path).expect(200)["data"]["deleted"], true);
    site.admin().delete(&path).problem(404);
    site.admin().to_state(&id, "pending").problem(404);
    let listed = site.admin().get("/api/v1/nodes").expect(200);
    assert_eq!(listed["data"], json!([]));
    assert_eq!(site.admin().get(&format!("{path}/history")).expect(200)["total"], 5);
    let rows = site.admin().get(&format!("/api/v1/history?kind=node&id={id}")).expect(200);
    assert_eq!(rows["data"][0]["type"], "deleted");
    api.post("/api/v1/nodes", &json!({"mac_address": mac(1)})).expect(201);
}

fn workflows_live_and_die(on: Backend) {
    let site = Site::start(on);
    let api = site.admin();
    workflow(&api, "debian");
    let path = "/api/v1/workflows/debian";
    let made = site.admin().get(path).expect(200)["data"].clone();
    assert_eq!(
        (&made["id"], &made["promote"], &made["arguments"]),
        (&json!("debian"), &json!(false), &json!("quiet"))
    );
    let spec = json!({"name": "debian", "kernel": "https://boot.example/other"});
    assert_eq!(api.post("/api/v1/workflows", &spec).problem(409)["allowed_actions"][0]["path"], path);
    assert_eq!(api.put(path, &spec).expect(200)["data"]["kernel"], "https://boot.example/other");
    assert_eq!(site.admin().get(path).expect(200)["data"]["initrd"], json!([]));
    api.put(path, &json!({"name": "other", "kernel": "http://boot.example/k"})).problem(400);
    api.put("/api/v1/workflows/missing", &json!({"name": "missing", "kernel": "http://boot.example/k"}))
        .problem(404);

    let create = json!({"mac_address": mac(1), "workflow_id": "debian"});
    let id = api.post("/api/v1/nodes", &create).expect(201)["data"]["id"].clone();
    assert_eq!(api.delete(path).problem(409)["code"], "in_use");
    let node_path = format!("/api/v1/nodes/{}", id.as_str().unwrap());
    api.patch(&node_path, &json!({"workflow_id": null})).expect(200);
    api.delete(path).expect(200);
    site.admin().get(path).problem(404);
    // A name can be used again; its history goes on.
    workflow(&api, "debian");
    let rows = site.admin().get("/api/v1/history?kind=workflow&id=debian").expect(200);
    let types: Vec<_> =
        rows["data"].as_array().unwrap().iter().map(|row| row["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["registered", "deleted", "changed", "registered"]);
}

fn every_change_is_logged_once(on: Backend) {
    let mut site = Site::start_with(on, &[("WARDROOM_LOG_LEVEL", "info"), ("WARDROOM_LOG_FORMAT", "json")]);
    let id = node_in(&site.admin(), "installing", 1);
    // A thread of its own writes the log; it has written everything when the server has ended.
    for server in &mut site.servers {
        server.terminate();
        assert!(server.wait().success());
    }
    let log: String = (0..site.servers.len()).map(|index| site.log(index)).collect();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let fields: Vec<_> =
        lines.map(|line| line["fields"].clone()).filter(|fields| fields["id"] == *id).collect();
    let moves: Vec<_> = fields.iter().filter(|fields| fields["type"] == "transition").collect();
    assert_eq!(fields.len(), 3, "{fields:?}");
    assert_eq!(moves.len(), 2);
    for fields in &moves {
        for field in ["kind", "from", "to", "triggered_by", "user", "request_id"] {
            assert!(fields[field].as_str().is_some_and(|text| !text.is_empty()), "no {field}: {fields}");
        }
    }
    assert!(!log.contains("wrt_"), "a token is in the log");
}

fn node(api: &Api, id: &str) -> Value {
    api.get(&format!("/api/v1/nodes/{id}")).expect(200)["data"].clone()
}

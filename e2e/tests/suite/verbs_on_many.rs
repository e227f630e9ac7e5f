//! `POST /api/v1/bulk`: a dry run says what would happen and writes nothing; a run does it to what was seen, member by member.

use serde_json::{Value, json};

use crate::support::{Api, Backend, Site, mac, node_in, on_both, satellite};

on_both! {
    a_dry_run_says_what_would_happen_and_writes_nothing,
    a_run_does_what_the_dry_run_saw,
    a_member_that_changed_meanwhile_is_left_alone,
    every_verb_can_be_tried,
    a_selection_is_that_of_the_list,
    the_rights_are_those_of_the_verb,
    a_run_on_many_is_repeated_without_a_second_effect,
    a_wrong_request_is_told,
}

const PATH: &str = "/api/v1/bulk";
const MOVE: &str = "/api/v1/nodes/{id}/state";

/// A dry run of a verb on these members.
fn tried(api: &Api, method: &str, path: &str, body: &Value, ids: &[&str]) -> Value {
    let members: Vec<_> = ids.iter().map(|id| json!({"id": id})).collect();
    let asked = json!({"method": method, "path": path, "body": body, "dry_run": true, "members": members});
    api.post(PATH, &asked).expect(200)["data"].clone()
}

/// The run that follows a dry run.
fn run(method: &str, path: &str, body: &Value, tried: &Value) -> Value {
    let items = tried["items"].as_array().unwrap();
    let members: Vec<_> =
        items.iter().map(|item| json!({"id": item["id"], "version": item["version"]})).collect();
    json!({"method": method, "path": path, "body": body, "members": members})
}

fn results(report: &Value) -> Vec<&str> {
    report["items"].as_array().unwrap().iter().map(|item| item["result"].as_str().unwrap()).collect()
}

/// The changes that people made so far.
fn rows(site: &Site) -> String {
    site.database.text("SELECT CAST(count(*) AS TEXT) FROM history WHERE triggered_by = 'admin'")
}

fn labelled(site: &Site, number: usize, zone: &str) -> String {
    let create = json!({"mac_address": mac(number), "labels": {"zone": zone}});
    let made = site.admin().post("/api/v1/nodes", &create).expect(201);
    made["data"]["id"].as_str().unwrap().to_owned()
}

fn a_dry_run_says_what_would_happen_and_writes_nothing(on: Backend) {
    let site = Site::start(on);
    let api = site.admin();
    let active = node_in(&api, "active", 1);
    let there = node_in(&api, "migrating", 2);
    let [a, b, _other] =
        [(3, "osl"), (4, "osl"), (5, "ber")].map(|(number, zone)| labelled(&site, number, zone));
    for id in [&a, &b] {
        api.to_state(id, "pending").expect(200);
    }
    let before = rows(&site);
    let moved = json!({"state": "migrating", "comment": "new rack"});
    let report = tried(&api, "PATCH", MOVE, &moved, &[&active, &there, &a, "missing"]);
    assert_eq!(results(&report), ["changed", "refused", "refused", "refused"], "{report}");
    let items = &report["items"];
    assert_eq!((&items[0]["state"], &items[0]["becomes"]), (&json!("active"), &json!("migrating")));
    assert_eq!(
        items[2]["problem"],
        refusal(&api.to_state(&a, "migrating").problem(409), &items[2]["problem"])
    );
    assert_eq!(items[3]["problem"]["code"], "not_found");
    assert_eq!((&report["changed"], &report["refused"]), (&json!(1), &json!(3)));
    assert_eq!(report["fleet"], json!({"members": 1, "of": 5, "percent": 20.0}));
    assert_eq!(rows(&site), before, "a dry run writes nothing");

    let report = tried(&api, "PATCH", MOVE, &json!({"state": "installing"}), &[&a, &b]);
    assert_eq!(results(&report), ["changed", "changed"], "{report}");
    assert_eq!(report["zones"], json!({"osl": {"members": 2, "of": 2, "percent": 100.0}}));
    assert_eq!(api.get(&format!("/api/v1/nodes/{a}")).expect(200)["data"]["state"], "pending");
    assert_eq!(rows(&site), before);
}

/// The refusal of a single call, with what differs between two requests taken from the other.
fn refusal(single: &Value, other: &Value) -> Value {
    let mut single = single.clone();
    single["request_id"] = other["request_id"].clone();
    single
}

fn a_run_does_what_the_dry_run_saw(on: Backend) {
    let site = Site::start(on);
    for name in ["edge-1", "edge-2", "edge-3"] {
        satellite::online(&site, name);
    }
    satellite::revoke(&site, "edge-3");
    let api = site.admin();
    let path = "/api/satellites/{id}/revoke";
    let body = json!({"comment": "stolen"});
    let select = json!({"method": "POST", "path": path, "body": body, "dry_run": true, "select": {}});
    let report = api.post(PATH, &select).expect(200)["data"].clone();
    assert_eq!(results(&report), ["changed", "changed", "unchanged"], "{report}");
    assert_eq!(report["items"][0]["name"], "edge-1");
    let done = api.post(PATH, &run("POST", path, &body, &report)).expect(200)["data"].clone();
    assert_eq!(results(&done), ["changed", "changed", "unchanged"], "{done}");
    assert_eq!(done["items"][1]["becomes"], "revoked");
    assert!(done["items"][0].get("answer").is_none(), "{done}");
    assert_eq!(satellite::get(&site, "edge-1")["status"], "revoked");
    let id = done["items"][0]["id"].as_str().unwrap();
    let newest = api.get(&format!("/api/v1/history?kind=satellite&id={id}&limit=1")).expect(200);
    assert_eq!(
        (&newest["data"][0]["comment"], &newest["data"][0]["user_id"]),
        (&json!("stolen"), &json!("first-admin"))
    );

    // What a run did is not done again: every member has another version by now.
    let again = api.post(PATH, &run("POST", path, &body, &report)).expect(200)["data"].clone();
    assert_eq!(results(&again), ["overtaken", "overtaken", "unchanged"], "{again}");
}

fn a_member_that_changed_meanwhile_is_left_alone(on: Backend) {
    let site = Site::start(on);
    let api = site.admin();
    let nodes = [1, 2, 3].map(|number| node_in(&api, "active", number));
    let [a, b, c] = [&*nodes[0], &*nodes[1], &*nodes[2]];
    let body = json!({"state": "retired"});
    let report = tried(&api, "PATCH", MOVE, &body, &[a, b, c]);
    assert_eq!(report["changed"], 3, "{report}");
    site.admin_at(1).patch(&format!("/api/v1/nodes/{b}"), &json!({"labels": {"keep": "yes"}})).expect(200);
    let answers = json!({"answers": true});
    let mut asked = run("PATCH", MOVE, &body, &report);
    asked["answers"] = answers["answers"].clone();
    let done = api.post(PATH, &asked).expect(200)["data"].clone();
    assert_eq!(results(&done), ["changed", "overtaken", "changed"], "{done}");
    assert_eq!(done["items"][1]["problem"]["code"], "changed");
    assert_eq!(done["items"][0]["answer"]["data"]["state"], "retired");
    assert_eq!(api.get(&format!("/api/v1/nodes/{b}")).expect(200)["data"]["state"], "active");
}

/// Verbs of every kind, each with whether it would change the member.
fn every_verb_can_be_tried(on: Backend) {
    let site = Site::start(on);
    let api = site.admin();
    let id = |made: &Value| made["data"]["id"].as_str().unwrap().to_owned();
    let node = node_in(&api, "active", 1);
    let gpu = id(&api.post("/api/v1/gpu-nodes", &json!({"hostname": "g1"})).expect(201));
    satellite::online(&site, "edge");
    let edge = satellite::get(&site, "edge")["id"].as_str().unwrap().to_owned();
    crate::support::fleet::workflow(&api, "debian");
    let workflow = id(&api.get("/api/v1/workflows/debian").expect(200));
    let (token, _) = site.new_token(&json!({"name": "vera", "role": "viewer"}));
    let before = rows(&site);
    for (method, path, body, id, result) in [
        ("PATCH", "/api/v1/nodes/{id}", json!({"labels": {"a": "b"}}), &node, "changed"),
        ("DELETE", "/api/v1/nodes/{id}", Value::Null, &node, "refused"),
        ("PATCH", "/api/v1/gpu-nodes/{id}", json!({"labels": {"a": "b"}}), &gpu, "changed"),
        ("POST", "/api/v1/gpu-nodes/{id}/actions/quarantine", json!({"comment": "odd"}), &gpu, "refused"),
        ("POST", "/api/v1/gpu-nodes/{id}/actions/stop_drain", json!({}), &gpu, "refused"),
        ("POST", "/api/v1/gpu-nodes/{id}/decommissions", json!({"mode": "remove"}), &gpu, "refused"),
        ("DELETE", "/api/v1/gpu-nodes/{id}", Value::Null, &gpu, "changed"),
        ("PATCH", "/api/satellites/{id}", json!({"labels": {"a": "b"}}), &edge, "changed"),
        ("POST", "/api/satellites/{id}/revoke", json!({}), &edge, "changed"),
        ("POST", "/api/satellites/{id}/reenable", json!({"mode": "refresh"}), &edge, "refused"),
        ("DELETE", "/api/satellites/{id}", Value::Null, &edge, "changed"),
        ("DELETE", "/api/v1/workflows/{id}", Value::Null, &workflow, "changed"),
        ("DELETE", "/api/v1/tokens/{id}", Value::Null, &token, "changed"),
    ] {
        let report = tried(&api, method, path, &body, &[id]);
        assert_eq!(results(&report), [result], "{method} {path}: {report}");
    }
    assert_eq!(rows(&site), before, "dry runs write nothing");
}

fn a_selection_is_that_of_the_list(on: Backend) {
    let site = Site::start(on);
    let api = site.admin();
    let [a, b, _other] =
        [(1, "osl"), (2, "osl"), (3, "ber")].map(|(number, zone)| labelled(&site, number, zone));
    let asked = |select: &Value| json!({"method": "PATCH", "path": MOVE, "body": {"state": "pending"}, "dry_run": true, "select": select});
    let report =
        api.post(PATH, &asked(&json!({"labelSelector": "zone=osl", "state": "discovered"}))).expect(200);
    let items = report["data"]["items"].as_array().unwrap().clone();
    let ids: Vec<_> = items.iter().map(|item| item["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [a, b]);
    for (select, field) in [
        (json!({"labelSelector": "="}), "select.labelSelector"),
        (json!({"colour": "red"}), "select.colour"),
        (json!({"limit": "5"}), "select.limit"),
        (json!({"labelSelector": "zone=nowhere"}), "select"),
    ] {
        assert_eq!(api.post(PATH, &asked(&select)).wrong_fields(), [field]);
    }
}

fn the_rights_are_those_of_the_verb(on: Backend) {
    let site = Site::start(on);
    let node = node_in(&site.admin(), "discovered", 1);
    let failed = node_in(&site.admin(), "install_failed", 2);
    let caller = |token: &Value| site.caller(1, Some(&site.new_token(token).1));
    let installer = caller(&json!({"name": "ines", "role": "installer"}));
    let body = json!({"state": "pending"});
    let report = tried(&installer, "PATCH", MOVE, &body, &[&node, &failed]);
    assert_eq!(results(&report), ["changed", "refused"], "{report}");
    assert_eq!(report["items"][1]["problem"]["status"], 403);
    let ask = |path: &str, method: &str| json!({"method": method, "path": path, "body": {}, "dry_run": true, "members": [{"id": node}]});
    installer.post(PATH, &ask("/api/v1/nodes/{id}", "PATCH")).problem(403);
    caller(&json!({"name": "vera", "role": "viewer"})).post(PATH, &ask(MOVE, "PATCH")).problem(403);
    let satellites = caller(&json!({"name": "sat", "role": "admin", "kinds": ["satellite"]}));
    satellites.post(PATH, &ask(MOVE, "PATCH")).problem(403);
}

fn a_run_on_many_is_repeated_without_a_second_effect(on: Backend) {
    let site = Site::start(on);
    let api = site.admin();
    let ids: Vec<_> = (1..4).map(|number| node_in(&api, "discovered", number)).collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    let body = json!({"state": "pending"});
    let asked = run("PATCH", MOVE, &body, &tried(&api, "PATCH", MOVE, &body, &ids));
    let send = |index| site.admin_at(index).with("idempotency-key", "many").post(PATH, &asked);
    let (first, before) = (send(0).expect(200), rows(&site));
    assert_eq!(first["data"]["changed"], 3, "{first}");
    assert_eq!((send(1).expect(200), rows(&site)), (first, before));
}

fn a_wrong_request_is_told(on: Backend) {
    let site = Site::start(on);
    let api = site.admin();
    let many: Vec<_> = (0..1001).map(|number| json!({"id": number.to_string()})).collect();
    let one = json!([{"id": "x", "version": 1}]);
    for (method, path, members, dry_run, field) in [
        ("PATCH", "/api/v1/nodes/x/state", &one, true, "path"),
        ("PATCH", "/api/v1/nodes/{id}/{id}", &one, true, "path"),
        ("PATCH", "/api/v1/nodes/{id}/nowhere", &one, true, "path"),
        ("PATCH", "/api/v1/nodes/{id}/state?x=1", &one, true, "path"),
        ("PATCH", "/api/{id}/nodes/x/state", &one, true, "path"),
        ("GET", "/api/v1/nodes/{id}", &one, true, "path"),
        ("POST", "/api/v1/nodes/{id}/installation-status", &one, true, "path"),
        ("POST", "/api/satellites/{id}/reenable", &one, false, "path"),
        ("PATCH", MOVE, &json!([]), true, "members"),
        ("PATCH", MOVE, &json!(many), true, "members"),
        ("PATCH", MOVE, &json!([{"id": "x"}]), false, "members"),
        ("PATCH", MOVE, &json!([{"id": "x"}, {"id": "x"}]), true, "members"),
    ] {
        let asked =
            json!({"method": method, "path": path, "body": {}, "dry_run": dry_run, "members": members});
        assert_eq!(api.post(PATH, &asked).wrong_fields(), [field], "{asked}");
    }
    let both = json!({"method": "PATCH", "path": MOVE, "dry_run": true, "members": one, "select": {}});
    assert_eq!(api.post(PATH, &both).wrong_fields(), ["select"]);
    let real = json!({"method": "PATCH", "path": MOVE, "select": {}});
    assert_eq!(api.post(PATH, &real).wrong_fields(), ["select"]);
    // A wrong body is the refusal of each member.
    let report = tried(&api, "PATCH", MOVE, &json!({"state": 7}), &[&node_in(&api, "active", 1)]);
    assert_eq!(report["items"][0]["problem"]["errors"][0]["field"], "state", "{report}");
}

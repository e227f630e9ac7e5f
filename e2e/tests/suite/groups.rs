//! Groups: settings inherited down a tree, and promotion where a setting says so.

use serde_json::{Value, json};

use crate::support::{Backend, Site, fleet::workflow, mac, on_both};

on_both! {
    settings_are_inherited,
    a_tree_has_no_circle,
    a_tree_is_as_deep_as_it_may_be,
    a_group_in_use_stays,
    a_group_whose_tokens_are_revoked_goes,
    promotion_is_off_by_default,
    promotion_by_device_group_user_group_and_workflow,
}

fn settings_are_inherited(on: Backend) {
    let site = Site::start(on);
    let group = |name: &str, parent: Option<&str>, promote: Option<bool>| {
        let spec = json!({"name": name, "parent_id": parent, "auto_promote": promote});
        site.admin().post("/api/v1/groups", &spec).expect(201)["data"]["effective_auto_promote"].clone()
    };
    assert_eq!(group("root", None, None), false);
    assert_eq!(group("site", Some("root"), Some(true)), true);
    assert_eq!(group("rack", Some("site"), None), true);
    assert_eq!(group("lab", Some("rack"), Some(false)), false);
    assert_eq!(group("bench", Some("lab"), None), false);
    let effective = |name: &str| {
        site.admin().get(&format!("/api/v1/groups/{name}")).expect(200)["data"]["effective_auto_promote"]
            .clone()
    };
    let site_spec = json!({"name": "site", "parent_id": "root", "auto_promote": null});
    site.admin().put("/api/v1/groups/site", &site_spec).expect(200);
    site.admin().put("/api/v1/groups/root", &json!({"name": "root", "auto_promote": true})).expect(200);
    for (name, expected) in [("root", true), ("site", true), ("rack", true), ("lab", false), ("bench", false)]
    {
        assert_eq!(effective(name), expected, "{name}");
    }
}

fn a_tree_has_no_circle(on: Backend) {
    let site = Site::start(on);
    let api = site.admin();
    for (name, parent) in [("a", Value::Null), ("b", json!("a")), ("c", json!("b"))] {
        api.post("/api/v1/groups", &json!({"name": name, "parent_id": parent})).expect(201);
    }
    for (name, parent) in [("a", "c"), ("a", "a"), ("b", "missing")] {
        let spec = json!({"name": name, "parent_id": parent});
        assert_eq!(api.put(&format!("/api/v1/groups/{name}"), &spec).wrong_fields(), ["parent_id"]);
    }
    let users = json!({"name": "users", "type": "user", "parent_id": "a"});
    assert_eq!(api.post("/api/v1/groups", &users).wrong_fields(), ["parent_id"]);
    for name in ["", "UPPER", "white space", "-x", &"x".repeat(64)] {
        assert_eq!(api.post("/api/v1/groups", &json!({"name": name})).wrong_fields(), ["name"]);
    }
    assert_eq!(api.post("/api/v1/groups", &json!({"name": "x", "type": "robot"})).wrong_fields(), ["type"]);
    api.post("/api/v1/groups", &json!({"name": "a"})).problem(409);
}

fn a_tree_is_as_deep_as_it_may_be(on: Backend) {
    let site = Site::start(on);
    let api = site.admin();
    let put = |name: &str, parent: &str| {
        api.put(&format!("/api/v1/groups/{name}"), &json!({"name": name, "parent_id": parent}))
    };
    for (tree, promote) in [("a", Some(true)), ("b", None)] {
        for level in 0..30 {
            let parent = (level > 0).then(|| format!("{tree}{}", level - 1));
            let setting = promote.filter(|_| level == 0);
            let spec =
                json!({"name": format!("{tree}{level}"), "parent_id": parent, "auto_promote": setting});
            api.post("/api/v1/groups", &spec).expect(201);
        }
    }
    // Three levels of the one and thirty of the other are too many.
    for parent in ["a2", "a9", "a29"] {
        assert_eq!(put("b0", parent).wrong_fields(), ["parent_id"], "{parent}");
    }
    // A part of it fits; the inherited value reaches the end of the tree.
    for (top, bottom) in [("a1", "b29"), ("a0", "b29")] {
        assert_eq!(put("b0", top).expect(200)["data"]["effective_auto_promote"], true);
        let found = api.get(&format!("/api/v1/groups/{bottom}")).expect(200);
        assert_eq!(found["data"]["effective_auto_promote"], true, "{top}");
    }
    let listed = api.get("/api/v1/groups?limit=1000").expect(200);
    let groups = listed["data"].as_array().unwrap();
    assert_eq!(groups.len(), 60);
    assert!(groups.iter().all(|group| group["effective_auto_promote"] == true), "{listed}");
}

/// The bearer of a token is in its group; a revoked token has no bearer.
fn a_group_whose_tokens_are_revoked_goes(on: Backend) {
    let site = Site::start(on);
    let api = site.admin();
    api.post("/api/v1/groups", &json!({"name": "users", "type": "user"})).expect(201);
    let member =
        |name: &str| site.new_token(&json!({"name": name, "role": "operator", "group_id": "users"})).0;
    let (first, second) = (member("first"), member("second"));
    let gone = |id: &str| api.delete(&format!("/api/v1/tokens/{id}")).expect(200);
    assert_eq!(gone(&first)["data"]["group_id"], "users", "it is still said where it was");
    assert_eq!(api.delete("/api/v1/groups/users").problem(409)["code"], "in_use");
    gone(&second);
    gone(&second);
    api.delete("/api/v1/groups/users").expect(200);
}

fn a_group_in_use_stays(on: Backend) {
    let site = Site::start(on);
    let api = site.admin();
    for (name, kind, parent) in [
        ("parent", "device", Value::Null),
        ("child", "device", json!("parent")),
        ("users", "user", Value::Null),
    ] {
        api.post("/api/v1/groups", &json!({"name": name, "type": kind, "parent_id": parent})).expect(201);
    }
    api.post("/api/v1/nodes", &json!({"mac_address": mac(1), "group_id": "child"})).expect(201);
    site.new_token(&json!({"name": "ute", "role": "operator", "group_id": "users"}));
    for name in ["parent", "child", "users"] {
        assert_eq!(api.delete(&format!("/api/v1/groups/{name}")).problem(409)["code"], "in_use", "{name}");
    }
    // Nodes are in device groups, users in user groups.
    let node = json!({"mac_address": mac(2), "group_id": "users"});
    assert_eq!(api.post("/api/v1/nodes", &node).wrong_fields(), ["group_id"]);
    let token = json!({"name": "x", "role": "viewer", "group_id": "child"});
    assert_eq!(api.post("/api/v1/tokens", &token).wrong_fields(), ["group_id"]);
}

/// Installs a node and gives its transitions, newest first.
fn install(site: &Site, number: usize, create: Value, approver: &str) -> Vec<Value> {
    let mut create = create;
    create["mac_address"] = json!(mac(number));
    let made = site.admin().post("/api/v1/nodes", &create).expect(201);
    let id = made["data"]["id"].as_str().unwrap();
    site.caller(number, Some(approver)).to_state(id, "pending").expect(200);
    for status in ["started", "complete"] {
        let path = format!("/api/v1/nodes/{id}/installation-status");
        let said = site.admin().post(&path, &json!({"status": status})).expect(200);
        let state = said["data"]["state"].as_str().unwrap();
        assert_eq!(said["message"], format!("The node is {state}."));
    }
    let rows = site.admin().get(&format!("/api/v1/nodes/{id}/history")).expect(200)["data"].clone();
    rows.as_array().unwrap().clone()
}

fn promotion_is_off_by_default(on: Backend) {
    let site = Site::start(on);
    workflow(&site.admin(), "debian");
    site.admin().post("/api/v1/groups", &json!({"name": "rack"})).expect(201);
    let create = json!({"workflow_id": "debian", "group_id": "rack"});
    let rows = install(&site, 1, create, &site.token);
    assert_eq!(rows[0]["to_state"], "installed");
    assert_eq!(rows.len(), 3);
}

fn promotion_by_device_group_user_group_and_workflow(on: Backend) {
    let site = Site::start(on);
    let api = site.admin();
    api.post("/api/v1/groups", &json!({"name": "site", "auto_promote": true})).expect(201);
    api.post("/api/v1/groups", &json!({"name": "rack", "parent_id": "site"})).expect(201);
    api.post("/api/v1/groups", &json!({"name": "lab", "parent_id": "site", "auto_promote": false}))
        .expect(201);
    api.post("/api/v1/groups", &json!({"name": "trusted", "type": "user", "auto_promote": true})).expect(201);
    let promoting = json!({"name": "promoting", "kernel": "http://boot.example/vmlinuz", "promote": true});
    api.post("/api/v1/workflows", &promoting).expect(201);
    let (_, trusted) = site.new_token(&json!({"name": "ute", "role": "installer", "group_id": "trusted"}));
    for (number, (create, approver, because)) in [
        (json!({"group_id": "rack"}), &site.token, Some("group rack")),
        (json!({"group_id": "lab"}), &site.token, None),
        (json!({}), &trusted, Some("group trusted")),
        (json!({"workflow_id": "promoting"}), &site.token, Some("workflow promoting")),
        (json!({}), &site.token, None),
    ]
    .into_iter()
    .enumerate()
    {
        let rows = install(&site, number, create.clone(), approver);
        match because {
            None => assert_eq!(rows[0]["to_state"], "installed", "{create}"),
            Some(because) => {
                assert_eq!(
                    (&rows[0]["from_state"], &rows[0]["to_state"]),
                    (&json!("installed"), &json!("active"))
                );
                assert_eq!(rows[0]["triggered_by"], "system");
                assert_eq!(rows[0]["user_id"], Value::Null);
                assert!(rows[0]["metadata"].to_string().contains(because), "{}", rows[0]);
            }
        }
    }
}

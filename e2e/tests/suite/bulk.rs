//! Moving many nodes at once: each succeeds or fails by itself.

use serde_json::json;

use crate::support::{Backend, Site, node_in, on_both};

on_both! {
    each_node_has_its_own_result,
    a_bulk_request_has_bounds,
    an_installer_approves_in_bulk_and_nothing_else,
}

const PATH: &str = "/api/v1/nodes/bulk/state";

fn each_node_has_its_own_result(on: Backend) {
    let site = Site::start(on);
    let api = site.admin();
    let active = node_in(&api, "active", 1);
    let pending = node_in(&api, "pending", 2);
    let there = node_in(&api, "migrating", 3);
    let ids = json!([active, "missing", pending, there, active]);
    let bulk = json!({"node_ids": ids, "state": "migrating", "comment": "new rack"});
    let result = api.post(PATH, &bulk).expect(200)["data"].clone();
    assert_eq!((&result["moved"], &result["refused"]), (&json!(1), &json!(4)), "{result}");
    let items = result["items"].as_array().unwrap();
    assert_eq!(items.iter().map(|item| item["id"].clone()).collect::<Vec<_>>(), *ids.as_array().unwrap());
    let mut statuses: Vec<_> = items.iter().map(|item| item["status"].as_u64().unwrap()).collect();
    // The node that is named twice moves once, whichever of the two comes first.
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 404, 409, 409, 409], "{result}");
    let allowed = items[2]["problem"]["allowed_actions"].as_array().unwrap();
    let states: Vec<_> = allowed.iter().map(|action| &action["body"]["state"]).collect();
    assert_eq!(states, ["installing", "retired"]);
    let newest = site.admin().get(&format!("/api/v1/nodes/{active}/history?limit=1")).expect(200);
    assert_eq!(newest["data"][0]["comment"], "new rack");
}

fn a_bulk_request_has_bounds(on: Backend) {
    let site = Site::start(on);
    let many: Vec<_> = (0..1001).map(|number| number.to_string()).collect();
    for (bulk, field) in [
        (json!({"node_ids": [], "state": "pending"}), "node_ids"),
        (json!({"node_ids": many, "state": "pending"}), "node_ids"),
        (json!({"node_ids": ["x"], "state": "asleep"}), "state"),
        (json!({"node_ids": ["x"], "state": "pending", "comment": "x".repeat(2001)}), "comment"),
        (json!({"node_ids": [7], "state": "pending"}), "node_ids[0]"),
        (json!({"node_ids": ["x"]}), "state"),
    ] {
        let problem = site.admin().post(PATH, &bulk).problem(400);
        assert!(problem["detail"].as_str().unwrap().contains(field), "{field}: {problem}");
    }
    let result = site.admin().post(PATH, &json!({"node_ids": many[..1000], "state": "pending"})).expect(200);
    assert_eq!(result["data"]["refused"], 1000);
}

fn an_installer_approves_in_bulk_and_nothing_else(on: Backend) {
    let site = Site::start(on);
    let new = node_in(&site.admin(), "discovered", 1);
    let failed = node_in(&site.admin(), "install_failed", 2);
    let another = node_in(&site.admin(), "discovered", 3);
    let (_, token) = site.new_token(&json!({"name": "ines", "role": "installer"}));
    let installer = site.caller(1, Some(&token));
    let bulk = json!({"node_ids": [new, failed], "state": "pending"});
    let items = installer.post(PATH, &bulk).expect(200)["data"]["items"].clone();
    assert_eq!((&items[0]["status"], &items[1]["status"]), (&json!(200), &json!(403)), "{items}");
    installer.to_state(&new, "installing").problem(403);
    let forced = json!({"state": "pending", "force": true});
    installer.patch(&format!("/api/v1/nodes/{another}/state"), &forced).problem(403);
    installer.to_state(&failed, "pending").problem(403);
}

//! Retired is for good: neither a boot nor a report brings a machine back, only a person does.

use serde_json::json;

use crate::support::{Backend, Site, mac, node_in, on_both};

on_both! {
    a_retired_machine_is_not_revived,
}

fn a_retired_machine_is_not_revived(on: Backend) {
    let site = Site::start(on);
    let id = node_in(&site.admin(), "retired", 1);
    let script = site.machine(None).get(&format!("/api/v1/boot?mac={}", mac(1))).text();
    assert!(script.contains("sanboot"), "{script}");
    site.machine(None).post("/api/v1/report", &json!({"mac_address": mac(1), "hostname": "back"}));
    let nodes = || site.admin().get("/api/v1/nodes").expect(200)["data"].as_array().unwrap().clone();
    assert_eq!(nodes().len(), 1, "a retired machine came back: {:?}", nodes());
    assert_eq!((&nodes()[0]["id"], &nodes()[0]["state"]), (&json!(id), &json!("retired")));
    assert_eq!(nodes()[0]["hostname"], json!(null), "a retired node still changes");

    // A person may start again with the machine.
    let made = site.admin().post("/api/v1/nodes", &json!({"mac_address": mac(1)})).expect(201);
    let report = json!({"mac_address": mac(1), "hostname": "new"});
    let reported = site.machine(None).post("/api/v1/report", &report).expect(200);
    assert_eq!(reported["data"]["id"], made["data"]["id"]);
}

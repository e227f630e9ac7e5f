//! Unknown machines: registered to await approval, limited in rate and number, or not registered at all.

use std::{thread, time::Duration};

use serde_json::json;

use crate::support::{Backend, Site, at_once, mac, on_both, wait_for};

on_both! {
    an_unknown_machine_is_registered,
    a_machine_is_registered_whatever_its_firmware_says,
    discovery_can_be_turned_off,
    discovery_is_limited_in_rate,
    discovery_is_limited_in_number,
    a_limit_holds_for_many_at_once,
}

fn count(site: &Site) -> usize {
    site.admin().get("/api/v1/nodes?limit=1000").expect(200)["data"].as_array().unwrap().len()
}

fn boot(site: &Site, number: usize) {
    let script = site.machine(None).get(&format!("/api/v1/boot?mac={}", mac(number)));
    assert_eq!(script.status, 200, "a machine must boot whatever we think of it: {}", script.text());
    assert!(script.text().contains("sanboot"), "{}", script.text());
}

fn an_unknown_machine_is_registered(on: Backend) {
    let site = Site::start(on);
    site.machine(None).get(&format!("/api/v1/boot?mac={}&vendor=Acme&model=X&serial=7&uuid=u", mac(1)));
    let report = json!({
        "mac_address": mac(2), "ip_address": "10.0.0.7", "hostname": "n2", "vendor": "Acme", "model": "X",
        "serial_number": "7", "system_uuid": "u",
    });
    site.machine(None).post("/api/v1/report", &report).expect(200);
    let nodes = site.admin().get("/api/v1/nodes").expect(200)["data"].clone();
    for (index, node) in nodes.as_array().unwrap().iter().enumerate() {
        assert_eq!(node["mac_address"], mac(index + 1));
        assert_eq!(node["state"], "discovered");
        for (field, value) in
            [("vendor", "Acme"), ("model", "X"), ("serial_number", "7"), ("system_uuid", "u")]
        {
            assert_eq!(node[field], value, "{node}");
        }
        let id = node["id"].as_str().unwrap();
        let rows = site.admin().get(&format!("/api/v1/history?kind=node&id={id}")).expect(200);
        assert_eq!(rows["data"][0]["triggered_by"], "node_report");
        assert_eq!(rows["data"][0]["type"], "registered");
    }
    assert_eq!(count(&site), 2);
}

/// The text in a firmware cannot be corrected.
fn a_machine_is_registered_whatever_its_firmware_says(on: Backend) {
    let site = Site::start(on);
    let model = "x".repeat(300);
    let said = format!("vendor=A%07cme%0A&model={model}&serial=%AE7&uuid=%00");
    let script = site.machine(None).get(&format!("/api/v1/boot?mac={}&{said}", mac(1))).text();
    assert!(script.contains("discovered"), "{script}");
    let node = &site.admin().get("/api/v1/nodes").expect(200)["data"][0];
    assert_eq!(node["mac_address"], mac(1));
    assert_eq!((&node["vendor"], &node["model"]), (&json!("A cme "), &json!(model[..255])));
    assert_eq!((&node["serial_number"], &node["system_uuid"]), (&json!("\u{fffd}7"), &json!(" ")));
}

/// A machine that hangs up during its first boot leaves nothing that other servers would wait for.
#[test]
fn a_machine_that_hangs_up_delays_no_other() {
    let site = Site::start(Backend::Postgres);
    let held = "SELECT 1 FROM leases WHERE name = 'discovery' AND expires_at > 0";
    for number in 0..60 {
        let path = format!("/api/v1/boot?mac={}", mac(number));
        let request = site.machine(None).open("GET", &path, 0, "close").unwrap();
        thread::sleep(Duration::from_millis(number as u64 % 30));
        drop(request);
        wait_for("the lease to be given back", || (site.database.count(held) == 0).then_some(()));
    }
}

fn discovery_can_be_turned_off(on: Backend) {
    let site = Site::start_with(on, &[("WARDROOM_NODES_DISCOVER", "false")]);
    boot(&site, 1);
    site.machine(None).post("/api/v1/report", &json!({"mac_address": mac(1)})).problem(404);
    assert_eq!(count(&site), 0);
}

fn discovery_is_limited_in_rate(on: Backend) {
    let site = Site::start_with(on, &[("WARDROOM_NODES_DISCOVER_PER_MINUTE", "5")]);
    for number in 0..30 {
        boot(&site, number);
    }
    // Each server has its own bucket, and a token comes back in the meantime.
    assert!((5..=7 * site.servers.len()).contains(&count(&site)), "{} were registered", count(&site));
    let refused = site.machine(None).post("/api/v1/report", &json!({"mac_address": mac(99)}));
    refused.problem(429);
    assert!(refused.header("retry-after").is_some());
}

fn discovery_is_limited_in_number(on: Backend) {
    let site = Site::start_with(on, &[("WARDROOM_NODES_DISCOVER_MAX", "3")]);
    for number in 0..6 {
        boot(&site, number);
    }
    assert_eq!(count(&site), 3);
    let report = site.machine(None).post("/api/v1/report", &json!({"mac_address": mac(9)}));
    assert!(
        report.problem(report.status)["detail"].as_str().unwrap().contains("approv"),
        "{}",
        report.text()
    );
    assert!([403, 429, 503].contains(&report.status), "{}", report.status);
    let waiting = site.admin().get("/api/v1/nodes").expect(200)["data"][0]["id"].clone();
    site.admin().to_state(waiting.as_str().unwrap(), "pending").expect(200);
    boot(&site, 9);
    assert_eq!(count(&site), 4);
    at_once(20, |index| boot(&site, 100 + index));
    assert_eq!(count(&site), 4, "a cap holds under load, and each machine still boots");
}

fn a_limit_holds_for_many_at_once(on: Backend) {
    let site = Site::start_with(on, &[("WARDROOM_NODES_DISCOVER_MAX", "5")]);
    at_once(40, |index| boot(&site, index));
    assert_eq!(count(&site), 5);
}

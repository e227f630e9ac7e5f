//! A small fleet for the pages: members of each kind in several states, and names as an attacker would choose them.

use serde_json::json;

use crate::support::{
    Site, cluster,
    device::{Device, open_token},
    fleet, satellite,
};

/// What a page must show as text, whatever it is.
const HOSTILE: &str = "<b onmouseover=alert(1)>\"'&\u{202e}gnp.\u{1f4a9}";

/// Fills a site.
pub(super) fn set_up(site: &Site) {
    let api = site.admin();
    for (number, &state) in fleet::STATES.iter().enumerate() {
        let id = fleet::node_in(&api, state, number);
        let labels = json!({"rack": format!("r{}", number % 3), "site": "berlin"});
        api.patch(&format!("/api/v1/nodes/{id}"), &json!({"labels": labels})).expect(200);
    }
    for name in ["ware-lyon-1", "ware-oslo-2", "ware-rome-3"] {
        satellite::online(site, name);
    }
    satellite::create(site, "ware-kyiv-4");
    api.post("/api/satellites/ware-rome-3/revoke", &json!({"comment": HOSTILE})).expect(200);
    for name in ["gpu-b07", "gpu-b08"] {
        let made =
            api.post("/api/v1/gpu-nodes", &json!({"hostname": name, "labels": {"rack": "b"}})).expect(201);
        if name == "gpu-b07" {
            // Its run goes on, and waits for its first healthy heartbeat.
            let token = json!({"token": made["data"]["token"]});
            site.caller(0, None).post("/api/v1/gpu-nodes/enroll", &token).expect(200);
        }
    }
    let device = Device::enrolled(site, &open_token(site));
    let report = json!({"resources": {"cpu": "Healthy", "memory": "Degraded"}});
    assert_eq!(device.report(site, 0, &report).status, 204);
    for name in ["prod-eu-3", "prod-us-1"] {
        let made = cluster::cluster(&api, name);
        let id = made["id"].as_str().unwrap();
        cluster::tell(&api, id, &cluster::report("dns", 1, "True", None));
    }
}

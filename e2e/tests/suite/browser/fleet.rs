//! A small fleet for the pages: members of each kind in several states, and names as an attacker would choose them.

use serde_json::json;

use crate::support::{Site, cluster, fleet, satellite};

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
    for name in ["prod-eu-3", "prod-us-1"] {
        let made = cluster::cluster(&api, name);
        let id = made["id"].as_str().unwrap();
        cluster::tell(&api, id, &cluster::report("dns", 1, "True", None));
    }
}

//! Slow tests: an installation that falls silent, and an install token that expires.

use std::{thread, time::Duration};

use serde_json::json;

use crate::support::{
    Backend, Site,
    fleet::{token_in, workflow},
    long_on_both, mac, node_in,
};

long_on_both! {
    silence_counts_as_a_failure_and_tokens_expire,
}

fn silence_counts_as_a_failure_and_tokens_expire(on: Backend) {
    let settings =
        [("WARDROOM_NODES_INSTALL_PATIENCE_MINUTES", "1"), ("WARDROOM_BOOT_INSTALL_TOKEN_MINUTES", "1")];
    let site = Site::start_with(on, &settings);
    workflow(&site.admin(), "debian");
    let silent = node_in(&site.admin(), "installing", 1);
    let talking = node_in(&site.admin(), "installing", 2);
    let path = format!("/api/v1/nodes/{talking}");
    site.admin().patch(&path, &json!({"workflow_id": "debian"})).expect(200);
    let token = token_in(&site.machine(None).get(&format!("/api/v1/boot?mac={}", mac(2))).text());
    let report = json!({"status": "progress", "progress": 1});
    let by_machine = || site.machine(Some(&token)).post(&format!("{path}/installation-status"), &report);
    by_machine().expect(200);

    for _ in 0..60 {
        thread::sleep(Duration::from_millis(1500));
        site.admin().post(&format!("{path}/installation-status"), &report).expect(200);
        let node = site.admin().get(&format!("/api/v1/nodes/{silent}")).expect(200)["data"].clone();
        if node["install_attempts"] == 0 {
            continue;
        }
        assert_eq!((&node["install_attempts"], &node["state"]), (&json!(1), &json!("installing")));
        let row = site.admin().get(&format!("/api/v1/history?kind=node&id={silent}&limit=1")).expect(200);
        assert_eq!(row["data"][0]["triggered_by"], "system");
        assert_eq!(row["data"][0]["type"], "attempt");
        let why = site.admin().get(&format!("/api/v1/resources/node/{silent}/why")).expect(200);
        assert!(why["data"][0]["blockers"].to_string().contains("no report"), "{why}");
        // A node that reports is not silent, but its token has expired by now.
        let node = site.admin().get(&path).expect(200);
        assert_eq!(node["data"]["install_attempts"], 0);
        assert!(by_machine().problem(401)["detail"].as_str().unwrap().contains("expired"));
        return;
    }
    panic!("the timer did not notice the silence");
}

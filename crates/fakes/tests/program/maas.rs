//! The MAAS fake as a program: its address, its control, and its limit.

use serde_json::{Value, json};

use crate::Program;

impl Program {
    async fn read(&self, path: &str) -> Value {
        crate::answer(self.client.get(format!("{}{path}", self.url))).await.1
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let request = self.client.post(format!("{}{path}", self.url)).body(body.to_string());
        crate::answer(request).await
    }
}

#[tokio::test]
async fn the_program_is_controlled_over_http() {
    let maas = Program::start(&["maas", "--machines", "3"]);
    assert_eq!(maas.read("/_fake/machines").await.as_array().unwrap().len(), 3);
    let seed = json!({"hostname": "extra", "status": 9, "configured": true});
    let (status, made) = maas.post("/_fake/machines", &seed).await;
    assert_eq!(status, 200);
    let id = made["system_id"].as_str().unwrap();
    assert!(maas.url.starts_with("http://127.0.0.1:") && maas.url.ends_with("/MAAS"));
    let root = maas.client.get(format!("{}/_fake/machines", maas.url.trim_end_matches("/MAAS")));
    assert_eq!(crate::answer(root).await.0, 200);
    assert_eq!(maas.post("/_fake/machines/extra", &json!({"power": "off"})).await.0, 200);
    let of = |rest: &str| format!("/_fake/machines/{id}{rest}");
    let change = json!({"power": "on", "outcomes": {"deploying": [{"fail": "no"}, "pass", "stall"]}});
    assert_eq!(maas.post(&of(""), &change).await.0, 200);
    assert_eq!(maas.post(&of("/finish"), &json!("pass")).await.0, 200);
    assert_eq!(maas.post(&of("/finish"), &json!({"fail": "why"})).await.0, 200);
    let fault = json!({"op": "version", "kind": {"status": 504}, "when": "after"});
    assert_eq!(maas.post("/_fake/faults", &fault).await.0, 200);
    assert_eq!(maas.post("/_fake/faults", &json!({"kind": "explode"})).await.0, 400);
    assert_eq!(maas.post("/_fake/faults", &json!({"op": "nonsense", "kind": "busy"})).await.0, 400);
    let version = format!("{}/api/2.0/version/", maas.url);
    let statuses = [504, 200];
    for expected in statuses {
        assert_eq!(maas.client.get(&version).send().await.unwrap().status().as_u16(), expected);
    }
    assert_eq!(maas.read("/_fake/requests").await, json!({"version": 2}));
    assert_eq!(maas.read("/_fake/effects").await, json!({}));
    let gone = maas.client.delete(format!("{}{}", maas.url, of(""))).send().await.unwrap();
    assert_eq!(gone.status().as_u16(), 200);
    assert_eq!(maas.post(&of("/finish"), &json!("pass")).await.0, 404);
}

#[tokio::test]
async fn the_program_refuses_above_its_limit() {
    let limits = ["--requests-per-second", "2", "--over-limit", "refuse"];
    let maas = Program::start(&[&["maas"][..], &limits[..]].concat());
    let version = format!("{}/api/2.0/version/", maas.url);
    for _ in 0..100 {
        let response = maas.client.get(&version).send().await.unwrap();
        if response.status().as_u16() == 503 {
            assert_eq!(response.headers()["retry-after"], "1");
            return;
        }
    }
    panic!("a hundred requests at once were not too many");
}

#[cfg(feature = "redfish")]
#[tokio::test]
async fn a_bmc_is_a_program_too() {
    let bmc = Program::start(&["redfish", "--systems", "2"]);
    assert_eq!(bmc.post("/redfish/v1/Systems/1/Actions/ComputerSystem.Reset", &json!({})).await.0, 401);
    let login = "Basic cm9vdDpjYWx2aW4=";
    let reset = format!("{}/redfish/v1/Systems/2/Actions/ComputerSystem.Reset", bmc.url);
    let request = bmc.client.post(reset).header("authorization", login).body(r#"{"ResetType": "On"}"#);
    assert_eq!(request.send().await.unwrap().status().as_u16(), 204);
    let systems = bmc.read("/_fake/systems").await;
    assert_eq!((&systems["1"]["on"], &systems["2"]["on"]), (&json!(false), &json!(true)));
    assert_eq!(systems["2"]["resets"], json!({"On": 1}));
}

/// A server keeps the ids of machines, so a restarted fake must not reuse them.
#[tokio::test]
async fn a_program_that_is_started_again_gives_other_ids() {
    let mut ids = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let maas = Program::start(&["maas", "--machines", "3"]);
        let machines = maas.read("/_fake/machines").await;
        ids.extend(machines.as_array().unwrap().iter().map(ToString::to_string));
    }
    assert_eq!(ids.len(), 9, "{ids:?}");
}

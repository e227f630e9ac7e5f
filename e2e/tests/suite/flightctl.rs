//! `/flightctl/api/v1` as the published client of Flight Control uses it, which refuses a whole list for one foreign value.

#![expect(clippy::print_stdout, reason = "a test says what it leaves out")]

use std::{path::Path, process::Command};

use serde_json::json;

use crate::support::{
    Backend, Site,
    device::{Device, open_token, token},
    on_both,
};

on_both! {
    the_published_client_works,
    refusals_are_in_their_words,
}

fn the_published_client_works(on: Backend) {
    let Some(python) = std::env::var_os("WARDROOM_TEST_FLIGHTCTL") else {
        assert!(
            std::env::var_os("CI").is_none(),
            "the client is not there, and CI does not pass without it: run ./dev test"
        );
        println!("the client of Flight Control is not there: run ./dev test");
        return;
    };
    let site = Site::start(on);
    let open = open_token(&site);
    let heard = Device::enrolled_with(&site, &open, &json!({"site": "berlin", "fleet": "web"}));
    let silent = Device::enrolled_with(&site, &open, &json!({"site": "paris"}));
    heard.poll(&site, 0, None).expect(200);
    // Words of ours, and some that belong to nobody.
    let report = json!({
        "conditions": [
            {"type": "Rebooting", "status": "False"},
            {"type": "Updating", "status": "False", "reason": "Updated", "message": "version 1"},
        ],
        "systemInfo": {"architecture": "x86_64", "customInfo": "none", "kernel": "6.1"},
        "applications": [{"name": "web", "status": "Running", "ready": "1/1"}, {"name": "odd", "status": "Paused"}],
        "resources": {"cpu": "Healthy", "memory": "Degraded"},
        "config": {"renderedVersion": "1"},
    });
    assert_eq!(heard.report(&site, 0, &report).status, 204);
    let asking = Device::new(&site);
    let closed = token(&site, &json!({"name": "closed", "labels": {"site": "rome"}}));
    let mut request = asking.request(&json!({"rack": "r1"}));
    request["spec"]["deviceStatus"] = report;
    let post = reqwest::Method::POST;
    asking.with_token(&site, 0, &closed, post, "enrollmentrequests", Some(&request)).expect(201);
    let (_, viewer) = site.new_token(&json!({"name": "viewer", "role": "viewer"}));
    let calls = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/flightctl/calls.py");
    let output = Command::new(python)
        .arg(calls)
        .arg(format!("http://{}/flightctl/api/v1", site.servers[0].address))
        .args([&site.token, &viewer, &heard.name, &silent.name, &asking.name])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("the client cannot be started: run ./dev setup");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", said(&output.stdout), said(&output.stderr));
}

fn refusals_are_in_their_words(on: Backend) {
    let site = Site::start(on);
    let admin = site.admin();
    let root = "/flightctl/api/v1";
    let refused = |path: &str, status: u16, reason: &str| {
        let reply = admin.get(&format!("{root}/{path}")).expect(status);
        assert_eq!(reply["kind"], "Status", "{path}: {reply}");
        assert_eq!((&reply["code"], &reply["status"]), (&json!(status), &json!("Failure")), "{path}");
        assert_eq!(reply["reason"], reason, "{path}");
        reply["message"].as_str().unwrap().to_owned()
    };
    refused("devices/nothing", 404, "Not Found");
    refused("repositories", 404, "Not Found");
    let known = refused("devices?fieldSelector=status.summary.status%3DOffline", 400, "Bad Request");
    assert!(known.contains("AwaitingReconnect"), "{known}");
    refused("devices?summaryOnly=true", 400, "Bad Request");
    refused("fleets?fieldSelector=a%3Db", 400, "Bad Request");
    let nobody = site.caller(0, None).get(&format!("{root}/devices")).expect(401);
    assert_eq!(nobody["kind"], "Status");
    let put = |path: &str, body: &serde_json::Value| admin.put(&format!("{root}/{path}"), body);
    for body in
        [json!(1), json!({"kind": "Device"}), json!({"apiVersion": "v2"}), json!({"spec": {"colour": "red"}})]
    {
        assert_eq!(put("fleets/web", &body).expect(400)["kind"], "Status", "{body}");
    }
    let fleet =
        json!({"metadata": {}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {}}}});
    assert_eq!(put("fleets/web", &fleet).expect(201)["metadata"]["name"], "web");
    assert_eq!(put("fleets/web", &fleet).expect(200)["metadata"]["generation"], 1, "nothing changed");
    let mut stale = fleet;
    stale["metadata"] = json!({"resourceVersion": "0"});
    assert_eq!(put("fleets/web", &stale).expect(409)["reason"], "Conflict");
    refused("devices?continue=x", 400, "Bad Request");
}

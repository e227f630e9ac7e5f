//! `wardroom simulate devices`: keys of their own, updates, failures, and several source addresses.

use std::{
    fs,
    io::Read as _,
    process::{Command, Stdio},
};

use serde_json::json;

use crate::support::{
    Backend, Site,
    device::{open_token, token},
    site::binary,
    wait_long_for,
};

#[test]
fn simulated_devices_enrol_update_and_fail() {
    let site = Site::start(Backend::Sqlite);
    let secret = open_token(&site);
    let file = site.data_dir(0).join("open.token");
    fs::write(&file, format!("{secret}\n")).unwrap();
    let mut child = Command::new(binary())
        .args(["simulate", "devices", "--count", "12", "--seed", "7", "--interval", "1", "--failures", "50"])
        .args(["--from", "127.0.0.1,127.0.0.2", "--agents", &site.servers[0].device_address.to_string()])
        .arg("--ca-file")
        .arg(site.data_dir(0).join("device-ca.pem"))
        .arg("--token-file")
        .arg(&file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let count = |selector: &str| {
        let path = format!("/api/v1/devices?labelSelector=simulated%3Dtrue&fieldSelector={selector}");
        site.admin().get(&path).expect(200)["items"].as_array().unwrap().len()
    };
    let fleet = |image: &str| {
        json!({
            "metadata": {"name": "sim"},
            "spec": {
                "selector": {"matchLabels": {"simulated": "true"}},
                "template": {"spec": {"os": {"image": image}}},
                "rolloutPolicy": {"successThreshold": 0},
            },
        })
    };
    wait_long_for("all devices are heard", || (count("status.summary.status%3DOnline") == 12).then_some(()));
    site.admin().post("/api/v1/fleets", &fleet("edge:1")).expect(201);
    // Whatever was given first: half of what is given next is given up, and the devices say so.
    let progress = wait_long_for("the rollout is over", || {
        let fleet = site.admin().get("/api/v1/fleets/sim").expect(200);
        let rollout = fleet["status"]["rollout"].clone();
        let done = rollout["updated"].as_u64()? + rollout["failed"].as_u64()?;
        (done == 12).then_some(rollout)
    });
    assert!(
        progress["updated"].as_u64().unwrap() > 0 && progress["failed"].as_u64().unwrap() > 0,
        "{progress}"
    );
    let signalled = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    let (mut said, mut wrong) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut wrong).unwrap();
    child.wait().unwrap();
    assert!(said.starts_with("12 of 12 devices enrolled"), "{said}{wrong}");
    assert!(said.contains(" updates applied") && !said.contains("0 polls in"), "{said}{wrong}");
}

#[test]
fn a_token_that_needs_a_person_ends_the_simulation() {
    let site = Site::start(Backend::Sqlite);
    let secret = token(&site, &json!({"name": "closed", "uses": 5}));
    let file = site.data_dir(0).join("closed.token");
    fs::write(&file, secret.clone()).unwrap();
    let ended = Command::new(binary())
        .args([
            "simulate",
            "devices",
            "--count",
            "2",
            "--agents",
            &site.servers[0].device_address.to_string(),
        ])
        .arg("--ca-file")
        .arg(site.data_dir(0).join("device-ca.pem"))
        .arg("--token-file")
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("--auto-approve") && !said.contains(&secret), "{said}");
}

//! Every request of the client, held against MAAS's own description of its API.

#![expect(clippy::print_stdout, reason = "a test says what it leaves out")]

use std::{path::PathBuf, time::Duration};

use serde_json::Value;
use wardroom_core::gpu_node::maas::Status;
use wardroom_fakes::maas::{Change, Config, Pace, Recorded, Seed};
use wardroom_upstream::maas::{
    Commission, Erase, Filter, Level, LinkMode, Machine, NewLink, PowerDriver, Release, Secret, StopMode,
    Update,
};

use crate::support::{client, onboarded, start};

fn description() -> Option<Value> {
    let default = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    let folder = std::env::var_os("WARDROOM_CONTRACT_DATA").map_or(default, PathBuf::from);
    let Ok(text) = std::fs::read_to_string(folder.join("maas-openapi.json")) else {
        println!("maas-openapi.json is not there: no request is held against it");
        return None;
    };
    Some(serde_json::from_str(&text).unwrap())
}

#[tokio::test]
async fn contract_of_every_request() {
    let Some(description) = description() else { return };
    let config = Config { record: true, pace: Pace::all(Duration::ZERO), ..Config::default() };
    let fake = start(config).await;
    every_call(&fake).await;
    let requests = fake.take_requests();
    let wrong: Vec<_> = requests
        .iter()
        .filter_map(|request| Some(format!("{request:?}: {}", wrong_with(&description, request)?)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("held {} requests against the description", requests.len());
}

#[tokio::test]
async fn contract_notices_what_is_wrong() {
    let Some(description) = description() else { return };
    let request = |method: &str, path: &str, fields: &[&str]| Recorded {
        method: method.to_owned(),
        path: path.to_owned(),
        query: Vec::new(),
        fields: fields.iter().map(|&name| name.to_owned()).collect(),
        content_type: "multipart/form-data; boundary=x".to_owned(),
    };
    for (request, why) in [
        (request("POST", "/machines/x/op-explode", &[]), "no such path"),
        (request("PUT", "/machines/x/op-deploy", &[]), "no such method"),
        (request("POST", "/machines/x/op-deploy", &["userdata"]), "unknown field userdata"),
        (request("POST", "/machines/", &["architecture"]), "without mac_addresses"),
    ] {
        let found = wrong_with(&description, &request).unwrap();
        assert!(found.contains(why), "{found} instead of {why}");
    }
}

/// Calls everything that the client has.
async fn every_call(fake: &wardroom_fakes::maas::Fake) {
    let maas = client(fake);
    maas.version().await.unwrap();
    maas.whoami().await.unwrap();
    maas.pools().await.unwrap();
    maas.zones().await.unwrap();
    let id = onboarded(&maas).await;
    let all = Filter {
        ids: &[&id],
        macs: &["52:54:00:00:00:01"],
        hostnames: &["gpu-1"],
        pool: Some("default"),
        zone: Some("default"),
        tags: &["ours"],
    };
    assert_eq!(maas.find(&all).await.unwrap().len(), 1);
    maas.events(&id, Level::Info, 10, Some(1)).await.unwrap();
    maas.results(&id).await.unwrap();
    maas.query_power(&id).await.unwrap();
    maas.power_on(&id, "c").await.unwrap();
    maas.power_off(&id, StopMode::Soft, "c").await.unwrap();
    maas.lock(&id, "c").await.unwrap();
    maas.unlock(&id, "c").await.unwrap();
    maas.release(&id, &Release { erase: Erase::Secure, comment: "c" }).await.unwrap();
    let password = Secret("p".to_owned());
    let power = PowerDriver::Ipmi { address: "10.0.0.9", user: "root", password: &password };
    let update = Update {
        hostname: Some("gpu-2"),
        description: Some("d"),
        pool: Some("default"),
        zone: Some("default"),
        power: Some(power),
    };
    maas.update(&id, &update).await.unwrap();
    let interface = maas.interfaces(&id).await.unwrap().remove(1).id;
    maas.interface(&id, interface).await.unwrap();
    let link = NewLink { mode: LinkMode::Static, subnet: 2, ip_address: Some("10.30.0.9") };
    let linked = maas.link_subnet(&id, interface, link).await.unwrap();
    maas.unlink_subnet(&id, interface, linked.links[0].id).await.unwrap();
    maas.disconnect(&id, interface).await.unwrap();
    maas.restore_storage(&id).await.unwrap();
    maas.commission(&id, &Commission { scripts: &["s"], testing_scripts: &["t"], ..Commission::default() })
        .await
        .unwrap();
    let other = fake.seed(&Seed { status: Some(Status::Commissioning), ..Seed::default() });
    maas.abort(&other, "c").await.unwrap();
    fake.change(&other, &Change { status: Some(Status::Deployed), ..Change::default() });
    maas.mark_broken(&other, "c").await.unwrap();
    maas.mark_fixed(&other, "c").await.unwrap();
    fake.change(&other, &Change { status: Some(Status::FailedTesting), ..Change::default() });
    maas.override_failed_testing(&other, "c").await.unwrap();
    maas.tag("ours", &[], &[&id]).await.unwrap();
    maas.delete(&other).await.unwrap();
}

/// Returns the violation of the API description by a request, if any.
fn wrong_with(description: &Value, request: &Recorded) -> Option<String> {
    let paths = description["paths"].as_object().unwrap();
    let mut fitting: Vec<_> = paths.iter().filter(|(pattern, _)| fits(pattern, &request.path)).collect();
    // A path that is spelled out wins over one with a name in its place.
    fitting.sort_by_key(|(pattern, _)| pattern.matches('{').count());
    let Some((_, path)) = fitting.first() else { return Some("no such path".to_owned()) };
    let operation = &path[request.method.to_ascii_lowercase()];
    if operation.is_null() {
        return Some("no such method".to_owned());
    }
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let known: Vec<_> = parameters.filter(|parameter| parameter["in"] == "query").collect();
    for name in &request.query {
        if !known.iter().any(|parameter| parameter["name"] == **name) {
            return Some(format!("unknown parameter {name}"));
        }
    }
    let schema = &operation["requestBody"]["content"]["multipart/form-data"]["schema"];
    let properties: Vec<_> =
        schema["properties"].as_object().into_iter().flat_map(|all| all.keys()).collect();
    for name in &request.fields {
        if !properties.iter().any(|property| names(property, name)) {
            return Some(format!("unknown field {name}"));
        }
    }
    for required in schema["required"].as_array().into_iter().flatten() {
        let required = required.as_str().unwrap();
        if !request.fields.iter().any(|name| names(required, name)) {
            return Some(format!("without {required}"));
        }
    }
    let body = !request.fields.is_empty() && !request.content_type.starts_with("multipart/form-data");
    body.then(|| format!("a body of type {}", request.content_type))
}

fn fits(pattern: &str, path: &str) -> bool {
    let (mut pattern, mut path) = (pattern.split('/'), path.split('/'));
    loop {
        match (pattern.next(), path.next()) {
            (None, None) => return true,
            (Some(expected), Some(found)) if expected.starts_with('{') && expected.ends_with('}') => {
                if found.is_empty() || found.starts_with("op-") {
                    return false;
                }
            }
            (Some(expected), Some(found)) if expected == found => {}
            _ => return false,
        }
    }
}

/// Whether a name is the described one, or stands where that one has a place for any name.
fn names(described: &str, name: &str) -> bool {
    described == name
        || described == "key"
        || described.split_once('{').is_some_and(|(prefix, _)| !prefix.is_empty() && name.starts_with(prefix))
}

#[test]
fn contract_of_the_machines_that_were_recorded() {
    let default = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    let folder = std::env::var_os("WARDROOM_CONTRACT_DATA").map_or(default, PathBuf::from);
    let Ok(text) = std::fs::read_to_string(folder.join("maas-transcript.jsonl")) else {
        println!("maas-transcript.jsonl is not there: no recorded machine is read");
        return;
    };
    let mut read = 0;
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let body = &row["response"]["body"];
        if body["status_name"].is_null() || body["hostname"].is_null() {
            continue;
        }
        let machine: Machine = serde_json::from_value(body.clone()).unwrap();
        assert_eq!(machine.status.code(), body["status"], "{}", row["seq"]);
        assert_eq!(machine.power_state.as_str(), body["power_state"], "{}", row["seq"]);
        assert_eq!(machine.boot_interface.unwrap().mac_address, "52:54:00:7a:00:01");
        assert_eq!(machine.last_sync.is_some(), !body["last_sync"].is_null());
        assert_eq!(machine.block_devices.len(), body["blockdevice_set"].as_array().unwrap().len());
        read += 1;
    }
    assert!(read > 30, "{read} machines were recorded");
}

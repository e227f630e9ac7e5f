//! Where credentials go: only to the networks, and only those, that an administrator named with the site.

use axum::http::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::rig::{Rig, mac, quick};

/// The body that registers a node with a BMC.
fn node(address: &str, credential: &str) -> Value {
    json!({
        "hostname": "gpu-1", "site": "berlin", "macs": [mac(1)], "bmc": {"address": address, "credential": credential},
    })
}

/// A listener that nobody must speak to.
async fn trap() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

async fn was_left_alone(listener: &TcpListener) {
    let heard = tokio::time::timeout(std::time::Duration::from_millis(200), listener.accept()).await;
    assert!(heard.is_err(), "somebody connected");
}

async fn settings(rig: &Rig) -> Value {
    rig.get("/api/v1/sites/berlin").await["data"]["settings"].clone()
}

async fn set(rig: &Rig, settings: Value) {
    let body = json!({"name": "berlin", "settings": settings});
    rig.call(Method::PUT, "/api/v1/sites/berlin", body).await.ok();
}

async fn a_bmc_outside_of_what_the_site_names_is_refused() {
    let rig = Rig::with(quick(), |site| {
        site.bmc_networks = vec!["10.0.0.0/24".to_owned()];
        site.bmc_credentials = vec!["file:bmc/lab".to_owned(), "file:bmc/berlin-*".to_owned()];
    })
    .await;
    let (inside, outside) = ("https://10.0.0.7", "https://10.9.9.9");
    for (address, credential, field, told) in [
        (outside, "file:bmc/lab", "bmc.address", "10.0.0.0/24"),
        ("https://[::ffff:10.9.9.9]", "file:bmc/lab", "bmc.address", "10.0.0.0/24"),
        ("https://127.0.0.1:1", "file:bmc/lab", "bmc.address", "10.0.0.0/24"),
        (inside, "file:bmc/hamburg", "bmc.credential", "file:bmc/lab, file:bmc/berlin-*"),
    ] {
        let refused = rig.post("/api/v1/gpu-nodes", node(address, credential)).await;
        let error = refused.body["errors"][0].clone();
        assert_eq!((refused.status.as_u16(), &error["field"]), (400, &json!(field)), "{refused:?}");
        let said = error["message"].as_str().unwrap();
        assert!(said.contains(told) && said.contains("\"berlin\""), "{said}");
    }
    let made = rig.post("/api/v1/gpu-nodes", node(inside, "file:bmc/berlin-1")).await.ok();
    let path = format!("/api/v1/gpu-nodes/{}", made["data"]["id"].as_str().unwrap());
    let patch = |address: &str, credential: &str| {
        rig.call(Method::PATCH, &path, json!({"bmc": {"address": address, "credential": credential}}))
    };
    assert_eq!(patch(outside, "file:bmc/lab").await.body["errors"][0]["field"], "bmc.address");
    assert_eq!(patch(inside, "file:bmc/x").await.body["errors"][0]["field"], "bmc.credential");
    patch("https://bmc-7.example", "file:bmc/lab").await.ok();
    // Of a node without a site it is asked when a site takes it.
    let mut alone = node(outside, "file:bmc/lab");
    alone["site"] = Value::Null;
    (alone["hostname"], alone["macs"]) = (json!("gpu-2"), json!([mac(2)]));
    let made = rig.post("/api/v1/gpu-nodes", alone).await.ok();
    let path = format!("/api/v1/gpu-nodes/{}/onboardings", made["data"]["id"].as_str().unwrap());
    let refused = rig.post(&path, json!({"site": "berlin"})).await;
    assert_eq!(refused.body["errors"][0]["field"], "bmc.address", "{refused:?}");
}

/// Without a word of an administrator no credential goes anywhere.
async fn a_site_that_names_nothing_allows_nothing() {
    let rig = Rig::with(quick(), |site| {
        site.bmc_networks.clear();
        site.bmc_credentials.clear();
    })
    .await;
    let refused = rig.post("/api/v1/gpu-nodes", node("https://10.0.0.7", "file:bmc/lab")).await;
    let fields: Vec<_> =
        refused.body["errors"].as_array().unwrap().iter().map(|error| error["field"].clone()).collect();
    assert_eq!(fields, ["bmc.address", "bmc.credential"], "{refused:?}");
    let mut settings = settings(&rig).await;
    for (name, wrong) in [
        ("bmc_networks", "10.0.0"),
        ("bmc_networks", "10.0.0.0/33"),
        ("bmc_credentials", "file:maas"),
        ("bmc_credentials", "file:bmc/a*b"),
        ("bmc_credentials", "*"),
    ] {
        let before = settings[name].take();
        settings[name] = json!([wrong]);
        let refused = rig.post("/api/v1/sites", json!({"name": "potsdam", "settings": settings})).await;
        assert_eq!(refused.body["errors"][0]["field"], format!("settings.{name}[0]"), "{wrong}: {refused:?}");
        settings[name] = before;
    }
}

/// What a site says counts when the password is used, not only when the node was written: for an address, for a credential,
/// and for a name, whatever it leads to by then.
async fn a_password_is_checked_again_where_it_is_used() {
    let (listener, url) = trap().await;
    let named = url.replace("127.0.0.1", "localhost");
    for (address, networks, credentials, told) in [
        (&url, json!(["10.0.0.0/24"]), json!(["file:bmc/*"]), "127.0.0.1 is in none of the networks"),
        (&named, json!(["10.0.0.0/24"]), json!(["file:bmc/*"]), "localhost leads elsewhere"),
        (&url, json!(["127.0.0.0/8"]), json!(["file:bmc/other"]), "may use: file:bmc/other"),
    ] {
        let mut rig = Rig::new().await;
        std::fs::write(rig.secret("file:bmc/rack"), "root:calvin").unwrap();
        let made = rig.post("/api/v1/gpu-nodes", node(address, "file:bmc/rack")).await.ok();
        let id = made["data"]["id"].as_str().unwrap();
        let mut now = settings(&rig).await;
        (now["bmc_networks"], now["bmc_credentials"]) = (networks, credentials);
        set(&rig, now).await;
        rig.work();
        let run = rig.until_run(id, "failed_manual_intervention").await;
        assert_eq!(run["stage"], "resolve_power_credentials", "{run}");
        assert!(run["failure"].as_str().unwrap().contains(told), "{told}: {run}");
        was_left_alone(&listener).await;
    }
}

on_both! {
    a_bmc_outside_of_what_the_site_names_is_refused
    a_site_that_names_nothing_allows_nothing
    a_password_is_checked_again_where_it_is_used
}

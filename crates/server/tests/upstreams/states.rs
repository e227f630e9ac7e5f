//! The embedded registry: what a satellite's own client does.

use std::io::Read as _;

use reqwest::Method;
use serde_json::{Value, json};

use crate::site::{Credential, Site, on_both, send};

on_both! {
    a_satellite_pulls_its_state_its_groups_and_its_config,
    no_satellite_reads_states_of_others,
    secrets_of_a_config_are_for_its_satellites_only,
    a_pull_that_a_change_overtakes_is_finished,
    tags_are_listed_page_by_page,
}

/// C6: pulls the document behind a state URL like the client does: ping, manifest, layer.
pub(crate) async fn pull(site: &Site, credential: &Credential, state: &str) -> Result<Value, u16> {
    let reference = state.strip_prefix(&format!("{}/", site.url)).unwrap();
    let (repository, tag) = reference.split_once(':').unwrap();
    let base = format!("{}/v2/{repository}", site.url);
    let get = |url: String| credential.sign(site.http.get(url)).send();
    let ping = get(format!("{}/v2/", site.url)).await.unwrap();
    if ping.status() != 200 {
        return Err(ping.status().as_u16());
    }
    let response = get(format!("{base}/manifests/{tag}")).await.unwrap();
    if response.status() != 200 {
        return Err(response.status().as_u16());
    }
    let digest = response.headers()["docker-content-digest"].to_str().unwrap().to_owned();
    let head = credential.sign(site.http.head(format!("{base}/manifests/{tag}"))).send().await.unwrap();
    assert_eq!(head.headers()["docker-content-digest"].to_str().unwrap(), digest);
    assert_eq!(head.headers()["content-length"], response.headers()["content-length"]);
    let manifest: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
    let by_digest = get(format!("{base}/manifests/{digest}")).await.unwrap();
    assert_eq!(by_digest.status(), 200);
    let layer = manifest["layers"][0]["digest"].as_str().unwrap();
    let blob = get(format!("{base}/blobs/{layer}")).await.unwrap();
    assert_eq!(blob.headers()["docker-content-digest"].to_str().unwrap(), layer);
    let config = manifest["config"]["digest"].as_str().unwrap();
    assert_eq!(get(format!("{base}/blobs/{config}")).await.unwrap().status(), 200);
    Ok(document(&blob.bytes().await.unwrap()))
}

/// The one file of an uncompressed tar in a gzip frame of stored blocks.
fn document(gzip: &[u8]) -> Value {
    let mut child = std::process::Command::new("gzip")
        .arg("-dc")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), gzip).unwrap();
    let mut tar = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut tar).unwrap();
    child.wait().unwrap();
    assert!(tar.starts_with(b"artifacts.json\0"));
    let size = usize::from_str_radix(std::str::from_utf8(&tar[124..135]).unwrap(), 8).unwrap();
    serde_json::from_slice(&tar[512..512 + size]).unwrap()
}

/// C7: a state always names a group and a config that can be read; C8: what a group lists has a path and tags.
async fn a_satellite_pulls_its_state_its_groups_and_its_config() {
    let site = Site::start("").await;
    site.group("g", &["library/x", "apps/y"]).await;
    let spec = json!({"config_name": "c", "config": {"app_config": {"local_registry": {"password": "p"}}}});
    site.post("/api/configs", spec).await.expect(201);
    let token = site.create("edge", &["g"]).await;
    site.post("/api/configs/satellite", json!({"satellite": "edge", "config_name": "c"})).await.expect(200);
    let edge = site.register(&token).await;
    assert!(edge.state.contains("/satellite-state/edge/"));

    let state = pull(&site, &edge, &edge.state).await.unwrap();
    let group = pull(&site, &edge, state["states"][0].as_str().unwrap()).await.unwrap();
    assert_eq!(group["group"], "g");
    let artifacts = group["artifacts"].as_array().unwrap();
    assert_eq!(artifacts.len(), 2);
    for artifact in artifacts {
        assert!(artifact["repository"].as_str().unwrap().contains('/'), "{artifact}");
        assert_eq!(artifact["tag"], json!(["latest"]), "{artifact}");
    }
    let config = pull(&site, &edge, state["config"].as_str().unwrap()).await.unwrap();
    assert_eq!(config["app_config"]["local_registry"]["password"], "p", "the satellite needs it");

    // Without groups and config it reads the empty group and the built-in config.
    let leave = json!({"satellite": "edge", "group": "g"});
    site.ask(Method::DELETE, "/api/groups/satellite", Some(leave)).await.expect(200);
    site.post("/api/configs/satellite", json!({"satellite": "edge", "config_name": null})).await.expect(200);
    let after = pull(&site, &edge, &edge.state).await.unwrap();
    let empty = pull(&site, &edge, after["states"][0].as_str().unwrap()).await.unwrap();
    assert_eq!(empty["artifacts"], json!([]));
    let config = pull(&site, &edge, after["config"].as_str().unwrap()).await.unwrap();
    assert_eq!(config["app_config"]["ground_control_url"], site.url);
    for gone in [&state["states"][0], &state["config"]] {
        assert_eq!(pull(&site, &edge, gone.as_str().unwrap()).await.unwrap_err(), 404);
    }
}

async fn no_satellite_reads_states_of_others() {
    let site = Site::start("").await;
    site.group("g", &["library/x"]).await;
    let (one, two) = (site.create("one", &["g"]).await, site.create("two", &[]).await);
    let (one, two) = (site.register(&one).await, site.register(&two).await);
    let state = pull(&site, &one, &one.state).await.unwrap();
    assert_eq!(pull(&site, &two, &one.state).await.unwrap_err(), 404);
    assert_eq!(pull(&site, &two, state["states"][0].as_str().unwrap()).await.unwrap_err(), 404);

    let ping = format!("{}/v2/", site.url);
    let refused = site.http.get(&ping).send().await.unwrap();
    assert_eq!(refused.status(), 401);
    assert!(refused.headers()["www-authenticate"].to_str().unwrap().starts_with("Basic "));
    let body: Value = serde_json::from_slice(&refused.bytes().await.unwrap()).unwrap();
    assert_eq!(body["errors"][0]["code"], "UNAUTHORIZED");
    assert_eq!(send(one.sign(site.http.get(&ping))).await.status, 200);
    let wrong = Credential { password: "x".to_owned(), ..one.clone() };
    assert_eq!(send(wrong.sign(site.http.get(&ping))).await.status, 401);
    assert_eq!(site.ask(Method::GET, "/v2/", None).await.status, 401, "an API token is not a satellite's");
    assert_eq!(send(one.sign(site.http.get(format!("{ping}_catalog")))).await.status, 404);
    assert_eq!(
        send(one.sign(site.http.put(format!("{ping}satellite/x/y/state/manifests/z")))).await.status,
        405
    );

    site.post("/api/satellites/one/revoke", json!({})).await.expect(200);
    assert_eq!(pull(&site, &one, &one.state).await.unwrap_err(), 403);
    site.ask(Method::DELETE, "/api/satellites/two", None).await.expect(200);
    assert_eq!(pull(&site, &two, &two.state).await.unwrap_err(), 401);
}

/// Secrets that a satellite needs in clear are shown only to it, and the database alone does not hold them.
async fn secrets_of_a_config_are_for_its_satellites_only() {
    let site = Site::start("").await;
    let secrets: Vec<_> = (0..6).map(|number| format!("not-for-everybody-{number}")).collect();
    let config = json!({
        "app_config": {"log_level": "info", "local_registry": {"username": "u", "password": secrets[0]}},
        "tls": {"privateKey": secrets[1]},
        "pass": secrets[2],
        "zot": {"http": {"auth": {"ldap": {"bindDN": secrets[3], "port": 636}}}},
        "Api-Keys": [[secrets[4]]],
    });
    let spec = json!({"config_name": "c", "config": config});
    let made = site.post("/api/configs", spec).await.expect(201);
    let edge = site.create("edge", &[]).await;
    site.post("/api/configs/satellite", json!({"satellite": "edge", "config_name": "c"})).await.expect(200);
    let edge = site.register(&edge).await;
    let state = pull(&site, &edge, &edge.state).await.unwrap();
    let url = state["config"].as_str().unwrap();
    assert_eq!(pull(&site, &edge, url).await.unwrap(), config);

    // Sent back as it was shown, and then with one of them changed.
    let count = async || {
        site.get("/api/v1/history?kind=satellite-config&id=c").await["data"].as_array().unwrap().len()
    };
    let patch = async |config: &Value| {
        site.ask(Method::PATCH, "/api/configs/c", Some(json!({"config": config}))).await
    };
    let before = count().await;
    let shown = patch(&made["data"]["config"]).await.expect(200);
    assert_eq!((&shown, count().await), (&made, before), "nothing changed");
    let mut wanted = shown["data"]["config"].clone();
    wanted["pass"] = json!(secrets[5]);
    wanted["app_config"]["log_level"] = json!("warn");
    let changed = patch(&wanted).await.expect(200);
    let mut config = config;
    (config["pass"], config["app_config"]["log_level"]) = (json!(secrets[5]), json!("warn"));
    assert_eq!(pull(&site, &edge, url).await.unwrap(), config);

    let shown = [made, changed, site.get("/api/configs").await, site.get("/api/v1/history?limit=1000").await];
    let shown = shown.map(|answer| answer.to_string());
    let stored = site.stored().await;
    assert!(stored.contains("local_registry") && shown[0].contains("local_registry"), "it is looked at");
    for secret in &secrets {
        assert!(!shown.iter().any(|text| text.contains(secret)), "{secret} is shown");
        assert!(!stored.contains(secret), "{secret} is stored");
    }
    assert!(!shown[0].contains("636"), "under a telling name all is hidden");
}

/// A client that read a manifest gets its blobs, although the record changed in between.
async fn a_pull_that_a_change_overtakes_is_finished() {
    let site = Site::start("").await;
    site.group("g", &["library/x"]).await;
    let edge = site.create("edge", &["g"]).await;
    let edge = site.register(&edge).await;
    let base = format!("{}/v2/satellite/group-state/g/state", site.url);
    let manifest = send(edge.sign(site.http.get(format!("{base}/manifests/latest")))).await.expect(200);
    site.group("g", &["library/y"]).await;
    send(edge.sign(site.http.get(format!("{base}/manifests/latest")))).await.expect(200);
    let layer = manifest["layers"][0]["digest"].as_str().unwrap();
    let blob = edge.sign(site.http.get(format!("{base}/blobs/{layer}"))).send().await.unwrap();
    assert_eq!(blob.status(), 200);
    let tag = blob.headers()["etag"].clone();
    let again = edge.sign(site.http.get(format!("{base}/blobs/{layer}"))).header("if-none-match", tag);
    assert_eq!(again.send().await.unwrap().status(), 304);
}

/// As the specification of registries has it: at most so many, and only those that come after another one.
async fn tags_are_listed_page_by_page() {
    let site = Site::start("").await;
    let edge = site.register(&site.create("edge", &[]).await).await;
    let pages =
        [("", 1), ("?n=10", 1), ("?n=0", 0), ("?last=latest", 0), ("?last=a&n=1", 1), ("?n=1&last=z", 0)];
    for (query, count) in pages {
        let url = format!("{}/v2/satellite/satellite-state/edge/state/tags/list{query}", site.url);
        let list = send(edge.sign(site.http.get(url))).await.expect(200);
        assert_eq!(list["tags"].as_array().unwrap().len(), count, "{query}: {list}");
    }
}

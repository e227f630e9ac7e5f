//! Schemathesis over the OpenAPI document: no failure, no undocumented answer, no breach of a schema.

#![expect(clippy::print_stdout, reason = "a test says what it leaves out")]

use std::process::Command;

use serde_json::json;

use crate::support::{Backend, Site, fleet::workflow, long_on_both, node_in, satellite};

long_on_both! {
    fuzz_every_operation,
}

fn fuzz_every_operation(on: Backend) {
    let Some(program) = std::env::var_os("WARDROOM_TEST_SCHEMATHESIS") else {
        assert!(
            std::env::var_os("CI").is_none(),
            "schemathesis is not there, and CI does not pass without it: run ./dev test"
        );
        println!("schemathesis is not there: run ./dev test");
        return;
    };
    let examples = std::env::var("WARDROOM_FUZZ_EXAMPLES").unwrap_or_else(|_| "5".to_owned());
    let site = Site::start(on);
    let dir = tempfile::tempdir().unwrap();
    let settings: String = parameters(&site)
        .iter()
        .map(|(path, set)| format!("[[operations]]\ninclude-path = \"{path}\"\nparameters = {{ {set} }}\n"))
        .collect();
    std::fs::write(dir.path().join("schemathesis.toml"), settings).unwrap();
    let output = Command::new(program)
        .arg("--config-file")
        .arg(dir.path().join("schemathesis.toml"))
        .args(["run", &format!("http://{}/openapi.json", site.servers[0].address)])
        .args(["--header", &format!("Authorization: Bearer {}", site.token)])
        .args(["--seed", "7", "--max-examples", &examples, "--phases", "examples,coverage,fuzzing"])
        .args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,response_headers_conformance,unsupported_method,ignored_auth"])
        // A machine that is busy answers late, which is no finding.
        .args(["--wait-for-schema", "120", "--request-timeout", "120"])
        .args(["--generation-database", "none", "--no-color", "--continue-on-failure"])
        .current_dir(dir.path())
        .output()
        .expect("schemathesis cannot be started: run ./dev setup");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    site.admin().get("/api/v1/nodes").expect(200);
}

/// Parameters of generated requests: existing resources, or most would get a 404. The feed is read in pages,
/// because a stream does not end; and the walk must not revoke its own token.
fn parameters(site: &Site) -> Vec<(&'static str, String)> {
    let node = node_in(&site.admin(), "installing", 1);
    workflow(&site.admin(), "debian");
    site.admin().post("/api/v1/groups", &json!({"name": "rack"})).expect(201);
    let (victim, _) = site.new_token(&json!({"name": "victim", "role": "viewer"}));
    let id = |id: &str| format!("id = \"{id}\"");
    let mut all = vec![
        ("/api/v1/events", "wait = 0".to_owned()),
        ("/api/v1/tokens/{id}", id(&victim)),
        ("/api/v1/nodes/{id}", id(&node)),
        ("/api/v1/nodes/{id}/state", id(&node)),
        ("/api/v1/nodes/{id}/history", id(&node)),
        ("/api/v1/nodes/{id}/installation-status", id(&node)),
        ("/api/v1/resources/{kind}/{id}/why", format!("kind = \"node\", {}", id(&node))),
        ("/api/v1/workflows/{id}", id("debian")),
        ("/api/v1/groups/{id}", id("rack")),
    ];
    all.extend(satellites(site));
    all.extend(gpu_nodes(site));
    all.extend(clusters(site));
    all
}

/// Likewise a cluster for each path, with a node pool.
fn clusters(site: &Site) -> Vec<(&'static str, String)> {
    const ROOT: &str = "/api/hyperfleet/v1/clusters";
    let paths = [
        "/api/hyperfleet/v1/clusters/{id}",
        "/api/hyperfleet/v1/clusters/{id}/force-delete",
        "/api/hyperfleet/v1/clusters/{id}/statuses",
        "/api/hyperfleet/v1/clusters/{id}/nodepools",
        "/api/hyperfleet/v1/clusters/{id}/nodepools/{pool}",
        "/api/hyperfleet/v1/clusters/{id}/nodepools/{pool}/force-delete",
        "/api/hyperfleet/v1/clusters/{id}/nodepools/{pool}/statuses",
        "/api/v1/clusters/{id}/statuses",
    ];
    let mut all = Vec::new();
    for (number, path) in paths.into_iter().enumerate() {
        let name = format!("fuzzed-{number}");
        site.admin().post(ROOT, &json!({"name": name, "spec": {}})).expect(201);
        let pools = format!("{ROOT}/{name}/nodepools");
        site.admin().post(&pools, &json!({"name": "workers", "spec": {}})).expect(201);
        let pool = if path.contains("{pool}") { ", pool = \"workers\"" } else { "" };
        all.push((path, format!("id = \"{name}\"{pool}")));
    }
    all
}

/// Returns a satellite for each path, because a request such as a deletion uses it up.
fn satellites(site: &Site) -> Vec<(&'static str, String)> {
    for (path, body) in [
        (
            "/api/groups/sync",
            json!({"group": "shop", "registry": "https://registry.example.com", "artifacts": []}),
        ),
        ("/api/configs", json!({"config_name": "slow", "config": {}})),
    ] {
        let made = site.admin().post(path, &body);
        assert!(made.status < 300, "{path}: {}", made.text());
    }
    let paths = [
        "/api/satellites/{name}",
        "/api/satellites/{name}/effects",
        "/api/satellites/{name}/reenable",
        "/api/satellites/{name}/revoke",
    ];
    let mut all = vec![
        ("/api/groups/{group}/satellites", "group = \"shop\"".to_owned()),
        ("/api/groups/{group}/effects", "group = \"shop\"".to_owned()),
        ("/api/configs/{config}", "config = \"slow\"".to_owned()),
        ("/api/configs/{config}/effects", "config = \"slow\"".to_owned()),
    ];
    for (number, path) in paths.into_iter().enumerate() {
        let name = format!("edge-{number}");
        satellite::online(site, &name);
        all.push((path, format!("name = \"{name}\"")));
    }
    all
}

/// Likewise a GPU node for each path, with the run that it is created with.
fn gpu_nodes(site: &Site) -> Vec<(&'static str, String)> {
    let paths = [
        "/api/v1/gpu-nodes/{id}",
        "/api/v1/gpu-nodes/{id}/actions/{action}",
        "/api/v1/gpu-nodes/{id}/decommissions",
        "/api/v1/gpu-nodes/{id}/heartbeat",
        "/api/v1/gpu-nodes/{id}/lifecycle",
        "/api/v1/gpu-nodes/{id}/onboardings",
        "/api/v1/gpu-nodes/{id}/tasks/claim",
        "/api/v1/runs/{id}",
        "/api/v1/runs/{id}/actions/{action}",
    ];
    let mut all = Vec::new();
    for (number, path) in paths.into_iter().enumerate() {
        let body = json!({"hostname": format!("gpu-{number}")});
        let made = site.admin().post("/api/v1/gpu-nodes", &body).expect(201)["data"].clone();
        let id = if path.contains("runs") { &made["run"] } else { &made["id"] };
        all.push((path, format!("id = {id}")));
    }
    all
}

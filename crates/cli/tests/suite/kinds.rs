//! Every kind of the server can be listed, described, explained and followed.

use serde_json::Value;

use crate::fixture::Server;

const KINDS: [&str; 17] = [
    "nodes",
    "workflows",
    "groups",
    "gpu-nodes",
    "runs",
    "sites",
    "satellites",
    "satellite-groups",
    "satellite-configs",
    "adapters",
    "devices",
    "enrollmentrequests",
    "enrollmenttokens",
    "incidents",
    "clusters",
    "nodepools",
    "tokens",
];

/// Registers a GPU node that is bootstrapped by hand, and gives its id and its run's.
fn gpu_node(server: &Server, hostname: &str) -> (String, String) {
    server.ok(&["gpu-node", "create", hostname, "--label", "rack=a1"]);
    let node: Value = serde_json::from_str(&server.ok(&["get", "gpu", hostname, "-o", "json"])).unwrap();
    (node["id"].as_str().unwrap().to_owned(), node["run"].as_str().unwrap().to_owned())
}

#[test]
fn every_kind_is_listed_and_says_when_one_is_not_there() {
    let server = Server::start();
    for kind in KINDS {
        server.run(&["get", kind]).says(0, &[]);
        server.run(&["get", kind, "-o", "wide"]).says(0, &[]);
        assert!(server.ok(&["get", kind, "-o", "json"]).starts_with('['), "{kind}");
        let singular = kind.strip_suffix('s').unwrap();
        server.run(&["describe", singular, "nope"]).says(3, &["nope", "next: "]);
        server.run(&["history", singular, "nope"]).says(3, &["nope"]);
        let explained =
            ["nodes", "gpu-nodes", "runs", "satellites", "adapters", "devices", "clusters", "nodepools"];
        let explained = explained.contains(&kind);
        let code = if explained { 3 } else { 2 };
        server.run(&["why", singular, "nope"]).says(code, &["nope"]);
    }
    server.run(&["why", "site", "berlin"]).says(2, &["wardroom describe site berlin"]);
    server.run(&["why", "incident", "x"]).says(2, &["incidents have no lifecycle"]);
}

/// What one command advises, another does: a token is known by its name everywhere.
#[test]
fn a_token_is_known_by_its_name() {
    let server = Server::start();
    server.run(&["why", "token", "first-admin"]).says(2, &["wardroom describe token first-admin"]);
    assert!(server.ok(&["describe", "token", "first-admin"]).contains("History:\n"));
    assert_eq!(server.ok(&["get", "token", "first-admin", "-o", "name"]), "token/first-admin\n");
    let token: Value =
        serde_json::from_str(&server.ok(&["get", "token", "first-admin", "-o", "json"])).unwrap();
    let id = token["id"].as_str().unwrap();
    assert!(server.ok(&["history", "token", "first-admin"]).contains(id));
    assert!(server.ok(&["get", "token", id]).contains("first-admin"));
    server.ok(&["token", "create", "narrow", "--role", "viewer", "--kind", "nodes", "--kind", "sat"]);
    let narrow: Value = serde_json::from_str(&server.ok(&["get", "token", "narrow", "-o", "json"])).unwrap();
    assert_eq!(narrow["kinds"], serde_json::json!(["node", "satellite"]));
    server.ok(&["token", "create", "resolver", "--role", "adapter", "--adapter", "dns"]);
    assert!(server.ok(&["get", "token", "resolver", "-o", "wide"]).contains(" dns"));
    server.run(&["token", "revoke", "first-admin"]).says(4, &["token create NAME --role admin"]);
}

#[test]
fn a_gpu_node_is_shown_with_the_work_behind_its_state() {
    let server = Server::start();
    let (_, run) = gpu_node(&server, "gpu-1");
    let table = server.ok(&["get", "gpu-nodes", "-l", "rack=a1"]);
    assert!(table.starts_with("NAME ") && table.contains("bootstrap_issued"), "{table}");
    assert_eq!(server.ok(&["get", "gn", "--field-selector", "hostname=gpu-2", "-o", "name"]), "");
    assert_eq!(server.ok(&["get", "gpu-node", "gpu-1", "-o", "name"]), "gpu-node/gpu-1\n");

    let described = server.ok(&["describe", "gpu-node", "gpu-1"]);
    for part in ["Name:", "\nWork:\n  Run:", "bootstrap is ", &run, "Allowed:", "History:"] {
        assert!(described.contains(part), "{part:?} is not in {described}");
    }
    // The run is explained beside the node, and each is acted on by its own id.
    let why = server.ok(&["why", "gpu-node", "gpu-1"]);
    assert!(why.starts_with("gpu-1 has been bootstrap_issued for "), "{why}");
    assert!(why.contains("ways out: --all") && why.lines().count() <= 10, "{why}");
    let why = server.ok(&["why", "gpu-node", "gpu-1", "--all"]);
    assert!(why.contains("\nEvery way out of run running:\n"), "{why}");
    assert!(why.contains("    wardroom run cancel gpu-1\n"), "{why}");
    assert!(!why.contains("POST /api"), "{why}");
    assert!(server.ok(&["history", "gpu-node", "gpu-1"]).contains("registered"));
}

#[test]
fn a_run_is_shown_with_every_attempt() {
    let server = Server::start();
    let (id, run) = gpu_node(&server, "gpu-1");
    let (_, other) = gpu_node(&server, "gpu-2");
    let of_node = format!("kind=bootstrap,node_id={id}");
    let listed = server.ok(&["get", "runs", "--field-selector", &of_node, "-o", "name"]);
    assert_eq!(listed, format!("run/{run}\n"));
    assert!(!listed.contains(&other));
    server.run(&["get", "runs", "--field-selector", "hostname=a"]).says(2, &["node_id="]);
    server.run(&["get", "runs", "--state", "lost"]).says(1, &["failed_retryable"]);
    server.run(&["get", "runs", "-l", "a=b"]).says(2, &["no labels"]);

    let whole: Value = serde_json::from_str(&server.ok(&["get", "run", &run, "-o", "json"])).unwrap();
    assert!(whole["attempts"].is_array() && whole["recommended"].is_object(), "{whole}");
    let described = server.ok(&["describe", "run", &run]);
    let parts = ["Name:", "\nWork:\n  Stage:", "Attempt:", "Goal:", "\nAllowed: ", "Attempts,"];
    for part in parts {
        assert!(described.contains(part), "{part:?} is not in {described}");
    }
    assert!(server.ok(&["why", "run", &run]).starts_with("run gpu-1 has been running for "));
}

//! Waiting, and what is explained without a server.

use crate::fixture::{Ran, Server, program};

#[test]
fn a_state_is_waited_for_and_given_up_when_it_cannot_come() {
    let server = Server::start();
    let id = server.node("52:54:00:00:00:01", &["--hostname", "n1"]);
    let wait =
        |goal: &str, more: &[&str]| server.run(&[&["wait", "node", "n1", "--for", goal], more].concat());
    assert_eq!(wait("state=discovered", &[]).success(), "node/n1 discovered\n");
    wait("state=active", &["--wait-timeout", "1s"])
        .says(6, &["not there after 1s", "`wardroom why node NAME`"]);
    wait("state=gone", &[]).says(2, &["--for state=gone: a node is one of: discovered, "]);
    wait("soon", &[]).says(2, &["write state=STATE, condition=NAME[=STATUS], run=STATE or deleted"]);
    wait("run=completed", &[]).says(4, &["n1 has no run"]);
    server.run(&["wait", "node", "n2", "--for", "deleted"]).says(3, &["there is no node \"n2\""]);

    let waiting = server.watch(&["wait", "node", "n1", "--for", "state=pending"]);
    server.ok(&["node", "approve", &id]);
    assert_eq!(waiting.line_with("node/"), "node/n1 pending");
    let waiting = server.watch(&["wait", "node", "n1", "--for", "deleted"]);
    server.ok(&["node", "retire", "n1"]);
    wait("state=active", &[]).says(4, &["it is retired, and nothing leads from there to active"]);
    server.ok(&["node", "delete", "n1"]);
    assert_eq!(waiting.line_with("node/"), "node/n1 deleted");
}

#[test]
fn ctrl_c_ends_the_waiting_and_not_the_work() {
    let server = Server::start();
    for (mac, name) in [("52:54:00:00:00:01", "n1"), ("52:54:00:00:00:02", "n2")] {
        server.node(mac, &["--hostname", name]);
    }
    server.ok(&["node", "approve", "n1"]);
    let mut waiting = server.watch(&["wait", "node", "n1", "n2", "--for", "state=pending"]);
    waiting.line_with("node/n1 pending");
    assert_eq!(waiting.interrupted(), Some(130));
    waiting.note_with("no longer waiting; the work goes on at the server");
    waiting.note_with("next: `wardroom get nodes -w` shows it");
}

#[test]
fn a_condition_is_waited_for() {
    let server = Server::start();
    server.ok(&["create", "cluster", "east"]);
    server
        .run(&["wait", "node", "n1", "--for", "condition=Ready"])
        .says(2, &["a node has no conditions", "cluster"]);
    let waits = |goal: &str| {
        let wait = ["wait", "cluster", "east", "--for", goal, "--wait-timeout", "1s"];
        server.run(&wait)
    };
    assert_eq!(waits("condition=reconciled=false").success(), "cluster/east Reconciled=False\n");
    waits("condition=Reconciled").says(6, &["`wardroom why cluster NAME`"]);
}

#[test]
fn fields_states_and_lifecycles_are_explained_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = program(folder.path());
        command.args(arguments);
        Ran::of(command)
    };
    let node = run(&["explain", "node"]).success();
    assert!(
        node.starts_with("node (object): ") && node.lines().any(|line| line.starts_with("mac_address ")),
        "{node}"
    );
    assert!(run(&["explain", "gpu.bmc.address"]).success().starts_with("gpu.bmc.address (string): "));
    run(&["explain", "node.colour"]).says(3, &["node has no field \"colour\": give one of", "mac_address"]);
    run(&["explain", "unicorn"]).says(2, &["there is no kind \"unicorn\""]);
    let state = run(&["explain", "state", "gpu-node/draining"]).success();
    assert!(state.starts_with("gpu-node/draining: ") && state.contains("\nWays out:\nTO "), "{state}");
    run(&["explain", "state", "gpu-node/asleep"]).says(3, &["a gpu-node is never \"asleep\"", "draining"]);
    run(&["explain", "state", "draining"]).says(2, &["write KIND/STATE"]);

    let table = run(&["lifecycles", "satellite"]).success();
    assert!(table.lines().all(|line| line.starts_with("KIND ") || line.starts_with("satellite ")), "{table}");
    assert!(run(&["lifecycles", "node", "-o", "mermaid"]).success().contains("    [*] --> discovered\n"));
    assert!(run(&["lifecycles", "-o", "dot"]).success().contains("digraph \"gpu-node\" {\n"));
    let json: serde_json::Value =
        serde_json::from_str(&run(&["lifecycles", "-o", "json"]).success()).unwrap();
    assert!(json.as_array().unwrap().iter().any(|one| one["name"] == "run"));
    run(&["lifecycles", "unicorn"]).says(3, &["there is no lifecycle of \"unicorn\""]);
}

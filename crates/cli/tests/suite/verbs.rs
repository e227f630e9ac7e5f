//! Making, changing and moving things.

use serde_json::Value;

use crate::fixture::{Ran, Server};

#[test]
fn a_node_goes_through_its_life() {
    let server = Server::start();
    server.ok(&["create", "workflow", "debian", "--kernel", "http://boot/vmlinuz", "--arguments", "--quiet"]);
    server.ok(&["create", "group", "edge", "--auto-promote", "true"]);
    let id = server.node("52:54:00:00:00:01", &[]);
    let assign = ["node", "assign", &id, "--workflow", "debian", "--group", "edge", "--label", "site=berlin"];
    assert_eq!(server.ok(&assign), format!("node/{id} changed\n"));
    server.ok(&["node", "assign", &id, "--group", "", "--label", "rack=1", "--label", "site-"]);
    let node: Value = serde_json::from_str(&server.ok(&["get", "node", &id, "-o", "json"])).unwrap();
    assert_eq!((&node["workflow_id"], &node["group_id"]), (&Value::from("debian"), &Value::Null));
    assert_eq!(node["labels"], serde_json::json!({"rack": "1"}));

    assert_eq!(server.ok(&["node", "approve", &id]), format!("node/{id} pending\n"));
    for state in ["installing", "installed", "active"] {
        server.ok(&["node", "move", &id, "--to", state, "--comment", "by hand"]);
    }
    server.run(&["delete", "workflow", "debian"]).says(4, &["uses it"]);
    server.ok(&["node", "retire", &id]);
    server.ok(&["node", "delete", &id]);
    assert!(server.ok(&["get", "node", &id]).contains("deleted (was retired)"));
    assert_eq!(server.ok(&["get", "nodes", "-o", "name"]), "");
    let history = server.ok(&["history", "node", &id]);
    assert!(history.lines().nth(1).unwrap().contains("deleted"), "{history}");
    assert_eq!(server.ok(&["delete", "group", "edge"]), "group/edge deleted\n");
}

#[test]
fn many_nodes_need_a_yes_and_each_is_told() {
    let server = Server::start();
    let one = server.node("52:54:00:00:00:01", &["--label", "site=berlin"]);
    let two = server.node("52:54:00:00:00:02", &["--label", "site=berlin"]);
    server.node("52:54:00:00:00:03", &[]);
    server.run(&["node", "approve", "-l", "site=berlin"]).says(2, &["move to pending: 2 nodes", "--yes"]);
    server.ok(&["node", "approve", &one]);

    let partial = server.run(&["node", "approve", "-l", "site=berlin", "--yes"]);
    partial.says(8, &["node/52:54:00:00:00:01: the node is pending already", "1 done, 1 refused"]);
    assert_eq!(partial.out, "node/52:54:00:00:00:02 pending\n");
    let refused = server.run(&["node", "approve", &one, &two, "--yes"]);
    refused.says(4, &["0 done, 2 refused"]);
    assert!(!refused.err.contains("  "), "each is told in one line: {}", refused.err);
    let retired = server.ok(&["node", "retire", &one, "52:54:00:00:00:02", "--yes"]);
    assert_eq!(retired, format!("node/{one} retired\nnode/52:54:00:00:00:02 retired\n"));
    assert_eq!(server.ok(&["get", "nodes", "--state", "discovered", "-o", "name"]).lines().count(), 1);
}

#[test]
fn a_verb_is_tried_before_it_is_done() {
    let server = Server::start();
    for number in 1..=4 {
        server.node(
            &format!("52:54:00:00:00:0{number}"),
            &["--label", "zone=osl", "--label", &format!("rack={number}")],
        );
    }
    server.ok(&["node", "approve", "52:54:00:00:00:01"]);
    let history = || server.ok(&["history", "--limit", "50", "-o", "json"]);
    let before = history();
    let tried = server.run(&["node", "approve", "-l", "rack in (1,2,3)", "--dry-run"]);
    tried.says(
        8,
        &[
            "node/52:54:00:00:00:01: the node is pending already",
            "dry run, nothing was done: 2 of 4 nodes would be changed (50%), 2 of 4 in zone osl (50%); 1 would be refused",
        ],
    );
    assert_eq!(
        tried.out,
        "node/52:54:00:00:00:02 discovered -> pending\nnode/52:54:00:00:00:03 discovered -> pending\n"
    );
    // One that is named can be tried too, and ends as the verb would.
    server.run(&["node", "approve", "52:54:00:00:00:01", "--dry-run"]).says(4, &["pending already"]);
    assert_eq!(
        server.ok(&["node", "assign", "52:54:00:00:00:02", "--label", "a=b", "--dry-run"]),
        "node/52:54:00:00:00:02 discovered, would be changed\n"
    );
    let some = ["node", "approve", "-l", "rack in (2,3)", "--yes", "--max"];
    for max in ["1", "49.9%", "0"] {
        server
            .run(&[&some[..], &[max]].concat())
            .says(1, &["2 of 4 nodes would be changed (50%)", "more than --max"]);
    }
    server.run(&[&some[..], &["half"]].concat()).says(2, &["a share from 0% to 100%"]);
    assert_eq!(history(), before, "nothing was done");
    let approved = server.ok(&[&some[..], &["50%"]].concat());
    assert_eq!(approved, "node/52:54:00:00:00:02 pending\nnode/52:54:00:00:00:03 pending\n");
    // The question says how far it goes.
    server
        .run(&["node", "retire", "--state", "pending"])
        .says(2, &["3 of 4 nodes would be changed (75%)", "move to retired: 3 nodes: confirm with --yes"]);
}

#[test]
fn files_are_applied_again_and_again() {
    let server = Server::start();
    let file = server.dir.path().join("site.yaml");
    let text = "kind: workflow\nname: debian\nkernel: http://boot/vmlinuz\n---\n\
                kind: group\nname: edge\n---\n\
                kind: node\nmac_address: 52:54:00:00:00:01\nworkflow_id: debian\ngroup_id: edge\n";
    std::fs::write(&file, text).unwrap();
    let created = server.ok(&["apply", "-f", "site.yaml"]);
    assert_eq!(created, "workflow/debian created\ngroup/edge created\nnode/52:54:00:00:00:01 created\n");
    std::fs::write(&file, format!("{text}hostname: alpha\n")).unwrap();
    let applied = server.ok(&["apply", "-f", "site.yaml"]);
    assert_eq!(applied, created.replace("created", "applied"));
    assert!(server.ok(&["get", "node", "52:54:00:00:00:01"]).contains("alpha"));

    std::fs::write(&file, "kind: workflow\nname: x\nkernl: http://boot\n").unwrap();
    server.run(&["apply", "-f", "site.yaml"]).says(1, &["kernl"]);
}

/// Lists are sorted by name, so that those below often come before those above.
#[test]
fn referenced_objects_are_applied_first() {
    let server = Server::start();
    let text = "kind: node\nmac_address: 52:54:00:00:00:01\nworkflow_id: debian\ngroup_id: bench\n---\n\
                kind: group\nname: bench\nparent_id: lab\n---\nkind: group\nname: lab\nparent_id: site\n---\n\
                kind: group\nname: alone\n---\nkind: group\nname: site\n---\n\
                kind: workflow\nname: debian\nkernel: http://boot/vmlinuz\n";
    let apply = |text: &str| {
        std::fs::write(server.dir.path().join("some.yaml"), text).unwrap();
        server.run(&["apply", "-f", "some.yaml"])
    };
    let made = apply(text);
    let order = ["workflow/debian", "group/alone", "group/site", "group/lab", "group/bench"];
    let expected: String = order.iter().map(|one| format!("{one} created\n")).collect();
    assert_eq!(made.out, format!("{expected}node/52:54:00:00:00:01 created\n"), "{}", made.err);

    let circle =
        "kind: group\nname: site\nparent_id: bench\n---\nkind: group\nname: bench\nparent_id: site\n";
    apply(circle).says(8, &["would make a cycle of groups"]);
}

/// What was read can be given back, alone or in a list, and changes nothing.
#[test]
fn what_get_writes_can_be_applied() {
    let server = Server::start();
    let file = server.dir.path().join("all.yaml");
    let all = "kind: workflow\nname: debian\nkernel: http://b/k\n---\nkind: group\nname: top\n---\n\
               kind: satellite-group\nname: base\nregistry: https://r.example\n---\n\
               kind: satellite-config\nname: quiet\nconfig: {}\n---\n\
               kind: site\nname: berlin\nsettings: {url: \"http://127.0.0.1:1/MAAS\", key: \"file:k\", \
               provisioning_subnet: s, boot_disk: {model: BOSS}}\n";
    std::fs::write(&file, all).unwrap();
    server.ok(&["apply", "-f", "all.yaml"]);
    server.node("52:54:00:00:00:01", &["--hostname", "a", "--workflow", "debian", "--label", "rack=a1"]);
    let spec =
        |text: &str| text.lines().filter(|line| !line.contains("_at: ")).collect::<Vec<_>>().join("\n");
    for kind in ["workflows", "groups", "nodes", "satellite-groups", "satellite-configs", "sites"] {
        for format in ["yaml", "json"] {
            let read = server.ok(&["get", kind, "-o", format]);
            std::fs::write(&file, &read).unwrap();
            assert_eq!(server.ok(&["diff", "-f", "all.yaml"]), "", "{kind}");
            let planned = server.ok(&["apply", "-f", "all.yaml", "--dry-run"]);
            assert!(planned.contains(" stays as it is"), "{kind}: {planned}");
            let applied = server.ok(&["apply", "-f", "all.yaml"]);
            assert!(applied.contains(" applied"), "{kind}: {applied}");
            if format == "yaml" {
                assert_eq!(spec(&server.ok(&["get", kind, "-o", format])), spec(&read), "{kind}");
            }
        }
    }
    std::fs::write(&file, "just words\n").unwrap();
    server.run(&["apply", "-f", "all.yaml"]).says(1, &["all.yaml: a document must have fields"]);
}

#[test]
fn tokens_are_shown_once_and_revoked_at_once() {
    let server = Server::start();
    let made = server.run(&["token", "create", "ci", "--role", "operator", "--expires", "30d"]);
    let secret = made.out.trim();
    assert_eq!(made.err, "token/ci created; its secret is not shown again\n");
    assert!(
        secret.starts_with("wrt_") && !secret.contains(char::is_whitespace),
        "only the secret is written"
    );
    let as_ci = |arguments: &[&str]| {
        let mut command = server.command(arguments);
        command.env("WARDROOM_TOKEN", secret);
        Ran::of(command)
    };
    as_ci(&["get", "nodes"]).says(0, &[]);
    let listed = server.ok(&["token", "list", "-o", "json"]);
    let tokens: Value = serde_json::from_str(&listed).unwrap();
    let id = tokens.as_array().unwrap().iter().find(|token| token["name"] == "ci").unwrap()["id"]
        .as_str()
        .unwrap();
    assert!(listed.contains("\"ci\"") && !listed.contains("wrt_"), "{listed}");
    assert_eq!(server.ok(&["token", "revoke", id]), format!("token/{id} revoked\n"));
    server.ok(&["token", "create", "single", "--role", "viewer"]);
    assert_eq!(server.ok(&["token", "revoke", "single"]), "token/single revoked\n");
    as_ci(&["get", "nodes"]).says(5, &[]);

    server.ok(&["token", "create", "file", "--role", "viewer", "--secret-file", "file.token"]);
    let path = server.dir.path().join("file.token");
    let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let again = ["token", "create", "file", "--role", "viewer", "--secret-file", "file.token"];
    server.run(&again).says(1, &["file.token"]);
}

#[test]
fn tokens_are_selected_by_their_state() {
    let server = Server::start();
    server.ok(&["token", "create", "gone", "--role", "viewer"]);
    server.ok(&["token", "revoke", "gone"]);
    server.ok(&["token", "create", "over", "--role", "viewer", "--expires", "1s"]);
    let named = |state: &str| -> Vec<String> {
        let table = server.ok(&["get", "tokens", "--state", state, "--no-headers"]);
        table.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
    };
    while named("expired").is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(named("expired"), ["over"]);
    assert_eq!(named("revoked"), ["gone"]);
    assert_eq!(named("active"), ["first-admin"]);
    let watched = server.watch(&["get", "tokens", "--state", "active", "-w", "--no-headers"]);
    watched.line_with("first-admin");
    server.ok(&["token", "create", "here", "--role", "viewer"]);
    watched.line_with("here");
    server.ok(&["token", "revoke", "here"]);
    watched.line_with("is no longer selected");
    server.run(&["get", "tokens", "--state", "asleep"]).says(1, &["  --state: ", "active, expired, revoked"]);
    server
        .run(&["get", "tokens", "-l", "a=b"])
        .says(2, &["tokens have neither labels nor fields", "--state"]);
    server.run(&["get", "sites", "--state", "ready"]).says(2, &["sites take no selectors"]);
}

#[test]
fn what_a_file_does_not_name_stays() {
    let server = Server::start();
    let apply = |text: &str| {
        std::fs::write(server.dir.path().join("some.yaml"), text).unwrap();
        server.run(&["apply", "-f", "some.yaml"])
    };
    apply("kind: workflow\nname: debian\nkernel: http://b/k\narguments: quiet\npromote: true\n").success();
    apply("kind: group\nname: top\n---\nkind: group\nname: mid\nparent_id: top\n").success();
    apply("kind: workflow\nname: debian\nkernel: http://b/k2\n").success();
    apply("kind: group\nname: mid\nauto_promote: false\n").success();
    let workflow = server.ok(&["get", "workflow", "debian", "-o", "json"]);
    assert!(workflow.contains("http://b/k2") && workflow.contains("quiet"), "{workflow}");
    assert!(server.ok(&["get", "group", "mid", "-o", "json"]).contains("\"top\""));
    apply("").says(1, &["contains no document"]);
    apply("name: x\n").says(1, &["kind: workflow, group, node, site"]);
}

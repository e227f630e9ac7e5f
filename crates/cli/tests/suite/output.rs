//! What commands write: tables, JSON, YAML and names.

use serde_json::Value;

use crate::fixture::{Ran, Server};

fn heads(table: &str) -> Vec<&str> {
    table.lines().next().unwrap().split_whitespace().collect()
}

#[test]
fn lists_are_tables_with_stable_columns() {
    let server = Server::start();
    let id = server.node("52:54:00:00:00:01", &["--hostname", "alpha", "--label", "site=berlin"]);
    server.node("52:54:00:00:00:02", &[]);

    let table = server.ok(&["get", "nodes"]);
    assert_eq!(heads(&table), ["NAME", "STATE", "MAC", "WORKFLOW", "SINCE", "AGE"]);
    let cells: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().take(4).collect();
    assert_eq!(cells, ["alpha", "discovered", "52:54:00:00:00:01", "<none>"]);
    assert!(!table.contains('\u{1b}'), "no colour without a terminal");

    let wide = server.ok(&["get", "no", "-o", "wide"]);
    assert!(wide.contains("LABELS") && wide.contains("site=berlin") && wide.contains(&id), "{wide}");
    assert!(!table.contains(&id), "{table}");
    let bare = server.ok(&["get", "node", "--no-headers", "-l", "site=berlin"]);
    assert_eq!(bare.lines().count(), 1);
    assert!(bare.starts_with("alpha "), "{bare}");
    assert_eq!(server.ok(&["get", "nodes", "--limit", "1", "-o", "name"]), format!("node/{id}\n"));
    assert_eq!(server.ok(&["get", "nodes", "--state", "active", "-o", "name"]), "");
    let by_field = ["get", "nodes", "--field-selector", "hostname=alpha", "-o", "name"];
    assert_eq!(server.ok(&by_field), format!("node/{id}\n"));
}

/// People read names, also of deleted resources; programs get the answer of the API.
#[test]
fn history_says_what_resources_are_called() {
    let server = Server::start();
    let alpha = server.node("52:54:00:00:00:01", &["--hostname", "alpha"]);
    let nameless = server.node("52:54:00:00:00:02", &[]);
    let gone = server.node("52:54:00:00:00:03", &["--hostname", "gone"]);
    server.ok(&["satellite", "create", "edge-01", "--secret-file", "edge-01.token"]);
    server.ok(&["node", "retire", &gone]);
    server.ok(&["node", "delete", &gone]);
    let following = server.watch(&["events", "-w", "--continue", "start"]);
    for command in ["history", "events"] {
        let table = server.ok(&[command]);
        let head: Vec<_> = heads(&table).into_iter().take(4).collect();
        assert_eq!(head, ["TIME", "RESOURCE", "NAME", "SEQ"]);
        let named = |id: &str| -> Vec<String> {
            let lines = table.lines().filter(|line| line.contains(id));
            lines.map(|line| line.split_whitespace().nth(2).unwrap().to_owned()).collect()
        };
        assert_eq!(named(&alpha), ["alpha"], "{table}");
        assert_eq!(named(&nameless), ["52:54:00:00:00:02"]);
        assert_eq!(named(&gone), ["gone"; 3]);
        assert_eq!(named("satellite/"), ["edge-01"]);
        assert_eq!(named("token/"), ["first-admin"]);
        let rows: Value = serde_json::from_str(&server.ok(&[command, "-o", "json"])).unwrap();
        assert!(rows[0]["resource_id"].is_string() && rows[0].get("name").is_none(), "{rows}");
    }
    assert!(following.line_with(&alpha).contains("alpha"));
    // History names the token also for callers that may not list tokens.
    let secret = server.ok(&["token", "create", "reader", "--role", "viewer"]);
    let mut read = server.command(&["history"]);
    read.env("WARDROOM_TOKEN", secret.trim());
    let read = Ran::of(read).success();
    assert!(read.lines().any(|line| line.contains("token/") && line.contains("   reader   ")), "{read}");
    // The name that it has now, not the one that was seen first.
    server.ok(&["node", "assign", &alpha, "--hostname", "omega"]);
    assert!(following.line_with("changed").contains("omega"));
}

/// A satellite is waited for in the way in which it comes.
#[test]
fn why_says_what_is_waited_for() {
    let server = Server::start();
    server.ok(&["satellite", "create", "edge", "--secret-file", "edge.token"]);
    let new = server.ok(&["why", "satellite", "edge"]);
    let registers = "Next   wait until the satellite registers, which counts as its first heartbeat\n";
    assert!(new.starts_with("edge has been pending for "), "{new}");
    assert!(new.contains(registers) && !new.contains("exchanges its credential, or"), "{new}");
    assert!(
        new.contains(
            "       wardroom satellite reenable edge --mode reissue   gives the satellite a new token"
        ),
        "{new}"
    );
    // It has nothing yet that it could come back with.
    server.ok(&["satellite", "revoke", "edge", "--comment", "too early"]);
    let revoked = server.ok(&["why", "satellite", "edge"]);
    assert!(revoked.contains("Revoked by first-admin: too early."), "{revoked}");
    assert!(revoked.contains("\nNext   wardroom satellite reenable edge --mode reissue   give"), "{revoked}");
    server.ok(&["satellite", "reenable", "edge", "--mode", "reissue", "--secret-file", "again.token"]);

    let token = std::fs::read_to_string(server.dir.path().join("again.token")).unwrap();
    let url = format!("{}/satellites/ztr/{}", server.url, token.trim());
    let registered = std::process::Command::new("curl").args(["--silent", "--fail", &url]).output().unwrap();
    assert!(registered.status.success());
    server.ok(&["satellite", "revoke", "edge"]);
    let revoked = server.ok(&["why", "satellite", "edge"]);
    assert!(revoked.contains("Revoked by first-admin, without a comment."), "{revoked}");
    assert!(revoked.contains("`keep` for clients that cannot refresh"), "{revoked}");
    server.ok(&["satellite", "reenable", "edge"]);
    let back = server.ok(&["why", "satellite", "edge"]);
    assert!(back.contains("Next   wait until the re-enabled satellite exchanges its credential"), "{back}");
    assert!(!back.contains("first heartbeat"), "{back}");
}

#[test]
fn lists_go_past_one_page() {
    let server = Server::start();
    let documents: Vec<String> = (0..503)
        .map(|n| format!("kind: node\nmac_address: 52:54:00:00:{:02x}:{:02x}\n", n / 256, n % 256))
        .collect();
    let file = server.dir.path().join("nodes.yaml");
    std::fs::write(&file, documents.join("---\n")).unwrap();
    server.ok(&["apply", "-f", file.to_str().unwrap()]);
    assert_eq!(server.ok(&["get", "nodes", "-o", "name"]).lines().count(), 503);
    assert_eq!(server.ok(&["get", "nodes", "-o", "name", "--limit", "501"]).lines().count(), 501);
}

#[test]
fn json_and_yaml_are_what_the_api_gives() {
    let server = Server::start();
    let id = server.node("52:54:00:00:00:01", &["--label", "site=berlin"]);
    let one: Value = serde_json::from_str(&server.ok(&["get", "node", &id, "-o", "json"])).unwrap();
    let all: Value = serde_json::from_str(&server.ok(&["get", "nodes", "-o", "json"])).unwrap();
    assert_eq!(all, Value::Array(vec![one.clone()]));
    assert_eq!((&one["id"], &one["labels"]["site"]), (&Value::from(id.as_str()), &Value::from("berlin")));
    let yaml: Value =
        serde_saphyr::from_str(&server.ok(&["get", "node", "52-54-00-00-00-01", "-o", "yaml"])).unwrap();
    assert_eq!(yaml, one);
    let summary: Value = serde_json::from_str(&server.ok(&["summary", "-o", "json"])).unwrap();
    assert_eq!(summary["kinds"]["node"]["discovered"], 1);
    assert!(!server.ok(&["summary"]).lines().any(|line| line.starts_with("server ")), "no caller gets those");
    assert!(server.ok(&["summary"]).lines().any(|line| line.split_whitespace().eq([
        "node",
        "discovered",
        "1"
    ])));
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let server = Server::start();
    let id = server.node("52:54:00:00:00:01", &[]);
    server.ok(&["node", "approve", &id, "--comment", "two\nlines\u{202e}turned"]);
    let table = server.ok(&["history", "node", &id]);
    assert!(table.contains("two linesturned"), "{table}");
    assert_eq!(table.lines().count(), 3);
}

#[test]
fn a_node_is_described_with_its_explanation_and_history() {
    let server = Server::start();
    let id = server.node("52:54:00:00:00:01", &[]);
    server.ok(&["node", "approve", &id, "--comment", "looks good"]);
    let described = server.ok(&["describe", "node", "52:54:00:00:00:01"]);
    // A suggestion names the node as the command that asked for it did.
    let next = |name: &str| format!("Next   wardroom node assign {name} --workflow NAME");
    for text in ["Name:", "no workflow is assigned", "looks good", &next("52:54:00:00:00:01")] {
        assert!(described.contains(text), "{text:?} is missing in {described}");
    }
    let (fields, _) = described.split_once("History:").unwrap();
    assert!(!fields.contains("<none>") && !fields.contains("Vendor"), "{fields}");
    assert!(server.ok(&["why", "node", &id]).contains(&next(&id)));
    let why: Value = serde_json::from_str(&server.ok(&["why", "node", &id, "-o", "json"])).unwrap();
    assert_eq!(why[0]["next"]["do"], "call");
}

#[test]
fn a_closed_output_is_no_error() {
    let server = Server::start();
    server.node("52:54:00:00:00:01", &[]);
    let mut child = server.command(&["get", "nodes"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Pages joined are one list, in every format.
#[test]
fn a_list_of_several_pages_is_one_list() {
    let server = Server::start();
    let documents: Vec<String> = (0..150)
        .map(|n| format!("kind: node\nmac_address: 52:54:00:00:00:{n:02x}\nhostname: n{n:03}\n"))
        .collect();
    std::fs::write(server.dir.path().join("nodes.yaml"), documents.join("---\n")).unwrap();
    server.ok(&["apply", "-f", "nodes.yaml"]);
    let json = server.ok(&["get", "nodes", "-o", "json"]);
    let nodes: Vec<Value> = serde_json::from_str(&json).unwrap();
    assert_eq!(nodes.len(), 150);
    assert_eq!(serde_json::to_string_pretty(&nodes).unwrap().lines().count(), json.lines().count());
    let yaml: Vec<Value> = serde_saphyr::from_str(&server.ok(&["get", "nodes", "-o", "yaml"])).unwrap();
    let lines = server.ok(&["get", "nodes", "-o", "jsonl"]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(yaml == nodes && lines == nodes);
    assert_eq!(server.ok(&["get", "nodes"]).lines().count(), 151);
    assert_eq!(server.ok(&["get", "nodes", "-o", "json", "--state", "active"]), "[]\n");
    assert_eq!(server.ok(&["get", "nodes", "-o", "yaml", "--state", "active"]), "[]\n");

    let hosts = server.ok(&["get", "nodes", "-o", "jsonpath={.hostname}", "--sort-by", ".mac_address"]);
    let expected: String = (0..150).map(|n| format!("n{n:03}\n")).collect();
    assert_eq!(hosts, expected);
    let top =
        server.ok(&["get", "nodes", "-o", "custom-columns=HOST:.hostname,RACK:.labels.rack", "--limit", "2"]);
    assert_eq!(top, "HOST   RACK\nn000   <none>\nn001   <none>\n");
    let csv = server.ok(&["get", "nodes", "-o", "csv=HOST:.hostname,STATE:.state", "--limit", "1"]);
    assert_eq!(csv, "HOST,STATE\nn000,discovered\n");
    let csv = server.ok(&["get", "nodes", "-o", "csv"]);
    assert!(csv.starts_with("NAME,STATE,MAC,") && csv.lines().count() == 151, "{csv}");
    server.run(&["get", "nodes", "-o", "jsonpath=.["]).says(2, &["is not a path such as"]);
    server
        .run(&["get", "nodes", "-o", "xml"])
        .says(2, &["[possible values: table, wide, json, yaml, name, jsonl, csv"]);
    server.run(&["get", "nodes", "-w", "--sort-by", ".id"]).says(2, &["--sort-by"]);
}

#[test]
fn a_watch_says_what_happened() {
    let server = Server::start();
    let id = server.node("52:54:00:00:00:01", &[]);
    let json = server.watch(&["get", "nodes", "-w", "-o", "json", "--output-watch-events"]);
    let table = server.watch(&["get", "nodes", "-w", "--output-watch-events"]);
    assert!(table.line_with("EVENT").contains("STATE"));
    json.line_with("\"ADDED\"");
    table.line_with("ADDED ");
    server.ok(&["node", "retire", &id]);
    let event: Value = serde_json::from_str(&json.line_with("\"MODIFIED\"")).unwrap();
    assert_eq!((&event["object"]["id"], &event["object"]["state"]), (&id.as_str().into(), &"retired".into()));
    assert!(table.line_with("MODIFIED").contains("retired"));
    server.ok(&["node", "delete", &id]);
    let event: Value = serde_json::from_str(&json.line_with("\"DELETED\"")).unwrap();
    assert_eq!(event["object"]["id"], id.as_str());
}

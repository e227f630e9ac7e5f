//! Every class of failure has its exit code, and says what to do.

use std::net::TcpListener;

use crate::fixture::{Ran, Server, program};

#[test]
fn the_command_line_is_checked_first() {
    let server = Server::start();
    server.run(&["get", "unicorns"]).says(2, &["unicorns", "nodes"]);
    server.run(&["node", "move", "x"]).says(2, &["--to"]);
    server.run(&["node", "approve"]).says(2, &["NAME"]);
    let bare = server.run(&["get"]);
    bare.says(
        2,
        &["<KIND> [possible values: nodes, ", "gpu-nodes", "Usage: wardroom get [OPTIONS] [KIND] [NAME]"],
    );
    // The variable names the server, so the option is not needed.
    for bare in [bare, server.run(&["describe"]), server.run(&["get", "nodes", "--bogus"])] {
        bare.says(2, &["Usage: wardroom "]);
        assert!(!bare.err.contains("--server"), "{}", bare.err);
    }
    server.run(&["get", "groups", "-l", "a=b"]).says(2, &["groups take no selectors"]);
    server.run(&["get", "nodes", "--server", "not a url"]).says(2, &["not a URL"]);
    assert!(server.ok(&["--help"]).contains("8  some of several"));
}

#[test]
fn wrong_input_names_the_field() {
    let server = Server::start();
    server.run(&["get", "nodes", "--state", "bogus"]).says(1, &["  --state: ", "discovered"]);
    server
        .run(&["get", "nodes", "--field-selector", "a=b"])
        .says(1, &["  --field-selector: ", "mac_address"]);
    let site = [
        "create",
        "site",
        "x",
        "--url",
        "maas",
        "--key",
        "secret",
        "--subnet",
        "s",
        "--set",
        "poll_millis=1",
    ];
    server.run(&site).says(1, &["  --url: ", "  --key: ", "  --boot-disk-model: ", "  --set poll_millis: "]);
    server
        .run(&[&site[..], &["--set", "insecure=true"]].concat())
        .says(2, &["--set insecure: ", "bmc_insecure"]);
    server.run(&["node", "create", "--mac", "nonsense"]).says(1, &["  --mac: "]);
    let id = server.node("52:54:00:00:00:01", &[]);
    server.run(&["node", "move", &id, "--to", "foo"]).says(1, &["  --to: "]);
    server.run(&["satellite", "create", "edge", "--group", "nope"]).says(1, &["  --group: "]);
    for selector in ["site=(", "site!=a b", "site in (a,b!)"] {
        server.run(&["get", "nodes", "-l", selector]).says(1, &["  --selector: ", "letters"]);
    }
    server.run(&["gpu-node", "retire", "x", "--skip", "drain_node"]).says(2, &["write STAGE=COMMENT"]);
    let join = ["satellite", "join-token", "edge", "--selector", "unix:uid:1"];
    server.run(&[&join[..], &["--method", "foo"]].concat()).says(2, &["x509pop"]);
    server.run(&[&join[..], &["--ttl", "0"]].concat()).says(2, &["--ttl"]);
    server.run(&[&join[..], &["--method", "sshpop"]].concat()).says(1, &["  --parent: "]);
    // A shorter form of what has a secret would be the secret.
    for create in [&["satellite", "create", "edge"][..], &["token", "create", "t", "--role", "viewer"]] {
        server.run(&[create, &["-o", "name"]].concat()).says(2, &["json, yaml"]);
    }
}

#[test]
fn what_is_not_there_is_not_found() {
    let server = Server::start();
    server.run(&["get", "node", "nope"]).says(3, &["there is no node \"nope\"", "next: "]);
    server.run(&["get", "node", "52:54:00:00:00:99"]).says(3, &["there is no node \"52:54:00:00:00:99\""]);
    server.run(&["get", "token", "nope"]).says(3, &["there is no token"]);
    server
        .run(&["get", "satellite", "gone"])
        .says(3, &["; if it was deleted: `wardroom history satellite gone`"]);
    server
        .run(&["history", "satellite", "gone"])
        .says(3, &["no satellite \"gone\", and none was deleted", "`wardroom get satellites`"]);
    server
        .run(&["satellite", "unassign", "gone", "--config"])
        .says(3, &["list them: `wardroom get satellites`; if it was deleted"]);
    // None of several is changed if one is not there.
    server.ok(&["satellite", "create", "a", "--secret-file", "a.token"]);
    server.run(&["satellite", "revoke", "a", "b", "--yes"]).says(3, &["there is no satellite \"b\""]);
    assert!(server.ok(&["get", "satellite", "a"]).contains("pending"));
    server
        .run(&["why", "gpu-node", "gone"])
        .says(3, &["if it was deleted: `wardroom history gpu-node gone`"]);
    server.run(&["node", "retire", "-l", "site=nowhere", "--yes"]).says(3, &["no node matches"]);
}

#[test]
fn a_conflict_says_what_is_allowed() {
    let server = Server::start();
    let id = server.node("52:54:00:00:00:01", &[]);
    server.run(&["node", "move", &id, "--to", "active"]).says(
        4,
        &[
            &format!("allowed now: wardroom node move {id} --to pending\n"),
            &format!("             wardroom node move {id} --to retired\n"),
            &format!("next: `wardroom why node {id}`"),
        ],
    );
    server
        .run(&["node", "delete", &id])
        .says(4, &["retire it first", &format!("wardroom node move {id} --to retired")]);
    server
        .run(&["get", "run", "nope"])
        .says(3, &["there is no run \"nope\"", "next: list them: `wardroom get runs`"]);
    server
        .run(&["token", "create", "x", "--role", "viewer", "--group", "nobody"])
        .says(1, &["  --group: ", "create it first: `wardroom create group nobody --help`"]);
    server.run(&["node", "create", "--mac", "52:54:00:00:00:01"]).says(4, &[&id]);
}

#[test]
fn a_caller_without_the_role_is_denied() {
    let server = Server::start();
    let mut command = server.command(&["get", "nodes"]);
    command.env("WARDROOM_TOKEN", "wrt_unknown");
    Ran::of(command).says(5, &["the token is not valid", "--token-file"]);

    server.ok(&["token", "create", "reader", "--role", "viewer", "--secret-file", "reader.token"]);
    server.ok(&["get", "nodes", "--token-file", "reader.token"]);
    let create = ["node", "create", "--mac", "52:54:00:00:00:01", "--token-file", "reader.token"];
    server.run(&create).says(5, &["the role viewer may not do this", "operator"]);

    let elsewhere = tempfile::tempdir().unwrap();
    let mut command = program(elsewhere.path());
    command.args(["get", "nodes", "--server", &server.url]);
    Ran::of(command).says(5, &["WARDROOM_TOKEN_FILE"]);
}

#[test]
fn the_strongest_source_of_a_token_wins() {
    let server = Server::start();
    let secret = server.ok(&["token", "create", "reader", "--role", "viewer"]);
    std::fs::write(server.dir.path().join("bad.token"), "wrt_unknown\n").unwrap();
    let run = |flags: &[&str], variables: &[(&str, &str)]| {
        let mut command = server.command(&[&["get", "nodes"], flags].concat());
        command.envs(variables.iter().copied());
        Ran::of(command).code
    };
    let (good, bad) = (secret.trim(), "wrt_unknown");
    assert_eq!(run(&["--token-file", "bad.token"], &[("WARDROOM_TOKEN", good)]), 5);
    assert_eq!(run(&["--token-file", "wardroom-data/admin.token"], &[("WARDROOM_TOKEN", bad)]), 0);
    assert_eq!(run(&[], &[("WARDROOM_TOKEN", good), ("WARDROOM_TOKEN_FILE", "bad.token")]), 0);
    assert_eq!(run(&[], &[("WARDROOM_TOKEN_FILE", "bad.token")]), 5);
    assert_eq!(run(&["--token-file", "missing.token"], &[]), 5);
    std::fs::write(server.dir.path().join("empty.token"), "\n").unwrap();
    server.run(&["get", "nodes", "--token-file", "empty.token"]).says(5, &["empty.token", "empty"]);
    // A token that is there and cannot be read is named.
    let local = server.data_dir().join("admin.token");
    std::fs::remove_file(&local).unwrap();
    std::fs::create_dir(&local).unwrap();
    server.run(&["get", "nodes"]).says(5, &["wardroom-data/admin.token"]);
}

#[test]
fn a_server_that_is_not_there_is_unreachable() {
    let dir = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = program(dir.path());
    command.args(["get", "nodes", "--server", &format!("http://{free}")]);
    Ran::of(command).says(7, &["cannot be reached", "wardroom serve"]);
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let mut command = program(dir.path());
    command.args(["get", "nodes", "--server", &url, "--timeout", "1"]);
    Ran::of(command).says(6, &["did not answer in time", "before you repeat it"]);
}

#[test]
fn something_else_that_answers_is_an_error() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", other.local_addr().unwrap());
    // That a proxy knows no such path says nothing of nodes.
    let answers = ["200 OK", "404 Not Found"];
    let answering = std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        for status in answers {
            let (mut stream, _) = other.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\nhello").unwrap();
        }
    });
    let dir = tempfile::tempdir().unwrap();
    for _ in answers {
        let mut command = program(dir.path());
        command.args(["get", "nodes", "--server", &url]);
        Ran::of(command).says(1, &["is this a Wardroom server?"]);
    }
    answering.join().unwrap();
}

#[test]
fn a_bmc_without_tls_is_refused_before_a_run_begins() {
    let server = Server::start();
    let site =
        ["create", "site", "lab", "--url", "http://127.0.0.1:1/MAAS", "--key", "file:key", "--subnet", "s"];
    let bmcs = ["--bmc-network", "127.0.0.0/8", "--bmc-credential", "file:bmc/lab"];
    server.ok(&[&site[..], &bmcs[..], &["--boot-disk-model", "BOSS"]].concat());
    let node = ["gpu-node", "create", "gpu-1", "--site", "lab", "--mac", "52:54:00:12:34:56"];
    let node = [&node[..], &["--bmc", "http://127.0.0.1:2", "--bmc-credential", "file:bmc/lab"]].concat();
    server.run(&node).says(1, &["  --bmc: ", "bmc_insecure of the site \"lab\""]);
    assert_eq!(server.ok(&["get", "gpu-nodes", "-o", "name"]), "");
    std::fs::write(
        server.dir.path().join("lab.yaml"),
        "{kind: site, name: lab, settings: {bmc_insecure: true}}",
    )
    .unwrap();
    server.ok(&["apply", "-f", "lab.yaml"]);
    let with = |old: &str, new: &'static str| -> Vec<&str> {
        node.iter().map(|argument| if *argument == old { new } else { argument }).collect()
    };
    let elsewhere = with("http://127.0.0.1:2", "http://10.0.0.7");
    server.run(&elsewhere).says(1, &["  --bmc: ", "10.0.0.7 is in none of the networks", "127.0.0.0/8"]);
    let foreign = with("file:bmc/lab", "file:bmc/other");
    server.run(&foreign).says(1, &["  --bmc-credential: ", "may use: file:bmc/lab"]);
    server.ok(&node);
}

#[test]
fn a_server_that_cannot_start_says_what_to_do() {
    let server = Server::start();
    let address = server.url.strip_prefix("http://").unwrap();
    let serve = |listen: &str, folder: &str| {
        let mut command = program(server.dir.path());
        command.args([
            "serve",
            "--boot-listen",
            "",
            "--device-listen",
            "",
            "--listen",
            listen,
            "--data-dir",
            folder,
        ]);
        Ran::of(command)
    };
    serve(address, "another").says(1, &["another program uses this address", "server.listen (--listen)"]);
    serve("127.0.0.1:0", "wardroom-data").says(1, &["is in use by another server", "--data-dir"]);
}

/// Without satellites an address need not be set; with some it must be, before one is sent nowhere.
#[test]
fn an_address_that_is_none_is_told_to_no_satellite() {
    let server = Server::start_everywhere();
    server.ok(&["get", "nodes"]);
    server
        .run(&["satellite", "create", "edge"])
        .says(7, &["server.public_url", "WARDROOM_SERVER_PUBLIC_URL"]);
}

//! Following changes, also over a cut.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use crate::fixture::Server;

#[test]
fn a_watched_list_shows_what_happens() {
    let server = Server::start();
    let first = server.node("52:54:00:00:00:01", &["--label", "site=berlin"]);
    let all = server.watch(&["get", "nodes", "-w"]);
    let berlin = server.watch(&["get", "nodes", "-w", "-l", "site=berlin", "-o", "json"]);
    assert!(all.line_with("MAC").contains("STATE"));
    all.line_with("52:54:00:00:00:01");
    berlin.line_with(&first);

    let second = server.node("52:54:00:00:00:02", &["--label", "site=bonn"]);
    assert!(all.line_with("52:54:00:00:00:02").contains("discovered"));
    server.ok(&["node", "retire", &first]);
    assert!(all.line_with("52:54:00:00:00:01").contains("retired"));
    // The node of another site was passed over.
    let next = berlin.line_with("mac_address");
    assert!(next.contains(&first) && next.contains("retired"), "{next}");
    let retired = server.watch(&["get", "nodes", "-w", "--state", "discovered"]);
    retired.line_with("52:54:00:00:00:02");
    // There a name is one that is there.
    let named = server.watch(&["get", "nodes", "-w", "--state", "discovered", "-o", "name"]);
    named.line_with(&second);
    server.ok(&["node", "retire", &second]);
    named.note_with("node/52:54:00:00:00:02 is no longer selected");
    assert_eq!(retired.line_with("no longer"), "node/52:54:00:00:00:02 is no longer selected");
    server.ok(&["node", "delete", &first]);
    assert_eq!(all.line_with("deleted"), "node/52:54:00:00:00:01 deleted");
}

#[test]
fn events_go_on_where_they_were_cut() {
    let mut server = Server::start();
    let seen = server.node("52:54:00:00:00:01", &[]);
    let events = server.watch(&["events", "-w", "-o", "json", "--continue", "start"]);
    events.line_with(&seen);
    server.restart();
    events.note_with("reconnecting");
    let missed = server.node("52:54:00:00:00:02", &[]);
    let line = events.line_with("\"kind\":\"node\"");
    assert!(line.contains(&missed), "neither twice nor missed: {line}");
}

/// As in `wardroom get nodes -w | head -1`, while nothing happens.
#[test]
fn a_watch_without_a_reader_ends() {
    let server = Server::start();
    server.node("52:54:00:00:00:01", &[]);
    for arguments in [&["get", "nodes", "-w"][..], &["events", "-w", "--continue", "start"]] {
        let mut child =
            server.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!line.is_empty() && ended.status.success() && said.is_empty(), "{arguments:?}: {said}");
    }
}

#[test]
fn events_come_in_pages() {
    let server = Server::start();
    server.node("52:54:00:00:00:01", &[]);
    let first = server.run(&["events", "--limit", "1", "-o", "name"]);
    assert_eq!(first.out.lines().count(), 1);
    let cursor = first.err.trim().rsplit(' ').next().unwrap().to_owned();
    let rest = server.run(&["events", "--continue", &cursor, "-o", "name"]);
    let all = server.ok(&["events", "-o", "name"]);
    assert_eq!(format!("{}{}", first.out, rest.out), all);
    server.run(&["events", "--continue", "nonsense"]).says(1, &["cursor"]);
}

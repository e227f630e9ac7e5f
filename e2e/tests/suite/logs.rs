//! The log: requests are answered even if standard error is blocked or closed.

use std::{fs::OpenOptions, process::Stdio};

use serde_json::json;

use crate::support::{Backend, Site, mac, site::Server, wait_for};

#[test]
fn a_full_volume_costs_lines_and_no_answers() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let server = answers(40, full.into());
    server.all_dropped();
}

#[test]
fn a_log_without_reader_costs_lines_and_no_answers() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let server = answers(40, writer.into());
    server.all_dropped();
}

/// More lines than a pipe takes: writing the last of them blocks.
#[test]
fn a_log_that_is_not_read_costs_no_answers() {
    let (_reader, writer) = std::io::pipe().unwrap();
    let mut logged = answers(400, writer.into());
    logged.site.servers[0].terminate();
    assert!(logged.site.servers[0].wait().success());
}

/// A server that has logged so many changes.
struct Logged {
    site: Site,
    changes: usize,
}

/// Creates nodes on a server with this log. Each is one line at level `info`.
fn answers(changes: usize, log: Stdio) -> Logged {
    let mut site = Site::alone(Backend::Sqlite, &[]);
    site.servers[0].terminate();
    site.servers[0].wait();
    site.set("WARDROOM_LOG_LEVEL", "info");
    site.servers[0] = Server::with_log(site.command(0), log).expect("a server did not start");
    for number in 0..changes {
        site.admin().post("/api/v1/nodes", &json!({"mac_address": mac(number)})).expect(201);
    }
    site.admin().get("/readyz").expect(200);
    Logged { site, changes }
}

impl Logged {
    fn all_dropped(&self) {
        let dropped = || self.site.admin().number("wardroom_log_lines_dropped_total ");
        wait_for("all lines to be dropped", || (dropped() >= self.changes as f64).then_some(()));
    }
}

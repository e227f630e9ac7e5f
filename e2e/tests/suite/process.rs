//! The process: its end, its restart, its files, and reasons to refuse a start.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::support::{
    Backend, Site, chain::verify_all, line::Line, mac, node_in, on_both, site::Server, wait_for,
};

on_both! {
    the_end_lets_a_request_finish,
    a_body_that_does_not_come_is_not_waited_for,
    a_body_that_is_announced_too_large_is_not_waited_for,
    a_restart_keeps_everything,
    a_stream_does_not_hold_up_the_end,
    secrets_are_for_their_owner_only,
    another_key_is_refused,
    it_is_alive_and_ready,
}

fn the_end_lets_a_request_finish(on: Backend) {
    let mut site = Site::start(on);
    let body = json!({"mac_address": mac(1)}).to_string();
    let api = site.admin_at(0).with("content-type", "application/json");
    let mut request = api.open("POST", "/api/v1/nodes", body.len(), "close").unwrap();
    request.write_all(&body.as_bytes()[..10]).unwrap();
    // Once the server answers another request, it has read the earlier one.
    site.admin_at(0).get("/livez").expect(200);
    site.servers[0].terminate();
    let address = site.servers[0].address;
    wait_for("the listener to close", || TcpStream::connect(address).is_err().then_some(()));
    assert!(site.servers[0].is_running(), "a request is under way");
    request.write_all(&body.as_bytes()[10..]).unwrap();
    let mut answer = String::new();
    request.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert!(site.servers[0].wait().success());
    site.restart(0);
    let listed = site.admin_at(0).get("/api/v1/nodes").expect(200);
    assert_eq!(listed["data"][0]["mac_address"], mac(1));
}

fn a_body_that_does_not_come_is_not_waited_for(on: Backend) {
    let site = Site::start_with(on, &[("WARDROOM_SERVER_REQUEST_TIMEOUT_SECONDS", "1")]);
    let body = json!({"mac_address": mac(1)}).to_string();
    let api = site.admin_at(0).with("content-type", "application/json");
    let mut request = api.open("POST", "/api/v1/nodes", body.len(), "close").unwrap();
    request.write_all(&body.as_bytes()[..10]).unwrap();
    let mut answer = String::new();
    request.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("nothing was done"), "{answer}");
    // The rest comes too late, if at all: a refused request has no effect.
    let _ = request.write_all(&body.as_bytes()[10..]);
    site.admin_at(0).get("/livez").expect(200);
    let listed = site.admin_at(0).get("/api/v1/nodes").expect(200);
    assert_eq!(listed["data"], json!([]));
}

fn a_body_that_is_announced_too_large_is_not_waited_for(on: Backend) {
    let site = Site::start(on);
    let api = site.admin_at(0).with("content-type", "application/json");
    let mut request = api.open("POST", "/api/v1/nodes", 5_000_000_000, "close").unwrap();
    let mut answer = String::new();
    request.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

fn a_restart_keeps_everything(on: Backend) {
    let mut site = Site::start(on);
    let ids: Vec<_> = (0..5).map(|number| node_in(&site.admin(), "active", number)).collect();
    let read = |site: &Site| {
        let nodes = ids.iter().map(|id| site.admin().get(&format!("/api/v1/nodes/{id}")).expect(200));
        let rows = ids.iter().map(|id| site.admin().get(&format!("/api/v1/nodes/{id}/history")).expect(200));
        nodes.chain(rows).collect::<Vec<_>>()
    };
    let before = read(&site);
    for index in 0..site.servers.len() {
        site.servers[index].terminate();
        assert!(site.servers[index].wait().success());
    }
    for index in 0..site.servers.len() {
        site.restart(index);
    }
    assert_eq!(read(&site), before);
    verify_all(&site);
}

fn a_stream_does_not_hold_up_the_end(on: Backend) {
    let mut site = Site::start_with(on, &[("WARDROOM_SERVER_SHUTDOWN_SECONDS", "600")]);
    let mut events = site.admin_at(0).with("last-event-id", "start").follow("/api/v1/events");
    events.event();
    site.servers[0].terminate();
    assert!(site.servers[0].wait().success());
}

fn secrets_are_for_their_owner_only(on: Backend) {
    let site = Site::start(on);
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let dir = site.data_dir(0);
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&dir.join("admin.token")), 0o600);
    assert_eq!(mode(&dir.parent().unwrap().join("server.key")), 0o600);
    // Only the first server of an empty store makes a token.
    assert!(!site.data_dir(1).join("admin.token").exists());
    assert_eq!(site.admin().get("/api/v1/tokens").expect(200)["data"].as_array().unwrap().len(), 1);
}

fn another_key_is_refused(on: Backend) {
    let mut site = Site::start(on);
    let dir = site.data_dir(0);
    let other = dir.join("other.key");
    std::fs::write(&other, [7; 32]).unwrap();
    let right = dir.parent().unwrap().join("server.key");
    site.servers[0].terminate();
    site.servers[0].wait();
    site.set("WARDROOM_SERVER_KEY_FILE", other.to_str().unwrap());
    let refused = Server::start(site.command(0), &dir.join("log")).expect_err("started with another key");
    assert!(refused.contains("other.key") && refused.contains("key_file"), "{refused}");
    site.set("WARDROOM_SERVER_KEY_FILE", right.to_str().unwrap());
    site.restart(0);
    site.admin().get("/readyz").expect(200);
}

/// As after a switch to a standby, or while administrators keep a database from being changed.
#[test]
fn a_read_only_database_is_named() {
    let mut site = Site::start(Backend::Postgres);
    let id = node_in(&site.admin(), "active", 1);
    let set = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', \
               current_database()); END $$; SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    site.database.execute(set).unwrap();
    let refused = wait_for("a connection that was made since", || {
        Some(site.admin_at(0).to_state(&id, "migrating"))
            .filter(|reply| reply.json()["code"] != "unavailable")
    });
    assert_eq!(refused.problem(503)["code"], "read_only");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(site.admin_at(0).get(&format!("/api/v1/nodes/{id}")).expect(200)["data"]["state"], "active");
    site.servers[1].kill();
    let said = Server::start(site.command(1), &site.data_dir(1).join("log")).expect_err("started");
    assert!(said.contains("read-only") && said.contains("default_transaction_read_only = off"), "{said}");
}

fn it_is_alive_and_ready(on: Backend) {
    let site = Site::start(on);
    for path in ["/livez", "/readyz"] {
        assert_eq!(site.caller(1, None).get(path).expect(200)["status"], "ok");
    }
    assert_eq!(site.caller(0, None).get("/missing").problem(404)["code"], "no_route");
    assert_eq!(site.caller(0, None).send("PUT", "/livez", b"").problem(405)["code"], "method");
    assert!(site.admin().get("/livez").header("x-request-id").is_some());
}

/// Probes and Prometheus do not wait for a paused database.
#[test]
#[expect(clippy::disallowed_methods, reason = "how long it takes is what is measured")]
fn a_database_that_stands_still_holds_up_no_probe() {
    let mut site = Site::start(Backend::Postgres);
    let (line, url) = Line::to(site.database.url().unwrap());
    site.restart_over(0, &url);
    let api = site.admin_at(0);
    assert_eq!(api.get("/metrics").status, 200);
    line.hold_answers();
    std::thread::sleep(Duration::from_secs(1));
    for (path, status) in [("/livez", 200), ("/readyz", 503), ("/metrics", 200)] {
        let (asked, reply) = (Instant::now(), api.get(path));
        assert_eq!(reply.status, status, "{path}: {}", reply.text());
        assert!(asked.elapsed() < Duration::from_secs(2), "{path} took {:?}", asked.elapsed());
    }
    let unknown = site.caller(0, Some("wrt_unknown"));
    assert_eq!(unknown.get("/metrics").problem(503)["code"], "unavailable");
    line.let_go();
    wait_for("the server to be ready", || (api.get("/readyz").status == 200).then_some(()));
    assert_eq!(unknown.get("/metrics").problem(401)["code"], "unauthenticated");
}

/// A change whose caller hung up is completed, also when the server is stopped meanwhile.
#[test]
fn the_end_lets_a_change_finish_whose_caller_is_gone() {
    let mut site = Site::start(Backend::Postgres);
    let id = node_in(&site.admin(), "active", 1);
    let address = site.servers[0].address;
    let body = json!({"state": "migrating"}).to_string();
    let api = site.admin_at(0).with("content-type", "application/json");
    let lock = format!("SELECT 1 FROM resources WHERE kind = 'node' AND id = '{id}' FOR UPDATE");
    let (database, server) = (&site.database, &mut site.servers[0]);
    database.hold(&lock, || {
        let mut request =
            api.open("PATCH", &format!("/api/v1/nodes/{id}/state"), body.len(), "close").unwrap();
        request.write_all(body.as_bytes()).unwrap();
        wait_for("the move to wait for the lock", || database.waits().then_some(()));
        drop(request);
        server.terminate();
        wait_for("the listener to close", || TcpStream::connect(address).is_err().then_some(()));
        // A server that does not wait has ended by then.
        std::thread::sleep(std::time::Duration::from_secs(1));
        assert!(server.is_running(), "a change is under way");
    });
    assert!(server.wait().success());
    let node = site.admin_at(1).get(&format!("/api/v1/nodes/{id}")).expect(200);
    assert_eq!(node["data"]["state"], "migrating");
}

/// A waiting change continues to its end, so the answer must not say that it was not done.
#[test]
fn a_request_that_takes_too_long_says_that_it_may_have_succeeded() {
    let site = Site::start_with(Backend::Postgres, &[("WARDROOM_SERVER_REQUEST_TIMEOUT_SECONDS", "1")]);
    let id = node_in(&site.admin(), "active", 1);
    let said = |reply: crate::support::Reply| reply.problem(503)["detail"].as_str().unwrap().to_owned();
    site.database.hold("LOCK TABLE resources IN ACCESS EXCLUSIVE MODE", || {
        let read = said(site.admin_at(0).get("/api/v1/nodes"));
        assert!(read.contains("took too long: retry"), "{read}");
    });
    site.database.hold(&format!("SELECT 1 FROM resources WHERE id = '{id}' FOR UPDATE"), || {
        let moved = said(site.admin_at(0).to_state(&id, "migrating"));
        assert!(moved.contains("may have been done"), "{moved}");
    });
    let path = format!("/api/v1/nodes/{id}");
    wait_for("the move that was carried to its end", || {
        (site.admin_at(0).get(&path).expect(200)["data"]["state"] == "migrating").then_some(())
    });
}

#[test]
fn a_second_server_on_the_same_files_is_refused() {
    let site = Site::start(Backend::Sqlite);
    let refused = Server::start(site.command(0), &site.data_dir(0).join("log")).expect_err("a second server");
    assert!(refused.contains("use") && refused.contains("wardroom"), "{refused}");
    site.admin().get("/readyz").expect(200);
}

#[test]
fn plain_http_is_for_loopback_only() {
    let site = Site::start(Backend::Sqlite);
    for (name, value, told) in [
        ("WARDROOM_SERVER_DATABASE_URL", "mysql://x", "server.database_url"),
        ("WARDROOM_SERVER_REQUEST_TIMEOUT_SECONDS", "0", "server.request_timeout_seconds"),
        ("WARDROOM_SERVER_SHUTDOWN_SECONDS", "soon", "WARDROOM_SERVER_SHUTDOWN_SECONDS"),
        ("WARDROOM_BOOT_NETWORKS", "everywhere", "boot.networks"),
        ("WARDROOM_LOG_FORMAT", "poem", "log.format"),
    ] {
        let mut command = site.command(1);
        command.env(name, value);
        let refused = Server::start(command, &site.data_dir(0).join(name)).expect_err(name);
        assert!(refused.contains(told), "{name}: {refused}");
    }
    let mut command = site.command(1);
    command.args(["--listen", "0.0.0.0:0"]);
    // A flag that is given twice is refused as well, so this one replaces the first.
    let refused = Server::start(command, &site.data_dir(0).join("listen")).expect_err("plain HTTP for all");
    assert!(refused.contains("insecure") || refused.contains("--listen"), "{refused}");
}

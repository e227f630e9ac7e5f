//! Access without credentials, by the caller's network.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use serde_json::json;

use crate::support::{
    Backend, Site,
    fleet::{token_in, workflow},
    http::parse,
    mac, node_in, on_both,
};

on_both! {
    strangers_get_no_install_token,
    a_token_that_proves_nothing_registers_nothing,
    a_token_that_is_not_asked_for_opens_no_door,
    an_approved_machine_cannot_rename_itself,
    a_report_that_is_not_noted_says_so,
    a_loopback_listener_answers_to_its_own_names,
}

/// A page in a browser on this machine can let a name of its own point here; it gets nothing, with or without a token.
fn a_loopback_listener_answers_to_its_own_names(on: Backend) {
    let settings = [("WARDROOM_SERVER_PUBLIC_URL", "https://wardroom.example")];
    let site = Site::start_with(on, &settings);
    let ask = |host: &str, first: &str| {
        let address = site.servers[0].address;
        let mut stream = TcpStream::connect(address).unwrap();
        let token = &site.token;
        let head = format!(
            "GET {first} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        parse(&bytes).unwrap()
    };
    let address = site.servers[0].address.to_string();
    for host in ["localhost", "127.0.0.1:1", "[::1]", &address, "wardroom.example", "wardroom.example:443"] {
        assert_eq!(ask(host, "/api/v1/nodes").status, 200, "{host}");
    }
    for (host, first) in [
        ("evil.example", "/api/v1/nodes"),
        ("evil.example", "/livez"),
        ("evil.example:8080", "/openapi.json"),
        ("localhost", "http://evil.example/api/v1/nodes"),
        ("", "/api/v1/nodes"),
    ] {
        let refused = ask(host, first);
        assert_eq!(refused.wrong_fields(), ["Host"], "{host} {first}");
        assert!(refused.text().contains("server.public_url"), "{}", refused.text());
    }
}

/// The listener for people opens the routes of machines only to the networks that machines boot in.
fn strangers_get_no_install_token(on: Backend) {
    let site = Site::start_with(on, &[("WARDROOM_BOOT_NETWORKS", "10.99.0.0/16")]);
    let stranger = site.caller(0, None);
    stranger.get(&format!("/api/v1/boot?mac={}", mac(1))).problem(401);
    stranger.post("/api/v1/report", &json!({"mac_address": mac(1)})).problem(401);
    assert_eq!(site.admin().get("/api/v1/nodes").expect(200)["data"], json!([]));

    workflow(&site.admin(), "debian");
    let id = node_in(&site.admin(), "pending", 1);
    site.admin().patch(&format!("/api/v1/nodes/{id}"), &json!({"workflow_id": "debian"})).expect(200);
    let script = site.admin().get(&format!("/api/v1/boot?mac={}", mac(1))).text();
    let token = token_in(&script);
    let started = json!({"mac_address": mac(1), "installation_status": "started"});
    let node = site.caller(1, Some(&token)).post("/api/v1/report", &started).expect(200);
    assert_eq!(node["data"]["state"], "installing", "who shows the node's token speaks for it from anywhere");
}

/// A token is checked against its node: a machine with an invalid token, or with the token of a deleted node,
/// registers nothing.
fn a_token_that_proves_nothing_registers_nothing(on: Backend) {
    let site = Site::start_with(on, &[("WARDROOM_BOOT_NETWORKS", "10.99.0.0/16")]);
    let unknown = json!({"mac_address": mac(1), "installation_status": "started"});
    for token in ["junk", "wri_1_1_x"] {
        site.caller(0, Some(token)).post("/api/v1/report", &unknown).problem(401);
        site.caller(0, Some(token)).post("/api/v1/report", &json!({"mac_address": mac(2)})).problem(401);
    }
    assert_eq!(site.admin().get("/api/v1/nodes").expect(200)["data"], json!([]));

    let site = Site::start(on);
    site.machine(Some("junk")).post("/api/v1/report", &unknown).problem(401);
    assert_eq!(site.admin().get("/api/v1/nodes").expect(200)["data"], json!([]));
}

/// Where reports take no install token, they are taken from the networks that machines boot in, and a header with
/// anything in it is not the way around that.
fn a_token_that_is_not_asked_for_opens_no_door(on: Backend) {
    let unasked = ("WARDROOM_BOOT_REQUIRE_INSTALL_TOKEN", "false");
    let started = json!({"mac_address": mac(1), "installation_status": "started"});
    let site = Site::start_with(on, &[unasked, ("WARDROOM_BOOT_NETWORKS", "10.99.0.0/16")]);
    let id = node_in(&site.admin(), "pending", 1);
    site.caller(0, Some("junk")).post("/api/v1/report", &started).problem(401);
    site.caller(0, Some("junk")).post("/api/v1/report", &json!({"mac_address": mac(2)})).problem(401);
    let node = site.admin().get(&format!("/api/v1/nodes/{id}")).expect(200);
    assert_eq!(node["data"]["state"], "pending");
    assert_eq!(site.admin().get("/api/v1/nodes").expect(200)["data"].as_array().unwrap().len(), 1);

    let site = Site::start_with(on, &[unasked]);
    site.machine(Some("junk")).post("/api/v1/report", &json!({"mac_address": mac(1)})).expect(200);
    assert_eq!(site.admin().get("/api/v1/nodes").expect(200)["data"].as_array().unwrap().len(), 1);
}

/// A machine that awaits approval may report its hardware; afterwards it needs its token. The name that
/// people give a machine stays, and a report does not change the ETag.
fn an_approved_machine_cannot_rename_itself(on: Backend) {
    let site = Site::start(on);
    let claim =
        |hostname: &str| json!({"mac_address": mac(1), "hostname": hostname, "ip_address": "10.0.0.66"});
    let id = node_in(&site.admin(), "discovered", 1);
    let path = format!("/api/v1/nodes/{id}");
    site.machine(None).post("/api/v1/report", &claim("itself")).expect(200);
    assert_eq!(site.admin().get(&path).expect(200)["data"]["hostname"], "itself");

    let reply = site.admin().get(&path);
    let tag = reply.header("etag").unwrap().to_owned();
    let held = site.admin().with("if-match", &tag);
    assert_eq!(held.patch(&path, &json!({"hostname": "ours"})).expect(200)["data"]["hostname"], "ours");
    held.patch(&path, &json!({"hostname": "theirs"})).problem(412);

    site.admin().to_state(&id, "pending").expect(200);
    let tag = site.admin().get(&path).header("etag").unwrap().to_owned();
    site.machine(None).post("/api/v1/report", &claim("evil")).expect(200);
    let node = site.admin().get(&path);
    assert_eq!(node.header("etag"), Some(&*tag));
    assert_eq!(node.expect(200)["data"]["hostname"], "ours");
    site.machine(Some("wri_1_1_x")).post("/api/v1/report", &claim("evil")).problem(401);
}

/// A report without a valid token is not recorded for an approved machine; the answer says so, and shows only
/// the state of the node.
fn a_report_that_is_not_noted_says_so(on: Backend) {
    let site = Site::start(on);
    workflow(&site.admin(), "debian");
    let ours = json!({"hostname": "ours", "workflow_id": "debian", "labels": {"site": "berlin"}});
    for (number, state, message) in [
        (1, "discovered", "The report was recorded."),
        (2, "pending", "The report was not recorded: it needs the install token of the boot script."),
        (3, "active", "The report was not recorded: it needs the install token of the boot script."),
        (4, "retired", "The report was not recorded: the node is retired."),
    ] {
        let id = node_in(&site.admin(), if state == "retired" { "active" } else { state }, number);
        site.admin().patch(&format!("/api/v1/nodes/{id}"), &ours).expect(200);
        if state == "retired" {
            site.admin().to_state(&id, state).expect(200);
        }
        let report = json!({"mac_address": mac(number), "vendor": "Acme"});
        let reply = site.machine(None).post("/api/v1/report", &report);
        let said = reply.expect(200);
        assert_eq!(said["message"], message, "{state}");
        let stands = (&said["data"]["id"], &said["data"]["mac_address"], &said["data"]["state"]);
        assert_eq!(stands, (&json!(id), &json!(mac(number)), &json!(state)));
        assert_eq!(reply.header("etag"), None);
        for word in ["ours", "debian", "berlin", "Acme"] {
            assert!(!reply.text().contains(word), "{state}: {}", reply.text());
        }
        let node = site.admin().get(&format!("/api/v1/nodes/{id}")).expect(200);
        assert_eq!(node["data"]["vendor"] == "Acme", state == "discovered", "{node}");
        let mut shown = report.clone();
        shown["install_token"] = json!("wri_1_1_x");
        site.machine(None).post("/api/v1/report", &shown).problem(401);
    }
    let token = token_in(&site.machine(None).get(&format!("/api/v1/boot?mac={}", mac(2))).text());
    let report = json!({"mac_address": mac(2), "vendor": "Acme"});
    let said = site.machine(Some(&token)).post("/api/v1/report", &report).expect(200);
    assert_eq!(
        (&said["message"], &said["data"]["hostname"]),
        (&json!("The report was recorded."), &json!("ours"))
    );
}

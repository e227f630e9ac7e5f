//! Bad input: a 4xx that names the field, never a failure, and the server still answers afterwards.

use serde_json::{Value, json};

use crate::support::{Api, Backend, Reply, Site, fleet::workflow, mac, node_in, on_both};

on_both! {
    wrong_values_name_their_field,
    broken_bodies_are_refused,
    bodies_have_bounds,
    hostile_paths_and_queries_are_refused,
    hostile_headers_are_refused,
    hostile_texts_are_data,
}

/// A node to send bad input to.
const NODE: usize = 7;

fn site_with_node(on: Backend) -> (Site, String) {
    let site = Site::start(on);
    workflow(&site.admin(), "debian");
    let id = node_in(&site.admin(), "pending", NODE);
    (site, id)
}

/// Checks that a reply is a refusal, and that the server still works.
#[track_caller]
fn refused(site: &Site, what: &str, reply: &Reply) -> Value {
    assert!((400..500).contains(&reply.status), "{what}: {} {}", reply.status, reply.text());
    let problem = reply.problem(reply.status);
    site.caller(0, None).get("/readyz").expect(200);
    problem
}

/// Method, path, body, and the field that the refusal names; `{node}` is the path of a node.
#[rustfmt::skip]
fn wrong_values() -> Vec<(&'static str, &'static str, Value, &'static str)> {
    let (long, prose) = ("x".repeat(300), "x".repeat(5000));
    let labels: Value = (0..101).map(|n| (format!("l{n}"), json!("x"))).collect::<serde_json::Map<_, _>>().into();
    let mac = mac(NODE);
    vec![
        ("POST", "/api/v1/nodes", json!({}), "mac_address"),
        ("POST", "/api/v1/nodes", json!({"mac_address": 7}), "mac_address"),
        ("POST", "/api/v1/nodes", json!({"mac_address": null}), "mac_address"),
        ("POST", "/api/v1/nodes", json!({"mac_address": ["a"]}), "mac_address"),
        ("POST", "/api/v1/nodes", json!({"mac_address": ""}), "mac_address"),
        ("POST", "/api/v1/nodes", json!({"mac_address": "52:54:00:00:00"}), "mac_address"),
        ("POST", "/api/v1/nodes", json!({"mac_address": "52:54:00:00:00:00:00"}), "mac_address"),
        ("POST", "/api/v1/nodes", json!({"mac_address": "52:54:00:00:00:0g"}), "mac_address"),
        ("POST", "/api/v1/nodes", json!({"mac_address": "525400000001"}), "mac_address"),
        ("POST", "/api/v1/nodes", json!({"mac_address": "52:54:00:00:00:01\n"}), "mac_address"),
        ("POST", "/api/v1/nodes", json!({"mac_address": "52:54:00:00:00:０1"}), "mac_address"),
        ("POST", "/api/v1/nodes", json!({"mac_address": "ff:ff:ff:ff:ff:ff"}), "mac_address"),
        ("POST", "/api/v1/nodes", json!({"mac_address": "01:00:5e:00:00:01"}), "mac_address"),
        ("POST", "/api/v1/nodes", json!({"mac_address": "52:54:00:00:00:01", "colour": "red"}), "colour"),
        ("POST", "/api/v1/nodes", json!({"mac_address": "52:54:00:00:00:01", "hostname": long}), "hostname"),
        ("POST", "/api/v1/nodes", json!({"mac_address": "52:54:00:00:00:01", "vendor": "a\u{0}b"}), "vendor"),
        ("POST", "/api/v1/nodes", json!({"mac_address": "52:54:00:00:00:01", "model": "a\u{1b}[31m"}), "model"),
        ("POST", "/api/v1/nodes", json!({"mac_address": "52:54:00:00:00:01", "group_id": "a\u{0}b"}), "group_id"),
        ("POST", "/api/v1/nodes", json!({"mac_address": "52:54:00:00:00:01", "workflow_id": "no"}), "workflow_id"),
        ("POST", "/api/v1/nodes", json!({"mac_address": "52:54:00:00:00:01", "workflow_id": "a\u{0}b"}), "workflow_id"),
        ("POST", "/api/v1/nodes", json!({"mac_address": "52:54:00:00:00:01", "labels": []}), "labels"),
        ("POST", "/api/v1/nodes", json!({"mac_address": "52:54:00:00:00:01", "labels": {"a": 1}}), "labels.a"),
        ("POST", "/api/v1/nodes", json!({"mac_address": "52:54:00:00:00:01", "labels": {"a": "\u{0}"}}), "labels.a"),
        ("POST", "/api/v1/nodes", json!({"mac_address": "52:54:00:00:00:01", "labels": {"": "x"}}), "labels"),
        ("POST", "/api/v1/nodes", json!({"mac_address": "52:54:00:00:00:01", "labels": labels}), "labels"),
        ("PATCH", "{node}", json!({"hostname": 7}), "hostname"),
        ("PATCH", "{node}", json!({"hostname": "a\u{0}b"}), "hostname"),
        ("PATCH", "{node}", json!({"mac_address": "52:54:00:00:00:01"}), "mac_address"),
        ("PATCH", "{node}", json!([]), "body"),
        ("PATCH", "{node}", json!("text"), "body"),
        ("PATCH", "{node}/state", json!({}), "state"),
        ("PATCH", "{node}/state", json!({"state": "asleep"}), "state"),
        ("PATCH", "{node}/state", json!({"state": "Active"}), "state"),
        ("PATCH", "{node}/state", json!({"state": 7}), "state"),
        ("PATCH", "{node}/state", json!({"state": "installing", "force": "yes"}), "force"),
        ("PATCH", "{node}/state", json!({"state": "installing", "comment": prose}), "comment"),
        ("PATCH", "{node}/state", json!({"state": "installing", "comment": "a\u{0}b"}), "comment"),
        ("PATCH", "{node}/state", json!({"state": "installing", "forced": true}), "forced"),
        ("POST", "/api/v1/report", json!({}), "mac_address"),
        ("POST", "/api/v1/report", json!({"mac_address": "x"}), "mac_address"),
        ("POST", "/api/v1/report", json!({"mac_address": mac, "installation_status": "done"}), "installation_status"),
        ("POST", "/api/v1/report", json!({"mac_address": mac, "installation_progress": -1}), "installation_progress"),
        ("POST", "/api/v1/report", json!({"mac_address": mac, "installation_progress": 1.5}), "installation_progress"),
        ("POST", "/api/v1/report", json!({"mac_address": mac, "installation_error": "\u{0}"}), "installation_error"),
        ("POST", "/api/v1/report", json!({"mac_address": mac, "attempt_id": long}), "attempt_id"),
        ("POST", "/api/v1/report", json!({"mac_address": mac, "hostname": "a\u{0}b"}), "hostname"),
        ("POST", "/api/v1/report", json!({"mac_address": mac, "ip_address": "\u{0}"}), "ip_address"),
        ("POST", "{node}/installation-status", json!({}), "status"),
        ("POST", "{node}/installation-status", json!({"status": "done"}), "status"),
        ("POST", "{node}/installation-status", json!({"status": "progress", "progress": 101}), "progress"),
        ("POST", "{node}/installation-status", json!({"status": "failed", "error": "\u{0}"}), "error"),
        ("POST", "/api/v1/workflows", json!({"name": "x"}), "kernel"),
        ("POST", "/api/v1/workflows", json!({"name": "X Y", "kernel": "http://a"}), "name"),
        ("POST", "/api/v1/workflows", json!({"name": "x", "kernel": "file:///etc/passwd"}), "kernel"),
        ("POST", "/api/v1/workflows", json!({"name": "x", "kernel": "http://a\nboot"}), "kernel"),
        ("POST", "/api/v1/workflows", json!({"name": "x", "kernel": "http://a", "initrd": ["b"]}), "initrd[0]"),
        ("POST", "/api/v1/workflows", json!({"name": "x", "kernel": "http://a", "arguments": "a\nb"}), "arguments"),
        ("POST", "/api/v1/workflows", json!({"name": "x", "kernel": "http://a", "arguments": "a || shell"}), "arguments"),
        ("POST", "/api/v1/workflows", json!({"name": "x", "kernel": "http://a", "arguments": "a && b"}), "arguments"),
        ("POST", "/api/v1/workflows", json!({"name": "x", "kernel": "http://a", "arguments": "a ; shell"}), "arguments"),
        ("POST", "/api/v1/workflows", json!({"name": "x", "kernel": "http://a", "arguments": "quiet #b"}), "arguments"),
        ("POST", "/api/v1/workflows", json!({"name": "x", "kernel": "http://a", "promote": 1}), "promote"),
        ("POST", "/api/v1/workflows", json!({"name": "x", "kernel": "http://a", "initrd": vec!["http://b"; 17]}), "initrd"),
        ("POST", "/api/v1/groups", json!({"name": "a\u{0}b"}), "name"),
        ("POST", "/api/v1/groups", json!({"name": "x", "parent_id": "a\u{0}b"}), "parent_id"),
        ("POST", "/api/v1/groups", json!({"name": "x", "auto_promote": "yes"}), "auto_promote"),
        ("POST", "/api/v1/tokens", json!({"name": "a\u{0}b", "role": "viewer"}), "name"),
        ("POST", "/api/v1/tokens", json!({"name": "x", "role": "viewer", "kinds": "node"}), "kinds"),
        ("POST", "/api/v1/tokens", json!({"name": "x", "role": "viewer", "expires_at": 7}), "expires_at"),
        ("POST", "/api/v1/tokens", json!({"name": "x", "role": "viewer", "expires_at": "9999999-01-01T00:00:00Z"}), "expires_at"),
        ("POST", "/api/v1/nodes/bulk/state", json!({"node_ids": "x", "state": "pending"}), "node_ids"),
    ]
}

fn wrong_values_name_their_field(on: Backend) {
    let (site, id) = site_with_node(on);
    let node = format!("/api/v1/nodes/{id}");
    for (method, path, body, field) in wrong_values() {
        let path = path.replace("{node}", &node);
        let what = format!("{method} {path} {body}");
        let problem = refused(&site, &what, &site.admin().json(method, &path, &body));
        let named = problem["errors"].as_array().is_some_and(|errors| {
            errors.iter().any(|error| {
                // A missing or unknown field is named in the message of its object.
                error["field"] == *field || error["message"].as_str().unwrap().contains(&format!("`{field}`"))
            })
        });
        assert!(named, "{what}: {field} is not named in {problem}");
    }
    let after = site.admin().get(&node).expect(200);
    assert_eq!(after["data"]["state"], "pending");
}

fn broken_bodies_are_refused(on: Backend) {
    let (site, id) = site_with_node(on);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_label = format!("{{\"mac_address\":\"52:54:00:00:00:01\",\"labels\":{}", "{\"a\":".repeat(5000));
    let bodies: &[(&str, &[u8])] = &[
        ("empty", b""),
        ("white space", b"   "),
        ("cut off", b"{\"mac_address\":"),
        ("two values", b"{\"mac_address\":\"52:54:00:00:00:01\"}{}"),
        ("not JSON", b"mac_address=52:54:00:00:00:01"),
        ("invalid UTF-8", b"{\"mac_address\":\"\xff\xfe\"}"),
        ("a lone surrogate", br#"{"mac_address":"\ud800"}"#),
        ("a key twice", br#"{"mac_address":"52:54:00:00:00:01","mac_address":"52:54:00:00:00:02"}"#),
        ("a huge number", br#"{"mac_address":1e999}"#),
        ("a long number", b"{\"mac_address\":123456789012345678901234567890123456789012345678901234567890}"),
        ("deep", deep.as_bytes()),
        ("deep in a field", deep_label.as_bytes()),
        ("NaN", b"{\"mac_address\":NaN}"),
        ("a byte order mark", b"\xef\xbb\xbf{}"),
        ("only NUL", b"\0\0\0\0"),
    ];
    let paths = [
        ("POST", "/api/v1/nodes".to_owned()),
        ("PATCH", format!("/api/v1/nodes/{id}")),
        ("PATCH", format!("/api/v1/nodes/{id}/state")),
        ("POST", "/api/v1/report".to_owned()),
        ("POST", "/api/v1/nodes/bulk/state".to_owned()),
        ("POST", "/api/v1/bulk".to_owned()),
        ("PUT", "/api/v1/workflows/debian".to_owned()),
        ("POST", "/api/v1/groups".to_owned()),
        ("POST", "/api/v1/tokens".to_owned()),
    ];
    let json_api = |api: Api| api.with("content-type", "application/json");
    for (method, path) in &paths {
        for (what, body) in bodies {
            let what = format!("{method} {path}: {what}");
            // An unknown field comes first for some; each of them names something.
            let problem = refused(&site, &what, &json_api(site.admin()).send(method, path, body));
            let named = problem["errors"].as_array().is_some_and(|errors| !errors.is_empty());
            assert!(named || problem["status"] == 413, "{what}: {problem}");
        }
        // Scripts send reports with curl or wget; requests of web pages have `Origin`.
        let is_report = path == "/api/v1/report";
        for content_type in ["text/plain", "application/x-www-form-urlencoded", "application/xml", "json", ""]
        {
            let api = site.admin().with("content-type", content_type);
            let reply = api.send(method, path, b"{}");
            let problem = refused(&site, content_type, &reply);
            let is_read = is_report && matches!(content_type, "" | "application/x-www-form-urlencoded");
            assert_eq!(problem["status"], if is_read { 400 } else { 415 }, "{method} {path} {content_type}");
            assert_eq!(problem["code"], if is_read { "invalid" } else { "content_type" });
            let page = api.with("origin", "http://page.example").send(method, path, b"{}");
            assert_eq!(refused(&site, content_type, &page)["status"], 415, "{method} {path} {content_type}");
        }
    }
    let key_twice = br#"{"labels":{"a":"x"},"labels":{"a":"y"}}"#;
    let reply = json_api(site.admin()).send("PATCH", &format!("/api/v1/nodes/{id}"), key_twice);
    refused(&site, "labels twice", &reply);
}

fn bodies_have_bounds(on: Backend) {
    let (site, id) = site_with_node(on);
    let megabyte = "x".repeat(1 << 20);
    for (method, path, body) in [
        ("POST", "/api/v1/nodes".to_owned(), json!({"mac_address": megabyte})),
        ("PATCH", format!("/api/v1/nodes/{id}"), json!({"hostname": megabyte})),
        ("PATCH", format!("/api/v1/nodes/{id}/state"), json!({"state": "installing", "comment": megabyte})),
        (
            "POST",
            "/api/v1/report".to_owned(),
            json!({"mac_address": mac(NODE), "hostname": "x".repeat(65 << 10)}),
        ),
        ("POST", "/api/v1/workflows".to_owned(), json!({"name": "x", "kernel": megabyte})),
    ] {
        let problem = refused(&site, &path, &site.admin().json(method, &path, &body));
        assert_eq!(problem["status"], 413, "{path}: {problem}");
    }
    // Just below the limit the field is named.
    let long = "x".repeat((1 << 20) - 100);
    let reply =
        site.admin().post("/api/v1/nodes", &json!({"mac_address": "52:54:00:00:00:01", "vendor": long}));
    assert_eq!(reply.wrong_fields(), ["vendor"]);
    assert!(reply.body.len() < 10_000, "a refusal does not repeat the input");
    let reply = site.admin().post("/api/v1/nodes", &json!({"mac_address": long}));
    assert_eq!(reply.wrong_fields(), ["mac_address"]);
    assert!(reply.body.len() < 10_000, "a refusal does not repeat the input");
    let reply = site.admin().to_state(&id, &long);
    assert_eq!(reply.wrong_fields(), ["state"]);
    assert!(reply.body.len() < 10_000, "a refusal does not repeat the input: {} bytes", reply.body.len());
}

fn hostile_paths_and_queries_are_refused(on: Backend) {
    let (site, id) = site_with_node(on);
    let long = "x".repeat(5000);
    for part in
        ["%00", "a%00b", "%ff", "%c3%28", "..%2f..%2fetc%2fpasswd", "'%20OR%201=1--", &long, "%25", "%"]
    {
        for path in [
            format!("/api/v1/nodes/{part}"),
            format!("/api/v1/nodes/{part}/history"),
            format!("/api/v1/workflows/{part}"),
            format!("/api/v1/groups/{part}"),
            format!("/api/v1/resources/node/{part}/why"),
            format!("/api/v1/resources/{part}/x/why"),
        ] {
            refused(&site, &path, &site.admin().get(&path));
        }
        for path in [
            format!("/api/v1/nodes/{part}"),
            format!("/api/v1/tokens/{part}"),
            format!("/api/v1/groups/{part}"),
        ] {
            refused(&site, &path, &site.admin().delete(&path));
        }
        let path = format!("/api/v1/nodes/{part}/state");
        refused(&site, &path, &site.admin().patch(&path, &json!({"state": "pending"})));
        for query in ["continue=", "state=", "fieldSelector=", "labelSelector=a%20in%20", "limit="] {
            let path = format!("/api/v1/nodes?{query}{part}");
            let reply = site.admin().get(&path);
            // Some of these are labels that nothing has.
            assert!(reply.status == 200 || refused(&site, &path, &reply).is_object(), "{path}");
            assert!(reply.status < 500, "{path}: {}", reply.text());
        }
        let path = format!("/api/v1/history?kind=node&id={part}");
        assert!(site.admin().get(&path).status < 500, "{path}: {}", site.admin().get(&path).text());
        let path = format!("/api/v1/boot?mac={}&vendor={part}", mac(90));
        assert!(site.machine(None).get(&path).status < 500, "{path}");
    }
    let many = format!("/api/v1/nodes?labelSelector={}", vec!["a=b"; 1000].join(","));
    let together = format!("/api/v1/nodes?group_id=g&labelSelector={}", vec!["a=b"; 32].join(","));
    for (path, field) in [
        (many.as_str(), "labelSelector"),
        (&together, "labelSelector"),
        ("/api/v1/summary?kind=node", "kind"),
        ("/metrics?name=x", "name"),
        ("/openapi.json?v=3", "v"),
        ("/api/v1/nodes?limit=1&limit=2", "limit"),
        ("/api/v1/nodes?colour=red", "colour"),
        ("/api/v1/nodes?=", "query"),
        ("/api/v1/nodes?fieldSelector=hostname=%00", "fieldSelector"),
        ("/api/v1/nodes?group_id=%00", "group_id"),
        ("/api/v1/runs?site=%00", "site"),
        ("/api/v1/tokens?state=asleep", "state"),
        ("/api/v1/nodes/%ff", "id"),
    ] {
        assert_eq!(refused(&site, path, &site.admin().get(path))["errors"][0]["field"], field, "{path}");
    }
    let node = format!("/api/v1/nodes/{id}?dry_run=true");
    for reply in [site.admin().patch(&node, &json!({"hostname": "other"})), site.admin().delete(&node)] {
        assert_eq!(reply.wrong_fields(), ["dry_run"]);
    }
    // Health checks and booting machines may send any parameter.
    site.caller(0, None).get("/readyz?verbose").expect(200);
    let reply = site.admin().get("/api/satellites?deleted=maybe").problem(400);
    assert_eq!(reply["errors"][0]["message"], "must be true or false");
    site.admin().get(&format!("/api/v1/nodes/{id}")).expect(200);
}

fn hostile_headers_are_refused(on: Backend) {
    let (site, id) = site_with_node(on);
    let long = "x".repeat(10_000);
    for value in [
        "Basic YWRtaW46YWRtaW4=",
        "Bearer",
        "Bearer ",
        "bearer\twrt_x",
        "Bearer wrt_ü",
        &long,
        "Bearer a b c",
    ] {
        let reply = site.caller(0, None).with("authorization", value).get("/api/v1/nodes");
        assert_eq!(refused(&site, value, &reply)["status"], 401);
    }
    let path = format!("/api/v1/nodes/{id}");
    for tag in ["nonsense", "\"", "W/\"x\"", "", "ü"] {
        let reply = site.admin().with("if-match", tag).patch(&path, &json!({"labels": {"a": "b"}}));
        assert_eq!(refused(&site, tag, &reply)["status"], 412, "{tag}");
    }
    for key in ["", "ü", &"k".repeat(256)] {
        let reply =
            site.admin().with("idempotency-key", key).post("/api/v1/nodes", &json!({"mac_address": mac(1)}));
        assert_eq!(refused(&site, key, &reply)["errors"][0]["field"], "Idempotency-Key");
    }
    // The same header in other letters is one more of it.
    for (name, path) in [
        ("Authorization", "/api/v1/nodes"),
        ("Host", "/api/v1/nodes"),
        ("Last-Event-ID", "/api/v1/events?wait=0"),
    ] {
        let twice = site.admin().with(&name.to_lowercase(), "start").with(name, "x");
        assert_eq!(refused(&site, name, &twice.get(path))["errors"][0]["field"], name);
    }
    // An id that is not decent is replaced, never echoed.
    for id in ["a b", &long, "<script>"] {
        let reply = site.admin().with("x-request-id", id).get("/api/v1/nodes/missing");
        let given = reply.problem(404)["request_id"].clone();
        assert_ne!(given, *id);
        assert_eq!(reply.header("x-request-id"), given.as_str());
    }
}

fn hostile_texts_are_data(on: Backend) {
    let (site, id) = site_with_node(on);
    site.admin().patch(&format!("/api/v1/nodes/{id}"), &json!({"workflow_id": "debian"})).expect(200);
    let boot = || site.machine(None).get(&format!("/api/v1/boot?mac={}", mac(NODE))).text();
    let lines = boot().lines().count();
    for text in [
        "'; DROP TABLE resources; --",
        "${jndi:ldap://x}",
        "{{7*7}}",
        "\u{202e}gnp.exe",
        "<script>alert(1)</script>",
        "../../etc/passwd",
    ] {
        let node = site.admin().patch(&format!("/api/v1/nodes/{id}"), &json!({"hostname": text})).expect(200);
        assert_eq!(node["data"]["hostname"], text);
        let comment = json!({"state": "retired", "comment": text});
        let other = node_in(&site.admin(), "discovered", 50);
        site.admin().patch(&format!("/api/v1/nodes/{other}/state"), &comment).expect(200);
        let row = site.admin().get(&format!("/api/v1/nodes/{other}/history?limit=1")).expect(200);
        assert_eq!(row["data"][0]["comment"], text);
        // A value in a boot script cannot end its line.
        let script = boot();
        assert_eq!(script.lines().filter(|line| line.starts_with("kernel ")).count(), 1, "{script}");
        assert_eq!(script.lines().count(), lines, "{script}");
    }
}

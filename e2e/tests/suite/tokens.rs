//! API tokens: shown once, refused from the moment they are revoked or expire, never more than their maker has.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::support::{Backend, Site, http::Sent, on_both, wait_for};

on_both! {
    a_revoked_token_is_refused_on_the_next_request,
    an_expired_token_is_refused,
    a_secret_is_shown_once,
    a_scoped_administrator_cannot_widen_its_scope,
    a_stream_ends_with_its_token,
    a_revocation_is_heeded_when_its_caller_hangs_up,
    the_last_administrator_cannot_be_revoked,
    a_token_written_into_the_database_is_refused,
    names_are_told_apart_at_a_glance,
    a_token_is_bound_to_one_adapter,
}

/// Only tokens of role adapter have one; a token without one, and one from before there were any, acts for all.
fn a_token_is_bound_to_one_adapter(on: Backend) {
    let site = Site::start(on);
    let make = |name: &str, role: &str, adapter: serde_json::Value| {
        site.admin().post("/api/v1/tokens", &json!({"name": name, "role": role, "adapter": adapter}))
    };
    assert_eq!(make("bound", "adapter", json!("dns")).expect(201)["data"]["adapter"], "dns");
    assert_eq!(make("free", "adapter", json!(null)).expect(201)["data"]["adapter"], json!(null));
    for (role, adapter) in [
        ("viewer", json!("dns")),
        ("admin", json!("dns")),
        ("adapter", json!("")),
        ("adapter", json!(" dns")),
        ("adapter", json!("d\u{7}ns")),
        ("adapter", json!("x".repeat(101))),
        ("adapter", json!("é".repeat(51))),
        ("adapter", json!(7)),
    ] {
        assert_eq!(make("wrong", role, adapter.clone()).wrong_fields(), ["adapter"], "{role} {adapter}");
    }
    let listed = site.admin().get("/api/v1/tokens").expect(200);
    let adapters: Vec<_> =
        listed["data"].as_array().unwrap().iter().map(|token| token["adapter"].clone()).collect();
    assert_eq!(adapters, [json!(null), json!("dns"), json!(null)], "the first is the admin's");
}

/// History names callers by the names of their tokens.
fn names_are_told_apart_at_a_glance(on: Backend) {
    let site = Site::start(on);
    let make = |name: &str| site.admin().post("/api/v1/tokens", &json!({"name": name, "role": "viewer"}));
    for name in ["system", "Admin", " ada", "ada ", "a\u{a0}da", "a\u{200b}da", "\u{202e}ada", "workflow"] {
        assert_eq!(make(name).wrong_fields(), ["name"], "{name:?}");
    }
    let id = make("Ada Lovelace").expect(201)["data"]["id"].as_str().unwrap().to_owned();
    for name in ["Ada Lovelace", "ada lovelace", "ADA  LOVELACE"] {
        assert_eq!(make(name).problem(409)["code"], "name_taken", "{name:?}");
    }
    site.admin().delete(&format!("/api/v1/tokens/{id}")).expect(200);
    assert_eq!(make("ada lovelace").problem(409)["code"], "name_taken", "history still names the first");
    make("adalovelace").expect(201);
}

fn a_revoked_token_is_refused_on_the_next_request(on: Backend) {
    let site = Site::start(on);
    for round in 0..10 {
        let (id, secret) = site.new_token(&json!({"name": format!("short {round}"), "role": "viewer"}));
        for index in 0..2 {
            site.caller(index, Some(&secret)).get("/api/v1/nodes").expect(200);
        }
        let path = format!("/api/v1/tokens/{id}");
        assert_eq!(site.admin_at(round).delete(&path).expect(200)["data"]["state"], "revoked");
        for index in 0..2 {
            assert_eq!(
                site.caller(round + 1 + index, Some(&secret)).get("/api/v1/nodes").problem(401)["status"],
                401
            );
        }
        // Again is no error.
        site.admin().delete(&path).expect(200);
    }
    site.admin().delete("/api/v1/tokens/missing").problem(404);
}

fn an_expired_token_is_refused(on: Backend) {
    let site = Site::start(on);
    let soon = jiff::Timestamp::from_millisecond(now_of(&site) + 1500).unwrap();
    let create = json!({"name": "short", "role": "viewer", "expires_at": soon});
    let (_, secret) = site.new_token(&create);
    wait_for("the token to expire", || {
        let reply = site.caller(1, Some(&secret)).get("/api/v1/nodes");
        (reply.status != 200)
            .then(|| assert!(reply.problem(401)["detail"].as_str().unwrap().contains("expired")))
    });
    let listed = site.admin().get("/api/v1/tokens").expect(200);
    let state =
        |name: &str| listed["data"].as_array().unwrap().iter().find(|token| token["name"] == name).unwrap();
    assert_eq!((&state("short")["state"], &state("clock")["state"]), (&json!("expired"), &json!("active")));
    let past = json!({"name": "short", "role": "viewer", "expires_at": "2020-01-01T00:00:00Z"});
    assert_eq!(site.admin().post("/api/v1/tokens", &past).wrong_fields(), ["expires_at"]);
}

/// The server's clock, from the newest thing it made.
fn now_of(site: &Site) -> i64 {
    let made = site.admin().post("/api/v1/tokens", &json!({"name": "clock", "role": "viewer"})).expect(201);
    let at: jiff::Timestamp = made["data"]["created_at"].as_str().unwrap().parse().unwrap();
    at.as_millisecond()
}

fn a_secret_is_shown_once(on: Backend) {
    let site = Site::start(on);
    let (id, secret) = site.new_token(&json!({"name": "robot", "role": "viewer", "kinds": ["node"]}));
    let everything = [
        site.admin().get("/api/v1/tokens").text(),
        site.admin().get("/api/v1/history").text(),
        site.admin().get(&format!("/api/v1/history?kind=token&id={id}")).text(),
        site.admin().get("/api/v1/events?wait=0&continue=start").text(),
    ]
    .concat();
    assert!(everything.contains(&id));
    assert!(!everything.contains(&secret) && !everything.contains(&site.token));
    for (create, field) in [
        (json!({"name": "", "role": "viewer"}), "name"),
        (json!({"name": "x", "role": "king"}), "role"),
        (json!({"name": "x", "role": "viewer", "kinds": ["spoon"]}), "kinds"),
        (json!({"name": "x", "role": "viewer", "group_id": "missing"}), "group_id"),
        (json!({"name": "x", "role": "viewer", "expires_at": "tomorrow"}), "expires_at"),
    ] {
        assert_eq!(site.admin().post("/api/v1/tokens", &create).wrong_fields(), [field]);
    }
}

fn a_scoped_administrator_cannot_widen_its_scope(on: Backend) {
    let site = Site::start(on);
    let (_, secret) = site.new_token(&json!({"name": "clerk", "role": "admin", "kinds": ["token"]}));
    let clerk = site.caller(1, Some(&secret));
    clerk.post("/api/v1/tokens", &json!({"name": "x", "role": "viewer", "kinds": ["token"]})).expect(201);
    for kinds in [json!([]), json!(["node"]), json!(["token", "node"])] {
        let wider = json!({"name": kinds.to_string(), "role": "admin", "kinds": kinds});
        clerk.post("/api/v1/tokens", &wider).problem(403);
    }
}

fn a_stream_ends_with_its_token(on: Backend) {
    let site = Site::start(on);
    let (id, secret) = site.new_token(&json!({"name": "watcher", "role": "auditor"}));
    let mut events = site.caller(1, Some(&secret)).follow("/api/v1/events");
    site.admin_at(0).delete(&format!("/api/v1/tokens/{id}")).expect(200);
    let after = site.new_token(&json!({"name": "later", "role": "viewer"})).0;
    for _ in 0..20 {
        match events.next() {
            Sent::End => return,
            Sent::Comment | Sent::Place { .. } => {}
            Sent::Event { row, .. } => {
                assert_ne!(row["resource_id"], *after, "a revoked token still reads the feed");
            }
        }
    }
}

/// The steps after a commit are always done: a caller that hangs up does not keep a token valid.
fn a_revocation_is_heeded_when_its_caller_hangs_up(on: Backend) {
    let site = Site::start(on);
    for round in 0..20 {
        let (id, secret) = site.new_token(&json!({"name": format!("gone {round}"), "role": "viewer"}));
        let holder = site.caller(0, Some(&secret));
        holder.get("/api/v1/nodes").expect(200);
        wait_for("the revocation to be heeded", || {
            // A request that was lost with its connection changes nothing: hang up on another.
            drop(site.admin_at(0).open("DELETE", &format!("/api/v1/tokens/{id}"), 0, "close").unwrap());
            let tokens = site.admin_at(0).get("/api/v1/tokens?limit=1000").expect(200);
            let token = tokens["data"].as_array().unwrap().iter().find(|token| token["id"] == *id).unwrap();
            (token["state"] == "revoked").then_some(())
        });
        wait_for("the holder to be refused", || (holder.get("/api/v1/nodes").status == 401).then_some(()));
    }
}

fn the_last_administrator_cannot_be_revoked(on: Backend) {
    let site = Site::start(on);
    let tokens = site.admin().get("/api/v1/tokens").expect(200);
    let first = tokens["data"][0]["id"].as_str().unwrap().to_owned();
    site.new_token(&json!({"name": "scoped", "role": "admin", "kinds": ["token"]}));
    let problem = site.admin().delete(&format!("/api/v1/tokens/{first}")).problem(409);
    assert_eq!(problem["code"], "last_admin");
    let (_, secret) = site.new_token(&json!({"name": "second", "role": "admin"}));
    site.caller(0, Some(&secret)).delete(&format!("/api/v1/tokens/{first}")).expect(200);
    site.caller(1, Some(&secret)).get("/api/v1/nodes").expect(200);
}

/// A token row takes the server's key to make: one with a hash that needs no key is refused, also after a start.
fn a_token_written_into_the_database_is_refused(on: Backend) {
    let mut site = Site::start(on);
    let planted = "wrt_planted";
    let hash = Sha256::digest(format!("wardroom/token/1{planted}"));
    let hash = BASE64_URL_SAFE_NO_PAD.encode(hash);
    let row = format!(
        "INSERT INTO resources (kind, id, name, version, head, state, document, labels, fields, keys, deleted, \
         created_at, updated_at, state_changed_at) \
         SELECT kind, 'planted', 'planted', version, head, state, document, labels, fields, '[\"{hash}\"]', deleted, \
         created_at, updated_at, state_changed_at FROM resources WHERE kind = 'token'"
    );
    let key =
        format!("INSERT INTO resource_keys (kind, key, resource_id) VALUES ('token', '{hash}', 'planted')");
    site.database.execute(&row).unwrap();
    site.database.execute(&key).unwrap();
    for index in 0..site.servers.len() {
        site.servers[index].kill();
        site.restart(index);
        let tokens = site.admin_at(index).get("/api/v1/tokens").expect(200);
        let token = tokens["data"].as_array().unwrap().iter().find(|token| token["id"] == "planted").unwrap();
        assert_eq!((&token["role"], &token["state"]), (&json!("admin"), &json!("active")));
        site.caller(index, Some(planted)).get("/api/v1/tokens").problem(401);
    }
}

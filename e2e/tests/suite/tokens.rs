//! API tokens: shown once, refused from the moment they are revoked or expire, never more than their maker has.

use serde_json::json;

use crate::support::{Backend, Site, on_both, wait_for};

on_both! {
    a_revoked_token_is_refused_on_the_next_request,
    an_expired_token_is_refused,
    a_secret_is_shown_once,
    a_scoped_administrator_cannot_widen_its_scope,
    a_stream_ends_with_its_token,
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
        site.admin().get("/api/v1/events?wait=0&after=start").text(),
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
            crate::support::http::Sent::End => return,
            crate::support::http::Sent::Comment => {}
            crate::support::http::Sent::Event { row, .. } => {
                assert_ne!(row["resource_id"], *after, "a revoked token still reads the feed");
            }
        }
    }
}

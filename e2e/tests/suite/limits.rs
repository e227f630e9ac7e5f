//! Rate limits: a bucket for each identity and class, so that no caller uses up another's.

use serde_json::json;

use crate::support::{Backend, Reply, Site, mac, on_both, wait_for};

on_both! {
    buckets_are_separate,
    streams_of_a_token_are_counted,
}

fn buckets_are_separate(on: Backend) {
    let settings = [
        ("WARDROOM_LIMITS_READ", "20"),
        ("WARDROOM_LIMITS_WRITE", "20"),
        ("WARDROOM_LIMITS_ANONYMOUS", "5"),
        ("WARDROOM_LIMITS_REPORT", "5"),
    ];
    let site = Site::start_with(on, &settings);
    let (_, other) = site.new_token(&json!({"name": "other", "role": "operator"}));
    let admin = site.admin_at(0);
    let limited = exhaust(|| admin.get("/api/v1/nodes"));
    assert!(limited.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    // Another identity, another class and another server have their own.
    site.caller(0, Some(&other)).get("/api/v1/nodes").expect(200);
    admin.post("/api/v1/nodes", &json!({"mac_address": mac(1)})).expect(201);
    // Guessing is not free.
    exhaust(|| site.caller(0, Some("wrt_guess")).get("/api/v1/nodes"));
    exhaust(|| site.caller(0, None).get("/api/v1/nodes"));
    exhaust(|| site.caller(0, Some("wri_guess")).post("/api/v1/report", &json!({"mac_address": mac(2)})));
    site.caller(0, Some(&other)).get("/api/v1/nodes").expect(200);
}

/// Sends until it is refused for being too much.
fn exhaust(send: impl Fn() -> Reply) -> Reply {
    let refused = (0..500).map(|_| send()).find(|reply| reply.status == 429);
    let refused = refused.expect("500 requests in a row");
    assert_eq!(refused.problem(429)["code"], "too_many_requests");
    refused
}

fn streams_of_a_token_are_counted(on: Backend) {
    let site = Site::start_with(on, &[("WARDROOM_LIMITS_STREAMS", "3")]);
    let (_, other) = site.new_token(&json!({"name": "other", "role": "auditor"}));
    let (admin, other) = (site.admin_at(0), site.caller(0, Some(&other)));
    let mut streams: Vec<_> = (0..3).map(|_| admin.follow("/api/v1/events")).collect();
    for path in ["/api/v1/events?wait=1", "/api/v1/events"] {
        let refused = admin.get(path);
        let problem = refused.problem(429);
        assert_eq!(problem["code"], "too_many_streams");
        assert!(problem["detail"].as_str().unwrap().contains("limits.streams"), "{problem}");
        assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    }
    // A request that does not wait takes no place; another token and another server have their own places.
    admin.get("/api/v1/events?wait=0&continue=start").expect(200);
    let _others = [other.follow("/api/v1/events")];
    if on == Backend::Postgres {
        streams.push(site.admin_at(1).follow("/api/v1/events"));
    }
    streams.remove(0);
    wait_for("a stream that ended to be counted out", || {
        (admin.get("/api/v1/events?wait=1").status == 200).then_some(())
    });
}

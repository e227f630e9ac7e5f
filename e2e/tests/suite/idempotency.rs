//! `Idempotency-Key`: a repeated POST has one effect, whichever server it reaches.

use std::{
    hash::{BuildHasher as _, RandomState},
    thread,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::support::{Api, Backend, Site, at_once, line::Line, mac, node_in, on_both, wait_for};

on_both! {
    a_repeat_gets_the_same_answer,
    an_answer_is_remembered_for_a_day,
    many_at_once_have_one_effect,
    a_refused_request_may_be_mended,
    a_secret_is_not_repeated,
    a_key_belongs_to_its_caller,
    a_request_that_was_cut_off_is_not_run_again,
}

fn a_repeat_gets_the_same_answer(on: Backend) {
    let site = Site::start(on);
    let create = json!({"mac_address": mac(1)});
    let first = site.admin_at(0).with("idempotency-key", "k1").post("/api/v1/nodes", &create);
    let again = site.admin_at(1).with("idempotency-key", "k1").post("/api/v1/nodes", &create);
    assert_eq!(first.expect(201), again.expect(201));
    assert!(first.header("etag").is_some());
    assert_eq!(first.header("etag"), again.header("etag"));
    assert_eq!(
        (first.header("idempotency-replayed"), again.header("idempotency-replayed")),
        (None, Some("true"))
    );

    // The same key with another body, or for another path, is a mistake.
    let other = json!({"mac_address": mac(2)});
    for index in 0..2 {
        let api = site.admin_at(index).with("idempotency-key", "k1");
        assert_eq!(api.post("/api/v1/nodes", &other).problem(422)["code"], "key_reused");
        assert_eq!(api.post("/api/v1/groups", &create).problem(422)["code"], "key_reused");
    }
    // Without the key it is a conflict.
    site.admin().post("/api/v1/nodes", &create).problem(409);
    assert_eq!(site.admin().get("/api/v1/nodes").expect(200)["data"].as_array().unwrap().len(), 1);
    let long = "k".repeat(256);
    let wrong = site.admin().with("idempotency-key", &long).post("/api/v1/nodes", &other).wrong_fields();
    assert_eq!(wrong, ["Idempotency-Key"]);
}

fn an_answer_is_remembered_for_a_day(on: Backend) {
    let site = Site::start(on);
    let before = now();
    site.admin()
        .with("idempotency-key", "k")
        .post("/api/v1/nodes", &json!({"mac_address": mac(1)}))
        .expect(201);
    let after = now();
    let until = site.database.text("SELECT expires_at FROM idempotency WHERE key = 'k'");
    let answered = until.parse::<Timestamp>().unwrap() - SignedDuration::from_hours(24);
    // Times are stored to the microsecond.
    assert!(
        before - SignedDuration::from_micros(1) <= answered && answered <= after,
        "{until}, asked at {before}"
    );
}

#[expect(
    clippy::disallowed_methods,
    reason = "what the server wrote is compared with the time of the machine"
)]
fn now() -> Timestamp {
    Timestamp::now()
}

fn many_at_once_have_one_effect(on: Backend) {
    let site = Site::start(on);
    let ids: Vec<_> = (0..200).map(|number| node_in(&site.admin(), "discovered", number)).collect();
    let bulk = json!({"node_ids": ids, "state": "pending"});
    let replies = at_once(8, |index| {
        site.admin_at(index).with("idempotency-key", "bulk").post("/api/v1/nodes/bulk/state", &bulk)
    });
    let (mut in_flight, mut done) = (0, 0);
    for reply in &replies {
        match reply.status {
            200 => {
                assert_eq!(reply.json()["data"]["moved"], 200, "{}", reply.text());
                done += 1;
            }
            _ => {
                assert_eq!(reply.problem(409)["code"], "in_flight");
                in_flight += 1;
            }
        }
    }
    assert!(done >= 1 && in_flight >= 1, "{done} done, {in_flight} in flight");
    let repeat = site.admin().with("idempotency-key", "bulk").post("/api/v1/nodes/bulk/state", &bulk);
    assert_eq!(repeat.expect(200)["data"]["moved"], 200);
    for id in &ids {
        assert_eq!(site.admin().get(&format!("/api/v1/nodes/{id}/history")).expect(200)["total"], 1);
    }
}

fn a_refused_request_may_be_mended(on: Backend) {
    let site = Site::start(on);
    let api = site.admin().with("idempotency-key", "k");
    api.post("/api/v1/nodes", &json!({"mac_address": "nonsense"})).problem(400);
    api.post("/api/v1/nodes", &json!({"mac_address": mac(1)})).expect(201);
}

fn a_secret_is_not_repeated(on: Backend) {
    let site = Site::start(on);
    let create = json!({"name": "robot", "role": "viewer"});
    let secret = site.admin().with("idempotency-key", "t").post("/api/v1/tokens", &create).expect(201);
    let again = site.admin().with("idempotency-key", "t").post("/api/v1/tokens", &create);
    assert_eq!(again.problem(409)["code"], "shown_once");
    assert!(!again.text().contains(secret["data"]["secret"].as_str().unwrap()));
    let tokens = site.admin().get("/api/v1/tokens").expect(200);
    assert_eq!(tokens["data"].as_array().unwrap().len(), 2);
}

fn a_key_belongs_to_its_caller(on: Backend) {
    let site = Site::start(on);
    let (_, other) = site.new_token(&json!({"name": "other", "role": "operator"}));
    let create = |number| json!({"mac_address": mac(number)});
    site.admin().with("idempotency-key", "k").post("/api/v1/nodes", &create(1)).expect(201);
    let reply = site.caller(1, Some(&other)).with("idempotency-key", "k").post("/api/v1/nodes", &create(2));
    reply.expect(201);
    assert_eq!(reply.header("idempotency-replayed"), None);
}

const CLIENTS: usize = 16;
const EACH: usize = 60;

/// The server is killed between the commit of a request and its answer, in some of many rounds: a repeat
/// finds the change.
fn a_request_that_was_cut_off_is_not_run_again(on: Backend) {
    let mut site = Site::start(on);
    let mut cut_off = 0;
    for round in 0..20 {
        let callers: Vec<_> = (0..CLIENTS).map(|_| site.admin_at(0)).collect();
        let answered = thread::scope(|scope| {
            let clients: Vec<_> = callers
                .iter()
                .enumerate()
                .map(|(client, api)| scope.spawn(move || register_until_killed(api, round, client)))
                .collect();
            thread::sleep(Duration::from_millis(60 + RandomState::new().hash_one(round) % 150));
            site.servers[0].kill();
            clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
        });
        site.restart(0);
        for (client, answered) in answered.into_iter().enumerate() {
            if answered == EACH {
                continue;
            }
            let number = number(round, client, answered);
            let found =
                site.admin().get(&format!("/api/v1/nodes?fieldSelector=mac_address%3D{}", mac(number)));
            let made = found.expect(200)["data"][0]["id"].clone();
            let again = register(&site.admin(), number).unwrap();
            match made.as_str() {
                Some(id) => {
                    assert_eq!(again.expect(201)["data"]["id"], id);
                    cut_off += usize::from(again.header("idempotency-replayed").is_some());
                }
                // It may have been begun and not carried out: then its claim lapses.
                None => assert!(again.status == 201 || again.problem(409)["code"] == "in_flight"),
            }
        }
        if cut_off >= 3 {
            return;
        }
    }
    panic!("only {cut_off} requests were cut off between commit and answer");
}

/// A satellite is made in more than one statement; its server is killed when the last one is done and not yet known to
/// be. A caller that repeats the request learns that it was carried out, not that it is still in progress.
#[test]
fn a_satellite_that_was_made_is_not_made_again() {
    let mut site = Site::start(Backend::Postgres);
    let (line, over) = Line::to(site.database.url().unwrap());
    site.restart_over(1, &over);
    let waiting = "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS \
                   'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END'; \
                   CREATE CONSTRAINT TRIGGER waits AFTER INSERT ON resources DEFERRABLE INITIALLY DEFERRED \
                   FOR EACH ROW WHEN (NEW.kind = 'satellite') EXECUTE FUNCTION wait()";
    site.database.execute(waiting).unwrap();
    let make = |index: usize| {
        let api =
            site.admin_at(index).with("idempotency-key", "once").with("content-type", "application/json");
        api.try_send("POST", "/api/satellites", json!({"name": "edge"}).to_string().as_bytes())
    };
    let is = |condition: &str| site.database.count(&format!("SELECT 1 FROM {condition}")) > 0;
    thread::scope(|scope| {
        let making = site.database.hold("SELECT pg_advisory_xact_lock(1)", || {
            let making = scope.spawn(|| make(1));
            let waits = "pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'";
            wait_for("the commit", || is(waits).then_some(()));
            line.hold_answers();
            making
        });
        wait_for("its end", || is("resources WHERE kind = 'satellite'").then_some(()));
        site.servers[1].signal("-KILL");
        making.join().unwrap().unwrap_err();
    });
    assert_eq!(make(0).unwrap().problem(409)["code"], "shown_once");
    site.admin_at(0).get("/api/satellites/edge").expect(200);
}

fn number(round: usize, client: usize, count: usize) -> usize {
    (round * CLIENTS + client) * EACH + count
}

fn register(api: &Api, number: usize) -> std::io::Result<crate::support::Reply> {
    let api = api.with("idempotency-key", &format!("node-{number}")).with("content-type", "application/json");
    api.try_send("POST", "/api/v1/nodes", json!({"mac_address": mac(number)}).to_string().as_bytes())
}

/// How many registrations were answered before the first that was not.
fn register_until_killed(api: &Api, round: usize, client: usize) -> usize {
    for count in 0..EACH {
        match register(api, number(round, client, count)) {
            Ok(reply) if reply.status == 201 => {}
            _ => return count,
        }
    }
    EACH
}

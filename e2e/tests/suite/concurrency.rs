//! Concurrent requests: one winner, every attempt counted once, no write lost.

use std::thread;

use serde_json::{Value, json};

use crate::support::{
    Backend, Reply, Site, at_once,
    fleet::{assert_names_moves_from, token_in, workflow},
    mac, node_in, on_both, wait_for,
};

on_both! {
    moves_of_one_node_have_one_winner,
    failed_reports_count_once_each,
    registrations_of_one_mac_make_one_node,
    first_boots_of_one_mac_make_one_node,
    a_read_after_a_write_sees_it,
    patches_do_not_lose_each_other,
}

const MANY: usize = 50;

/// A table of PostgreSQL is locked for longer than any caller waits.
#[test]
fn a_refused_change_is_not_made_later() {
    const LOCK: &str = "LOCK TABLE resources IN SHARE ROW EXCLUSIVE MODE";
    let site = Site::start(Backend::Postgres);
    let id = node_in(&site.admin(), "active", 1);
    let detail = |reply: &Reply| {
        assert!(reply.header("retry-after").is_some());
        reply.problem(503)["detail"].as_str().unwrap().to_owned()
    };
    let (moved, made) = thread::scope(|scope| {
        site.database.hold(LOCK, || {
            let made = scope.spawn(|| site.admin().post("/api/v1/nodes", &json!({"mac_address": mac(2)})));
            (site.admin().to_state(&id, "migrating"), made.join().unwrap())
        })
    });
    for (reply, wait) in
        [(moved, "took too long and gave up"), (made, "holds a lock in the database for too long")]
    {
        let said = detail(&reply);
        assert!(said.contains(wait) && said.contains("nothing was changed: retry"), "{said}");
    }
    wait_for("everybody to go on", || (!site.database.waits()).then_some(()));
    let nodes = site.admin().get("/api/v1/nodes").expect(200);
    assert_eq!((nodes["data"].as_array().unwrap().len(), &nodes["data"][0]["state"]), (1, &json!("active")));

    // A caller that loses the connection in between cannot know.
    let doubtful = thread::scope(|scope| {
        site.database.hold(LOCK, || {
            let waiting = scope.spawn(|| site.admin().to_state(&id, "migrating"));
            wait_for("the move to wait for the lock", || site.database.waits().then_some(()));
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
            site.database.execute(end).unwrap();
            waiting.join().unwrap()
        })
    });
    assert!(detail(&doubtful).contains("may have been done"));
    site.admin().to_state(&id, "migrating").expect(200);
}

fn moves_of_one_node_have_one_winner(on: Backend) {
    let site = Site::start(on);
    for number in 0..4 {
        let id = node_in(&site.admin(), "active", number);
        let before = transitions(&site, &id);
        let targets = ["reprovision", "deprovisioning", "migrating"];
        let replies = at_once(MANY, |index| site.admin_at(index).to_state(&id, targets[index % 3]));

        let winners: Vec<_> = replies.iter().filter(|reply| reply.status == 200).collect();
        assert_eq!(winners.len(), 1, "{:?}", statuses(&replies));
        let state = winners[0].json()["data"]["state"].as_str().unwrap().to_owned();
        for reply in replies.iter().filter(|reply| reply.status != 200) {
            assert_names_moves_from(&reply.problem(409), &state);
        }
        for index in 0..site.servers.len() {
            let node = site.admin_at(index).get(&format!("/api/v1/nodes/{id}")).expect(200);
            assert_eq!(node["data"]["state"], *state);
        }
        let after = transitions(&site, &id);
        assert_eq!(after.len(), before.len() + 1, "{after:?}");
        assert_eq!((&after[0]["from_state"], &after[0]["to_state"]), (&json!("active"), &json!(state)));
    }
}

fn failed_reports_count_once_each(on: Backend) {
    let site = Site::start(on);
    workflow(&site.admin(), "debian");
    for number in 0..3 {
        let id = node_in(&site.admin(), "installing", number);
        let assign = json!({"workflow_id": "debian"});
        site.admin().patch(&format!("/api/v1/nodes/{id}"), &assign).expect(200);
        let script = site.machine(None).get(&format!("/api/v1/boot?mac={}", mac(number))).text();
        let token = token_in(&script);

        let report = json!({"mac_address": mac(number), "installation_status": "failed", "installation_error": "no disk"});
        let replies = at_once(MANY, |_| site.machine(Some(&token)).post("/api/v1/report", &report));
        for reply in &replies {
            reply.expect(200);
        }

        let node = site.admin().get(&format!("/api/v1/nodes/{id}")).expect(200)["data"].clone();
        assert_eq!((&node["state"], &node["install_attempts"]), (&json!("install_failed"), &json!(3)));
        assert_eq!(node["last_install_error"], "no disk");
        let rows = rows_of(&site, &id);
        let of = |kind: &str| rows.iter().filter(|row| row["type"] == kind).cloned().collect::<Vec<_>>();
        let counted: Vec<_> = of("attempt").iter().map(|row| row["metadata"]["attempt"].clone()).collect();
        assert_eq!(counted, [2, 1], "newest first");
        let given_up: Vec<_> =
            of("transition").into_iter().filter(|row| row["to_state"] == "install_failed").collect();
        assert_eq!(given_up.len(), 1, "{given_up:?}");
        assert_eq!(given_up[0]["metadata"], json!({"attempt": 3, "error": "no disk"}));
        assert_eq!(given_up[0]["triggered_by"], "node_report");
    }
}

fn registrations_of_one_mac_make_one_node(on: Backend) {
    let site = Site::start(on);
    for number in 0..4 {
        let create = json!({"mac_address": mac(number)});
        let replies = at_once(MANY, |index| site.admin_at(index).post("/api/v1/nodes", &create));
        let made: Vec<_> = replies.iter().filter(|reply| reply.status == 201).collect();
        assert_eq!(made.len(), 1, "{:?}", statuses(&replies));
        let id = made[0].json()["data"]["id"].as_str().unwrap().to_owned();
        for reply in replies.iter().filter(|reply| reply.status != 201) {
            let problem = reply.problem(409);
            assert!(problem["detail"].as_str().unwrap().contains(&id), "{problem}");
        }
        assert_eq!(nodes_of_mac(&site, number).len(), 1);
        assert_eq!(rows_of(&site, &id).len(), 1);
    }
}

fn first_boots_of_one_mac_make_one_node(on: Backend) {
    let site = Site::start(on);
    for number in 0..4 {
        let path = format!("/api/v1/boot?mac={}", mac(number));
        for reply in at_once(MANY, |_| site.machine(None).get(&path)) {
            assert_eq!(reply.status, 200, "{}", reply.text());
            assert!(reply.text().starts_with("#!ipxe\n"), "{}", reply.text());
        }
        let nodes = nodes_of_mac(&site, number);
        assert_eq!(nodes.len(), 1, "{nodes:?}");
        assert_eq!(nodes[0]["state"], "discovered");
    }
}

fn a_read_after_a_write_sees_it(on: Backend) {
    let site = Site::start(on);
    let ids: Vec<_> = (0..8).map(|number| node_in(&site.admin(), "active", number)).collect();
    at_once(ids.len(), |index| {
        let id = &ids[index];
        for round in 0..20 {
            let state = ["migrating", "active"][round % 2];
            site.admin_at(index + round).to_state(id, state).expect(200);
            // Another connection, and the other server if there is one.
            let reader = site.admin_at(index + round + 1);
            assert_eq!(reader.get(&format!("/api/v1/nodes/{id}")).expect(200)["data"]["state"], state);
            let listed =
                reader.get(&format!("/api/v1/nodes?fieldSelector=mac_address%3D{}", mac(index))).expect(200);
            assert_eq!(listed["data"][0]["state"], state);
            let rows = reader.get(&format!("/api/v1/nodes/{id}/history?limit=1")).expect(200);
            assert_eq!(rows["data"][0]["to_state"], state);
            assert_eq!(rows["total"], 5 + round);
        }
    });
}

fn patches_do_not_lose_each_other(on: Backend) {
    let site = Site::start(on);
    let id = node_in(&site.admin(), "active", 1);
    let path = format!("/api/v1/nodes/{id}");
    at_once(MANY, |index| {
        let label = format!("label-{index}");
        site.admin_at(index).patch(&path, &json!({"labels": {label: "set"}})).expect(200);
    });
    let node = site.admin().get(&path).expect(200);
    assert_eq!(node["data"]["labels"].as_object().unwrap().len(), MANY);
    // The feed follows a moment behind the last commit.
    wait_for("the rows in the feed", || {
        let changed = rows_of(&site, &id).iter().filter(|row| row["type"] == "changed").count();
        (changed == MANY).then_some(())
    });
}

fn statuses(replies: &[Reply]) -> Vec<u16> {
    replies.iter().map(|reply| reply.status).collect()
}

/// The transitions of a node, newest first.
fn transitions(site: &Site, id: &str) -> Vec<Value> {
    let history = site.admin().get(&format!("/api/v1/nodes/{id}/history?limit=1000")).expect(200);
    let rows = history["data"].as_array().unwrap().clone();
    assert_eq!(history["total"], rows.len());
    rows
}

/// Every row of a node, newest first.
fn rows_of(site: &Site, id: &str) -> Vec<Value> {
    let rows = site.admin().get(&format!("/api/v1/history?kind=node&id={id}&limit=1000")).expect(200);
    rows["data"].as_array().unwrap().clone()
}

fn nodes_of_mac(site: &Site, number: usize) -> Vec<Value> {
    let path = format!("/api/v1/nodes?fieldSelector=mac_address%3D{}", mac(number));
    site.admin().get(&path).expect(200)["data"].as_array().unwrap().clone()
}

//! kill -9 at random moments under load: acknowledged changes are there after the restart, and history verifies.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use serde_json::json;

use crate::support::{Api, Backend, Site, chain::verify_all, node_in, on_both};

on_both! {
    nothing_acknowledged_is_lost,
}

/// Clients that change something all the time, each a node of its own.
const CLIENTS: usize = 8;

fn nothing_acknowledged_is_lost(on: Backend) {
    let rounds = std::env::var("WARDROOM_FAULT_ROUNDS").map_or(3, |rounds| rounds.parse().unwrap());
    let mut site = Site::start(on);
    let nodes: Vec<_> = (0..CLIENTS).map(|number| node_in(&site.admin(), "active", number)).collect();
    let mut total = 0;
    for round in 0..rounds {
        // One server of two, or both.
        let victims: Vec<_> = match round % 3 {
            0 => (0..site.servers.len()).collect(),
            victim => vec![victim % site.servers.len()],
        };
        let acknowledged = kill_under_load(&mut site, round, &nodes, &victims);
        for victim in victims {
            site.restart(victim);
        }
        total += acknowledged.iter().map(Vec::len).sum::<usize>();
        for (id, acknowledged) in nodes.iter().zip(&acknowledged) {
            check(&site, id, acknowledged);
        }
    }
    assert!(total > rounds * CLIENTS, "there was no load: {total} changes");
    verify_all(&site);
}

/// The changes acknowledged to each client before the servers were killed.
fn kill_under_load(site: &mut Site, round: usize, nodes: &[String], victims: &[usize]) -> Vec<Vec<String>> {
    let is_over = AtomicBool::new(false);
    let callers: Vec<_> = (0..CLIENTS).map(|client| site.admin_at(client)).collect();
    thread::scope(|scope| {
        let clients: Vec<_> = callers
            .iter()
            .zip(nodes)
            .map(|(api, id)| {
                let is_over = &is_over;
                scope.spawn(move || change_until_killed(api, id, round, is_over))
            })
            .collect();
        thread::sleep(Duration::from_millis(50 + RandomState::new().hash_one(round) % 400));
        for &victim in victims {
            site.servers[victim].kill();
        }
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    })
}

/// Moves a node back and forth; gives the comments of the moves that were acknowledged.
fn change_until_killed(api: &Api, id: &str, round: usize, is_over: &AtomicBool) -> Vec<String> {
    let path = format!("/api/v1/nodes/{id}/state");
    let api = api.with("content-type", "application/json");
    let (mut acknowledged, mut next) = (Vec::new(), "migrating");
    for count in 0..900 {
        let comment = format!("round {round} change {count}");
        let body = json!({"state": next, "comment": comment}).to_string();
        let Ok(reply) = api.try_send("PATCH", &path, body.as_bytes()) else { break };
        match reply.status {
            200 => acknowledged.push(comment),
            // The node was there already: a move before this one was carried out and its answer lost.
            409 => {}
            // A server without its database answers 503; no other failure is allowed.
            _ => assert_eq!(reply.status, 503, "{}", reply.text()),
        }
        if reply.status != 503 {
            next = if next == "active" { "migrating" } else { "active" };
        }
        if is_over.load(Ordering::Relaxed) {
            break;
        }
    }
    acknowledged
}

/// Every acknowledged change is in history once, and the node's state is that of its newest row.
fn check(site: &Site, id: &str, acknowledged: &[String]) {
    let rows = site.admin().get(&format!("/api/v1/history?kind=node&id={id}&limit=1000")).expect(200);
    let rows = rows["data"].as_array().unwrap();
    let times = |comment: &String| rows.iter().filter(|row| row["comment"] == **comment).count();
    let lost: Vec<_> = acknowledged.iter().filter(|comment| times(comment) != 1).collect();
    let count = acknowledged.len();
    assert!(lost.is_empty(), "{} of {count} acknowledged changes are not there once: {lost:?}", lost.len());
    let node = site.admin().get(&format!("/api/v1/nodes/{id}")).expect(200);
    assert_eq!(node["data"]["state"], rows[0]["to_state"], "{id}");
}

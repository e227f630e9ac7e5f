//! kill -9 at random moments under load: what was acknowledged is there after the restart, and history verifies.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::json;

use crate::support::{
    Backend, Site,
    chain::{all_rows, verify_all},
    node_in, on_both,
};

on_both! {
    nothing_acknowledged_is_lost,
}

/// Clients that change something all the time.
const CLIENTS: usize = 8;

fn nothing_acknowledged_is_lost(on: Backend) {
    let rounds = std::env::var("WARDROOM_FAULT_ROUNDS").map_or(3, |rounds| rounds.parse().unwrap());
    let mut site = Site::start(on);
    let nodes: Vec<_> = (0..CLIENTS).map(|number| node_in(&site.admin(), "active", number)).collect();
    let acknowledged = Mutex::new(Vec::new());
    for round in 0..rounds {
        // One server of two, or both.
        let victims: Vec<_> = match round % 3 {
            0 => (0..site.servers.len()).collect(),
            victim => vec![victim % site.servers.len()],
        };
        kill_under_load(&mut site, round, &nodes, &victims, &acknowledged);
        for victim in victims {
            site.restart(victim);
        }
        check(&site, &acknowledged.lock().unwrap());
    }
    assert!(acknowledged.lock().unwrap().len() > rounds, "there was no load");
    verify_all(&site);
}

fn kill_under_load(
    site: &mut Site,
    round: usize,
    nodes: &[String],
    victims: &[usize],
    acknowledged: &Mutex<Vec<(String, String)>>,
) {
    let is_over = AtomicBool::new(false);
    let state =
        |id: &String| site.admin().get(&format!("/api/v1/nodes/{id}")).expect(200)["data"]["state"].clone();
    let callers: Vec<_> =
        nodes.iter().enumerate().map(|(client, id)| (site.admin_at(client), id, state(id))).collect();
    thread::scope(|scope| {
        for (client, (api, id, mut state)) in callers.into_iter().enumerate() {
            let is_over = &is_over;
            scope.spawn(move || {
                for count in 0.. {
                    let next = if state == "active" { "migrating" } else { "active" };
                    let comment = format!("round {round} client {client} change {count}");
                    let body = json!({"state": next, "comment": comment}).to_string();
                    let api = api.with("content-type", "application/json");
                    let sent = api.try_send("PATCH", &format!("/api/v1/nodes/{id}/state"), body.as_bytes());
                    match sent {
                        Ok(reply) if reply.status == 200 => {
                            acknowledged.lock().unwrap().push((id.clone(), comment));
                            state = json!(next);
                        }
                        // Two servers: the survivor may say that it lost a connection, never something wrong.
                        Ok(reply) => assert_eq!(reply.status, 503, "{}", reply.text()),
                        Err(_) => break,
                    }
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        thread::sleep(Duration::from_millis(50 + RandomState::new().hash_one(round) % 400));
        for &victim in victims {
            site.servers[victim].kill();
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Every acknowledged change is in history once, and the node is where its newest row says.
fn check(site: &Site, acknowledged: &[(String, String)]) {
    let all = all_rows(&site.admin());
    let mut seen: HashMap<_, usize> = HashMap::new();
    for ((_, id), rows) in &all {
        for row in rows {
            if let Some(comment) = row["comment"].as_str() {
                *seen.entry((id.clone(), comment.to_owned())).or_default() += 1;
            }
        }
    }
    let lost: Vec<_> = acknowledged.iter().filter(|change| seen.get(change) != Some(&1)).collect();
    assert!(
        lost.is_empty(),
        "{} of {} acknowledged changes are lost: {lost:?}",
        lost.len(),
        acknowledged.len()
    );
    for ((kind, id), rows) in all.iter().filter(|((kind, _), _)| kind == "node") {
        let node = site.admin().get(&format!("/api/v1/nodes/{id}")).expect(200);
        assert_eq!(node["data"]["state"], rows.last().unwrap()["to_state"], "{kind} {id}");
    }
}

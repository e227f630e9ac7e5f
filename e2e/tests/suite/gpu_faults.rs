//! kill -9 during calls of MAAS: each effect happens once, and the run completes.

use serde_json::json;

use crate::support::{Api, Backend, Site, maas::Maas, mac, on_both, wait_for};

on_both! {
    a_server_that_dies_in_the_middle_of_an_effect_repeats_nothing,
    a_server_that_dies_while_a_node_leaves_repeats_nothing,
}

/// The operations of MAAS in a run that must not be repeated.
const EFFECTS: &[&str] = &["create", "commission", "link_subnet", "deploy"];

/// The operations of MAAS in a decommission.
const LEAVING: &[&str] = &["release", "delete"];

/// A MAAS, and servers with a site that has it.
fn start(on: Backend) -> (Maas, Site) {
    let (maas, site) = (Maas::start(), Site::start(on));
    let rates = json!({"requests_per_second": 1000.0, "poll_millis": 100, "remove_machine": true});
    maas.serves(&site, "here", &rates);
    (maas, site)
}

/// From now on this takes effect, and the answer never comes.
fn silence(maas: &Maas, op: &str) {
    maas.api.post("/_fake/faults", &json!({"op": op, "when": "after", "kind": "silence"})).expect(200);
}

/// All servers die and come back; MAAS answers again. A shared database keeps the run for the dead server
/// until its lease expires; this ends the lease.
fn die(on: Backend, site: &mut Site, maas: &Maas) {
    for server in &mut site.servers {
        server.kill();
    }
    maas.api.delete("/_fake/faults").expect(200);
    if on == Backend::Postgres {
        site.database.execute("UPDATE leases SET expires_at = 0 WHERE name LIKE 'run/%'").unwrap();
    }
    for index in 0..site.servers.len() {
        site.restart(index);
    }
}

fn register(site: &Site, number: usize) -> String {
    let body = json!({"hostname": format!("gpu-{number}"), "site": "here", "macs": [mac(number)]});
    let made = site.admin().post("/api/v1/gpu-nodes", &body).expect(201);
    format!("/api/v1/gpu-nodes/{}", made["data"]["id"].as_str().unwrap())
}

fn a_server_that_dies_in_the_middle_of_an_effect_repeats_nothing(on: Backend) {
    let rounds = std::env::var("WARDROOM_FAULT_ROUNDS").map_or(4, |rounds| rounds.parse().unwrap());
    let (maas, mut site) = start(on);
    for round in 0..rounds {
        let op = EFFECTS[round % EFFECTS.len()];
        let before = maas.did(None, op);
        silence(&maas, op);
        let node = register(&site, round);
        wait_for(&format!("MAAS to {op}"), || (maas.did(None, op) > before).then_some(()));
        die(on, &mut site, &maas);
        let (machine, _) = onboarded(&site, &maas, &node);
        for op in EFFECTS {
            assert_eq!(maas.did(Some(&machine), op), 1, "round {round}: {op} of {machine}");
        }
    }
    let machines = maas.api.get("/_fake/machines").expect(200);
    assert_eq!(machines.as_array().unwrap().len(), rounds, "one machine for each node");
}

fn a_server_that_dies_while_a_node_leaves_repeats_nothing(on: Backend) {
    let (maas, mut site) = start(on);
    for (round, op) in LEAVING.iter().enumerate() {
        // A machine that MAAS can power; otherwise a person would have to switch it off.
        maas.api.post("/_fake/machines", &json!({"macs": [mac(round)]})).expect(200);
        let node = register(&site, round);
        let (machine, credential) = onboarded(&site, &maas, &node);
        silence(&maas, op);
        let mode = json!({"mode": "full_decommission"});
        site.admin().post(&format!("{node}/decommissions"), &mode).expect(201);
        wait_for(&format!("MAAS to {op}"), || {
            work(&site.caller(0, Some(&credential)), &node);
            (maas.did(Some(&machine), op) > 0).then_some(())
        });
        die(on, &mut site, &maas);
        wait_for("the node to be gone", || {
            let state = site.admin().get(&node).expect(200)["data"]["status"].clone();
            (state == "deleted").then_some(())
        });
        for op in LEAVING {
            assert_eq!(maas.did(Some(&machine), op), 1, "{op} of {machine}");
        }
        let left = maas.api.get("/_fake/machines").expect(200);
        assert_eq!(left, json!([]), "MAAS has it no more");
    }
}

/// One turn of an agent: it does all its tasks. Its reports no longer count once its system is given up.
fn work(agent: &Api, node: &str) {
    let claimed = agent.post(&format!("{node}/tasks/claim"), &json!({"holder": "agent"}));
    if claimed.status != 200 {
        return;
    }
    let task = claimed.json()["task"].clone();
    if let Some(id) = task["id"].as_str() {
        let result = json!({"epoch": task["epoch"], "outcome": "succeeded", "output": "done"});
        agent.post(&format!("{node}/tasks/{id}/result"), &result).expect(200);
    }
}

/// Plays the agent of the node's machine until the node is active; returns the machine's id and the agent's
/// credential.
fn onboarded(site: &Site, maas: &Maas, node: &str) -> (String, String) {
    let machine = wait_for("a machine", || {
        let node = site.admin().get(node).expect(200);
        node["data"]["system_id"].as_str().map(str::to_owned)
    });
    let token = wait_for("the machine to be deployed", || {
        let lifecycle = site.admin().get(&format!("{node}/lifecycle")).expect(200);
        let deployed = lifecycle["data"]["maas"]["status_name"] == "Deployed";
        deployed.then(|| maas.api.get(&format!("/_fake/machines/{machine}/user-data")).text())
    });
    let enrolled =
        site.caller(0, None).post("/api/v1/gpu-nodes/enroll", &json!({"token": token.trim()})).expect(200);
    let credential = enrolled["credential"].as_str().unwrap().to_owned();
    let agent = site.caller(0, Some(&credential));
    wait_for("the node to be active", || {
        let beat = agent.post(&format!("{node}/heartbeat"), &json!({"checks": []})).expect(200);
        (beat["status"] == "active").then_some(())
    });
    (machine, credential)
}

//! kill -9 in the middle of what MAAS does for a run: the effect is there once, and the run ends well.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::{Api, Backend, Site, on_both, site::build, wait_for};

on_both! {
    a_server_that_dies_in_the_middle_of_an_effect_repeats_nothing,
}

/// The fake of MAAS as a process of its own.
struct Maas {
    child: Child,
    api: Api,
}

impl Maas {
    fn start() -> Self {
        let mut child = Command::new(build("wardroom-fakes"))
            .args(["maas", "--pace", "50"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().trim_start_matches("http://").trim_end_matches("/MAAS");
        Self { child, api: Api::new(address.parse().unwrap(), None) }
    }

    /// How often something was done to a machine, or to any.
    fn did(&self, machine: Option<&str>, op: &str) -> u64 {
        let effects = self.api.get("/_fake/effects").expect(200);
        let of = |ops: &Value| ops[op].as_u64().unwrap_or(0);
        match machine {
            Some(machine) => of(&effects[machine]),
            None => effects.as_object().unwrap().values().map(of).sum(),
        }
    }
}

impl Drop for Maas {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a run has MAAS do that must not be done twice.
const EFFECTS: &[&str] = &["create", "commission", "link_subnet", "deploy"];

/// A database that several servers share keeps the run for the dead one until its lease has run out: the test says so
/// in the dead one's stead.
fn a_server_that_dies_in_the_middle_of_an_effect_repeats_nothing(on: Backend) {
    let rounds = std::env::var("WARDROOM_FAULT_ROUNDS").map_or(4, |rounds| rounds.parse().unwrap());
    let maas = Maas::start();
    let mut site = Site::start(on);
    for index in 0..site.servers.len() {
        std::fs::write(site.data_dir(index).join("secrets/maas"), "consumer:token:secret").unwrap();
    }
    let settings = json!({
        "url": format!("http://{}/MAAS", maas.api.address), "key": "file:maas",
        "provisioning_subnet": "provisioning", "boot_disk": {"model": "BOSS"}, "hardware_sync": false,
        "requests_per_second": 1000.0, "deploys_per_minute": 1000.0, "poll_millis": 100,
        "user_data": "{{token}}",
    });
    site.admin().post("/api/v1/sites", &json!({"name": "here", "settings": settings})).expect(201);
    for round in 0..rounds {
        let op = EFFECTS[round % EFFECTS.len()];
        let before = maas.did(None, op);
        // It takes effect, and the answer never comes.
        let fault = json!({"op": op, "when": "after", "kind": "silence"});
        maas.api.post("/_fake/faults", &fault).expect(200);
        let mac = format!("52:54:00:00:{:02x}:{:02x}", round / 256, round % 256);
        let body = json!({"hostname": format!("gpu-{round}"), "site": "here", "macs": [mac]});
        let made = site.admin().post("/api/v1/gpu-nodes", &body).expect(201);
        let node = format!("/api/v1/gpu-nodes/{}", made["data"]["id"].as_str().unwrap());
        wait_for(&format!("MAAS to {op}"), || (maas.did(None, op) > before).then_some(()));
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
        let machine = onboarded(&site, &maas, &node);
        for op in EFFECTS {
            assert_eq!(maas.did(Some(&machine), op), 1, "round {round}: {op} of {machine}");
        }
    }
    let machines = maas.api.get("/_fake/machines").expect(200);
    assert_eq!(machines.as_array().unwrap().len(), rounds, "one machine for each node");
}

/// Is the agent of the node's machine until the node is active; says which machine it is.
fn onboarded(site: &Site, maas: &Maas, node: &str) -> String {
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
    let agent = site.caller(0, enrolled["credential"].as_str());
    wait_for("the node to be active", || {
        let beat = agent.post(&format!("{node}/heartbeat"), &json!({"checks": []})).expect(200);
        (beat["state"] == "active").then_some(())
    });
    machine
}

//! Every command that `why` offers is pasted: none is refused for a reason that `why` does not name.
//!
//! Each is pasted for a member of its own, in each state and before each obstacle that is reached without waiting.

use std::{
    process::{Command, Output, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};

use crate::support::{
    Api, Backend, Site,
    cluster::{REQUIRED, cluster, pool},
    device::{Device, open_token},
    fleet::{STATES, workflow},
    mac, node_in, satellite,
    site::binary,
    wait_for,
};

/// One thing that `why` offers.
#[derive(Debug, Clone)]
struct Offer {
    command: String,
    /// What has to hold before it succeeds, as far as `why` says so.
    condition: Option<String>,
}

/// Runs a command in a shell, as an administrator.
fn shell(site: &Site, command: &str) -> Output {
    let path = std::env::join_paths([binary().parent().unwrap(), "/usr/bin".as_ref(), "/bin".as_ref()]);
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env("PATH", path.unwrap()).current_dir(site.data_dir(0));
    shell.env("WARDROOM_SERVER_URL", format!("http://{}", site.servers[0].address));
    shell.env("WARDROOM_TOKEN", &site.token).stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
fn said(site: &Site, command: &str) -> String {
    let output = shell(site, command);
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What `why` offers for a member: its fixes and its ways out, without what it says to be of no use now.
fn offers(site: &Site, kind: &str, name: &str) -> Vec<Offer> {
    let explained: Value =
        serde_json::from_str(&said(site, &format!("wardroom why {kind} '{name}' -o json"))).unwrap();
    let all = said(site, &format!("wardroom why {kind} '{name}' --all"));
    // The ways out follow each other as they do in the answer of the API.
    let calls = explained.as_array().unwrap().iter().flat_map(|why| why["exits"].as_array().unwrap());
    let calls = calls.map(|exit| &exit["call"]).filter(|call| !call.is_null());
    let lines = all.lines().filter(|line| line.starts_with("    wardroom ") || is_request(line));
    let lines: Vec<_> = lines.collect();
    let condition = |call: &Value| call["precondition"].as_str().map(str::to_owned);
    let mut offers: Vec<_> = Vec::new();
    let calls: Vec<_> = calls.collect();
    assert_eq!(calls.len(), lines.len(), "{kind} {name}: {all}");
    for (call, line) in calls.iter().zip(&lines) {
        if !line.contains("(not now: ") {
            offers.push(Offer { command: line.trim().to_owned(), condition: condition(call) });
        }
    }
    // The next step stands alone, and may be one of them.
    let next = all.lines().find_map(|line| line.strip_prefix("Next   wardroom "));
    let next = next.filter(|next| !next.contains("   not now: "));
    let nexts = explained.as_array().unwrap().iter().map(|why| &why["next"]);
    let mut nexts = nexts.filter(|next| next["do"] == "call" && next["possible"] != false);
    if let Some(next) = next {
        let command = format!("wardroom {}", next.split("   ").next().unwrap().trim());
        offers.push(Offer { command, condition: nexts.next().and_then(condition) });
    }
    offers
}

/// Whether a line shows a request for which there is no command.
fn is_request(line: &str) -> bool {
    ["    GET /", "    POST /", "    PUT /", "    PATCH /", "    DELETE /"]
        .iter()
        .any(|start| line.starts_with(start))
}

/// Pastes everything that is offered for members that were made in the same way.
fn paste_all(site: &Site, kind: &str, of: &str, make: impl Fn(usize) -> String) {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let fresh = || make(NUMBER.fetch_add(1, Ordering::Relaxed));
    let count = offers(site, kind, &fresh()).len();
    for at in 0..count {
        let name = fresh();
        let found = offers(site, kind, &name);
        let offer = found.get(at).unwrap_or_else(|| panic!("{kind} {of}: {found:?} was {count} long"));
        assert!(offer.command.starts_with("wardroom "), "{kind} {of}: no command for {offer:?}");
        let command =
            offer.command.replace("--workflow NAME", "--workflow debian").replace("TEXT", "because");
        let pasted = shell(site, &command);
        let code = pasted.status.code();
        let told = [pasted.stdout, pasted.stderr].concat();
        let told = String::from_utf8_lossy(&told);
        let is_named = code == Some(4) && offer.condition.is_some();
        assert!(code == Some(0) || is_named, "{kind} {of}: `{command}` ended with {code:?}: {told}");
    }
}

#[test]
fn of_nodes() {
    let site = Site::alone(Backend::Sqlite, &[]);
    workflow(&site.admin(), "debian");
    for state in STATES {
        for assigned in [false, true] {
            paste_all(&site, "node", &format!("{state}, assigned: {assigned}"), |number| {
                let id = node_in(&site.admin(), state, number);
                if assigned && *state != "retired" {
                    let path = format!("/api/v1/nodes/{id}");
                    site.admin().patch(&path, &json!({"workflow_id": "debian"})).expect(200);
                }
                mac(number)
            });
        }
    }
    paste_all(&site, "node", "failed three times", |number| {
        let id = node_in(&site.admin(), "installing", number);
        for attempt in 1..=3 {
            let report = json!({"status": "failed", "error": "no disk", "attempt_id": format!("{attempt}")});
            site.admin().post(&format!("/api/v1/nodes/{id}/installation-status"), &report).expect(200);
        }
        mac(number)
    });
}

#[test]
fn of_satellites() {
    let site = Site::alone(Backend::Sqlite, &[]);
    let name = |number: usize| format!("edge-{number}");
    paste_all(&site, "satellite", "pending", |number| {
        satellite::create(&site, &name(number));
        name(number)
    });
    paste_all(&site, "satellite", "online", |number| {
        satellite::online(&site, &name(number));
        name(number)
    });
    paste_all(&site, "satellite", "revoked before it registered", |number| {
        satellite::create(&site, &name(number));
        satellite::revoke(&site, &name(number));
        name(number)
    });
    paste_all(&site, "satellite", "revoked and asking", |number| {
        let robot = satellite::online(&site, &name(number));
        satellite::revoke(&site, &name(number));
        robot.beat(&site, 0).problem(403);
        name(number)
    });
    paste_all(&site, "satellite", "to exchange its credential", |number| {
        satellite::online(&site, &name(number));
        satellite::revoke(&site, &name(number));
        satellite::reenable(&site, &name(number), "refresh");
        name(number)
    });
    paste_all(&site, "satellite", "deleted", |number| {
        satellite::create(&site, &name(number));
        site.admin().delete(&format!("/api/satellites/{}", name(number))).expect(200);
        name(number)
    });
}

#[test]
fn of_clusters() {
    let settings = [(REQUIRED, "dns"), ("WARDROOM_CLUSTERS_ADAPTER_PATIENCE_SECONDS", "3600")];
    let site = Site::alone(Backend::Sqlite, &settings);
    let name = |number: usize| format!("east-{number}");
    paste_all(&site, "cluster", "new", |number| {
        cluster(&site.admin(), &name(number));
        name(number)
    });
    paste_all(&site, "cluster", "being deleted, with a node pool", |number| {
        let made = cluster(&site.admin(), &name(number));
        let id = made["id"].as_str().unwrap();
        pool(&site.admin(), id, "workers");
        site.admin().delete(&format!("/api/hyperfleet/v1/clusters/{id}")).expect(202);
        name(number)
    });
    paste_all(&site, "adapter", "working", |_| "dns".to_owned());
}

#[test]
fn of_devices() {
    let site = Site::alone(Backend::Sqlite, &[]);
    let token = open_token(&site);
    let report = |device: &Device, resources: Value| {
        let status = json!({"resources": resources, "config": {"renderedVersion": "1"}});
        assert!(device.report(&site, 0, &status).status < 300);
    };
    paste_all(&site, "device", "enrolled", |_| Device::enrolled(&site, &token).name);
    for health in ["Healthy", "Degraded", "Error"] {
        paste_all(&site, "device", health, |_| {
            let device = Device::enrolled(&site, &token);
            report(&device, json!({"cpu": "Healthy", "memory": health, "disk": "Healthy"}));
            device.name
        });
    }
    paste_all(&site, "device", "revoked", |_| {
        let device = Device::enrolled(&site, &token);
        site.admin().post(&format!("/api/v1/devices/{}/revoke", device.name), &json!({})).expect(200);
        device.name
    });
    paste_all(&site, "device", "decommissioning", |_| {
        let device = Device::enrolled(&site, &token);
        report(&device, json!({}));
        let path = format!("/api/v1/devices/{}/decommission", device.name);
        site.admin().put(&path, &json!({})).expect(200);
        device.name
    });
}

/// A GPU node that is bootstrapped by hand, with requests of its agent.
struct Gpu<'a> {
    site: &'a Site,
    id: String,
    name: String,
    token: String,
    agent: Option<Api>,
}

impl<'a> Gpu<'a> {
    fn announced(site: &'a Site, number: usize) -> Self {
        let name = format!("gpu-{number}");
        let made = site.admin().post("/api/v1/gpu-nodes", &json!({"hostname": name})).expect(201);
        let text = |field: &str| made["data"][field].as_str().unwrap().to_owned();
        Self { site, id: text("id"), token: text("token"), name, agent: None }
    }

    fn enrolled(site: &'a Site, number: usize) -> Self {
        let mut node = Self::announced(site, number);
        let body = json!({"token": node.token});
        let enrolled = site.caller(0, None).post("/api/v1/gpu-nodes/enroll", &body).expect(200);
        node.agent = Some(site.caller(0, enrolled["credential"].as_str()));
        node
    }

    fn active(site: &'a Site, number: usize) -> Self {
        let node = Self::enrolled(site, number);
        wait_for("the node to be active", || {
            node.beat();
            (node.state() == "active").then_some(())
        });
        node
    }

    fn beat(&self) {
        let agent = self.agent.as_ref().unwrap();
        agent.post(&format!("/api/v1/gpu-nodes/{}/heartbeat", self.id), &json!({"checks": []})).expect(200);
    }

    fn state(&self) -> String {
        let node = self.site.admin().get(&format!("/api/v1/gpu-nodes/{}", self.id)).expect(200);
        node["data"]["status"].as_str().unwrap().to_owned()
    }

    fn becomes(self, state: &str) -> Self {
        wait_for(&format!("the node to become {state}"), || (self.state() == state).then_some(()));
        self
    }

    fn asks(self, action: &str) -> Self {
        let path = format!("/api/v1/gpu-nodes/{}/actions/{action}", self.id);
        self.site.admin().post(&path, &json!({"comment": "for a test"})).expect(200);
        self
    }

    fn ends_a_task(self, outcome: &str) -> Self {
        let (agent, path) = (self.agent.as_ref().unwrap(), format!("/api/v1/gpu-nodes/{}/tasks", self.id));
        let task = wait_for("a task", || {
            let claimed = agent.post(&format!("{path}/claim"), &json!({"holder": "agent"})).expect(200);
            claimed["task"].is_object().then(|| claimed["task"].clone())
        });
        let result = json!({"epoch": task["epoch"], "outcome": outcome, "output": "so it was"});
        agent.post(&format!("{path}/{}/result", task["id"].as_str().unwrap()), &result).expect(200);
        self
    }

    /// Waits until its run stands where it will stay.
    fn settles(self) -> String {
        wait_for("the run to settle", || {
            let found = self.site.admin().get(&format!("/api/v1/runs?node_id={}", self.id)).expect(200);
            let run = found["data"].as_array().unwrap().last().cloned()?;
            let stands = run["status"] != "running" && run["status"] != "pending";
            (stands || !run["waiting"].is_null()).then_some(())
        });
        self.name
    }
}

/// Makes a member and gives its name.
type Make = fn(&Site, usize) -> String;

/// How GPU nodes come into their states.
const GPU_NODES: &[(&str, Make)] = &[
    ("bootstrap issued", |site, number| Gpu::announced(site, number).settles()),
    ("enrolling", |site, number| Gpu::enrolled(site, number).becomes("enrolling").settles()),
    ("active", |site, number| Gpu::active(site, number).settles()),
    ("quarantined", |site, number| Gpu::active(site, number).asks("quarantine").settles()),
    ("draining", |site, number| Gpu::active(site, number).asks("retire").becomes("draining").settles()),
    ("draining, refused by its agent", |site, number| {
        let node = Gpu::active(site, number).asks("retire").ends_a_task("refused");
        wait_for("the run to stop", || {
            let run = site.admin().get(&format!("/api/v1/runs?node_id={}", node.id)).expect(200);
            let last = run["data"].as_array().unwrap().last().cloned()?;
            last["status"].as_str().unwrap().starts_with("failed_").then_some(())
        });
        node.settles()
    }),
    ("retired", |site, number| {
        Gpu::active(site, number).asks("retire").ends_a_task("succeeded").becomes("retired").settles()
    }),
    ("removing", |site, number| {
        let node = Gpu::active(site, number).asks("retire").ends_a_task("succeeded").becomes("retired");
        node.asks("remove").becomes("removing").settles()
    }),
];

/// Most of the time is spent waiting for runs, so all states are tried at once.
#[test]
fn of_gpu_nodes_and_their_runs() {
    let site = Site::alone(Backend::Sqlite, &[]);
    std::thread::scope(|scope| {
        for kind in ["gpu-node", "run"] {
            for (of, make) in GPU_NODES {
                let site = &site;
                scope.spawn(move || paste_all(site, kind, of, |number| make(site, number)));
            }
        }
    });
}

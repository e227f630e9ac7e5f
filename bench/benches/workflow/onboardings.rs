//! So many onboardings at once, by the built server, against a MAAS that takes twenty requests a second.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use serde_json::{Value, json};
use wardroom_fakes::maas::{Config, Fake, OverLimit, Pace};

use crate::{client::Connection, server::Server};

/// Requests that the MAAS answers in a second; it refuses more.
const RATE: u32 = 20;
/// How much memory the server may have.
const MEMORY: u64 = 300;

/// Runs them all and prints what it took.
pub(crate) async fn measure(count: usize) {
    let pace = Pace::all(Duration::from_secs(20));
    let over_limit = OverLimit::Refuse;
    let config =
        Config { pace, requests_per_second: Some(RATE), over_limit, record: true, ..Config::default() };
    let maas = Fake::start(config, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_in(folder.path(), &[]);
    std::fs::write(folder.path().join("secrets/maas"), "consumer:token:secret").unwrap();
    let mut admin = Connection::open(server.address, &server.token).await;
    let settings = json!({
        "url": maas.url(), "key": "file:maas", "provisioning_subnet": "provisioning",
        "boot_disk": {"model": "BOSS"}, "hardware_sync": false, "requests_per_second": 19.0,
        "deploys_per_minute": 600.0, "deploys_at_once": 200, "user_data": "{{token}} {{node}}",
        "poll_millis": 10_000,
    });
    post(&mut admin, "/api/v1/sites", &json!({"name": "bench", "settings": settings})).await;
    let began = Instant::now();
    let mut nodes = Vec::new();
    for number in 0..count {
        let mac = format!("52:54:00:00:{:02x}:{:02x}", number / 256, number % 256);
        let body = json!({"hostname": format!("gpu-{number}"), "site": "bench", "macs": [mac]});
        let made = post(&mut admin, "/api/v1/gpu-nodes", &body).await;
        nodes.push(made["data"]["id"].as_str().unwrap().to_owned());
    }
    println!("{count} onboardings accepted after {:.0} s", began.elapsed().as_secs_f64());
    let memory = enrol_all(&maas, &server, count, began).await;
    let took = began.elapsed().as_secs_f64();
    let requests = maas.take_requests().len();
    let mut admin = Connection::open(server.address, &server.token).await;
    let runs = runs_of(&mut admin, &nodes).await;
    let completed = runs.iter().filter(|run| run["status"] == "completed").count();
    println!("{completed} of {count} completed in {took:.0} s, {:.1} a minute", count as f64 * 60.0 / took);
    println!(
        "  requests to MAAS: {requests}, {:.1} for each, {:.1}/s",
        requests as f64 / count as f64,
        requests as f64 / took
    );
    println!("  resident memory of the server: {memory} MB at most (under {MEMORY})");
    let (ahead, stages) = most_ahead(&runs);
    println!("  while a run stood still, no other one advanced by more than {ahead} of {stages} stages");
    let effects = maas.effects();
    let once = |op: &str| maas.machines().iter().all(|id| effects[id].get(op) == Some(&1));
    println!(
        "  created, commissioned and deployed once each: {}",
        once("create") && once("commission") && once("deploy")
    );
    assert_eq!(completed, count);
    assert!(memory < MEMORY && ahead < stages && once("create") && once("commission") && once("deploy"));
}

async fn post(connection: &mut Connection, path: &str, body: &Value) -> Value {
    let (status, answer) = connection.send("POST", path, &body.to_string()).await;
    assert!((200..300).contains(&status), "{path}: {status} {answer}");
    serde_json::from_str(&answer).unwrap()
}

/// Is the agent of every machine: it enrols with what cloud-init gets, and beats until its node is active. Says how much
/// memory the server had at most.
async fn enrol_all(maas: &Fake, server: &Server, count: usize, began: Instant) -> u64 {
    let (mut memory, mut active, mut shown) = (0, 0, Instant::now());
    // By machine: the node and its credential; nothing for one that is done.
    let mut agents = BTreeMap::<String, Option<(String, String)>>::new();
    while active < count {
        tokio::time::sleep(Duration::from_secs(1)).await;
        memory = memory.max(server.resident_megabytes());
        for machine in maas.machines() {
            let data = String::from_utf8(maas.user_data(&machine)).unwrap();
            if let (Some((token, node)), false) = (data.split_once(' '), agents.contains_key(&machine)) {
                // The server closes what is idle for long.
                let mut anybody = Connection::open(server.address, "").await;
                let enrolled = post(&mut anybody, "/api/v1/gpu-nodes/enroll", &json!({"token": token})).await;
                let credential = enrolled["credential"].as_str().unwrap().to_owned();
                agents.insert(machine, Some((node.to_owned(), credential)));
            }
        }
        if shown.elapsed() < Duration::from_secs(5) {
            continue;
        }
        shown = Instant::now();
        for agent in agents.values_mut() {
            let Some((node, credential)) = agent.as_ref() else { continue };
            let mut connection = Connection::open(server.address, credential).await;
            let path = format!("/api/v1/gpu-nodes/{node}/heartbeat");
            if post(&mut connection, &path, &json!({"checks": []})).await["status"] == "active" {
                *agent = None;
                active += 1;
            }
        }
        let (machines, enrolled) = (maas.machines().len(), agents.len());
        let seconds = began.elapsed().as_secs();
        println!("{seconds} s: {machines} created, {enrolled} deployed, {active} active; {memory} MB");
    }
    memory
}

async fn runs_of(admin: &mut Connection, nodes: &[String]) -> Vec<Value> {
    let mut runs = Vec::new();
    for node in nodes {
        let read = async |admin: &mut Connection, path: String| {
            let (status, answer) = admin.send("GET", &path, "").await;
            assert_eq!(status, 200, "{answer}");
            serde_json::from_str::<Value>(&answer).unwrap()["data"].clone()
        };
        let node = read(admin, format!("/api/v1/gpu-nodes/{node}")).await;
        runs.push(read(admin, format!("/api/v1/runs/{}", node["run"].as_str().unwrap())).await);
    }
    runs
}

/// By how many stages any run advanced at most while another one did not advance at all, and how many each has. A run
/// that starves would let others pass all of theirs.
fn most_ahead(runs: &[Value]) -> (usize, usize) {
    let time = |value: &Value| value.as_str().unwrap().parse::<Timestamp>().unwrap();
    let steps: Vec<Vec<_>> = runs
        .iter()
        .map(|run| {
            let attempts = run["attempts"].as_array().unwrap();
            let done = attempts.iter().filter(|attempt| attempt["outcome"] == "done");
            let mut times: Vec<_> = done.map(|attempt| time(&attempt["ended_at"])).collect();
            times.push(time(&run["created_at"]));
            times.sort_unstable();
            times
        })
        .collect();
    let gaps = steps.iter().flat_map(|times| times.windows(2));
    let passed = gaps.flat_map(|gap| {
        steps
            .iter()
            .map(|other| other.partition_point(|at| *at < gap[1]) - other.partition_point(|at| *at <= gap[0]))
    });
    let stages = steps.iter().map(|times| times.len() - 1).max().unwrap_or(0);
    (passed.max().unwrap_or(0), stages)
}

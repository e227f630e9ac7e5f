//! The spine under load, each number beside a baseline of the same run.
//!
//! Starts the binary of the profile `dist` and drives it over HTTP from this process, on the same machine: the load generator
//! is part of what is measured, on both sides of every ratio. PostgreSQL is measured when
//! `WARDROOM_TEST_POSTGRES` names a cluster (`./dev bench` does).

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark panics and prints")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

#[path = "spine/client.rs"]
mod client;
#[path = "spine/clusters.rs"]
mod clusters;
#[path = "spine/members.rs"]
mod members;
#[path = "spine/pages.rs"]
mod pages;
#[path = "spine/raw.rs"]
mod raw;
#[path = "spine/seed.rs"]
mod seed;
#[path = "spine/server.rs"]
mod server;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use server::Server;
use wardroom_bench::say;

/// One thing that is measured.
type Measure = fn(&tokio::runtime::Runtime);

fn main() -> ExitCode {
    if std::env::args().any(|word| word == server::NOOP) {
        server::run_noop();
        return ExitCode::SUCCESS;
    }
    // `cargo bench` passes --bench; other words select what runs.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let measure: [(&str, Measure); 8] = [
        ("transitions", transitions),
        ("postgres", postgres),
        ("get", get),
        ("beats", beats),
        ("fleet", fleet),
        ("clusters", clusters::clusters),
        ("pages", pages::pages),
        ("members", |runtime| members::members(runtime, BEAT)),
    ];
    for (name, run) in measure {
        if wanted.is_empty() || wanted.iter().any(|word| word == name) {
            run(&runtime);
        }
    }
    wardroom_bench::end()
}

/// How long each rate is measured, and how often. The two sides of a ratio take turns, because the machine may have
/// other things to do; each round has its own ratio, and the one in the middle is the result.
const PERIOD: Duration = Duration::from_secs(2);
const ROUNDS: usize = 7;

/// Measures both sides of a ratio in turns; says each round and the one in the middle.
fn compare(name: &str, least: f64, mut ours: impl FnMut() -> f64, mut baseline: impl FnMut() -> f64) {
    let mut rounds = Vec::new();
    for round in 1..=ROUNDS {
        let (theirs, ours) = (baseline(), ours());
        let ratio = ours / theirs;
        println!("  round {round}: {ours:.0}/s, {name}: {theirs:.0}/s, ratio {ratio:.2}");
        rounds.push((ours, theirs, ratio));
    }
    rounds.sort_by(|one, other| one.2.total_cmp(&other.2));
    let (ours, theirs, ratio) = rounds[ROUNDS / 2];
    say(
        ratio >= least,
        &format!("  {ours:.0}/s, {name}: {theirs:.0}/s, ratio {ratio:.2} (at least {least})"),
    );
}

fn transitions(runtime: &tokio::runtime::Runtime) {
    let written = runtime.block_on(seed::written());
    let raw = |together| {
        let folder = tempfile::tempdir().unwrap();
        runtime.block_on(seed::schema(folder.path(), 64));
        raw::transitions(folder.path(), &written, together, PERIOD)
    };
    let ours = || {
        let server = Server::start(&[]);
        runtime.block_on(client::transitions(&server, 64, PERIOD))
    };
    println!("durable transitions over HTTP, SQLite, 64 clients:");
    compare("raw SQLite, 64 of the same rows in one commit", 0.5, ours, || raw(64));
    compare("raw SQLite, one commit each", 1.0, ours, || raw(1));
}

fn postgres(runtime: &tokio::runtime::Runtime) {
    let Ok(admin) = std::env::var("WARDROOM_TEST_POSTGRES") else {
        println!("PostgreSQL: WARDROOM_TEST_POSTGRES is not set, not measured");
        return;
    };
    println!("durable transitions over HTTP, PostgreSQL, 32 clients:");
    let ours = || {
        let database = seed::new_database(&admin);
        let server = Server::start(&["--database-url", &database]);
        runtime.block_on(client::transitions(&server, 32, PERIOD))
    };
    compare("pgbench -N, 32 clients", 0.8, ours, || raw::pgbench(&admin, 32, PERIOD));
}

fn get(runtime: &tokio::runtime::Runtime) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_in(folder.path(), &[]);
    let noop = server::Noop::start();
    let node = runtime.block_on(client::make_nodes(&server, 1)).pop().unwrap();
    let reads =
        |address, path: &str| runtime.block_on(client::reads(address, &server.token, path, 32, PERIOD));
    let ours = || reads(server.address, &format!("/api/v1/nodes/{node}"));
    println!("GET of one node that was changed lately, 32 clients:");
    compare("no-op handler on the same stack", 0.5, ours, || reads(server.address, "/livez"));
    compare("no-op handler on bare axum, no layers", 0.0, ours, || reads(noop.address, "/"));
    // After a start nothing is at hand: every read is one of the file.
    drop(server);
    let server = Server::start_in(folder.path(), &[]);
    let reads = |path: &str| runtime.block_on(client::reads(server.address, &server.token, path, 32, PERIOD));
    println!("GET of one node out of the file, 32 clients:");
    let ours = || reads(&format!("/api/v1/nodes/{node}"));
    compare("no-op handler on the same stack", 0.5, ours, || reads("/livez"));
}

/// What the real client sends.
const BEAT: &str = r#"{"name":"sat","activity":"","state_report_interval":"@every 00h00m30s","latest_state_digest":"","latest_config_digest":"","memory_used_bytes":73400320,"storage_used_bytes":1048576,"cpu_percent":3.5,"request_created_time":"2026-01-01T00:00:00Z","last_sync_duration_ms":0,"image_count":1,"cached_images":[{"reference":"registry/library/alpine:3@sha256:0000000000000000000000000000000000000000000000000000000000000000","size_bytes":352}]}"#;

fn beats(runtime: &tokio::runtime::Runtime) {
    let server = Server::start(&[]);
    let noop = server::Noop::start();
    let callers = runtime.block_on(client::make_satellites(&server, 1000));
    let posts = |address, path: &str| {
        let request = client::Request { method: "POST", path: path.to_owned(), body: BEAT };
        runtime.block_on(client::calls(address, callers.clone(), request, 32, PERIOD))
    };
    println!("POST /satellites/sync by 1,000 satellites with their credentials, 32 keep-alive connections:");
    let ours = || posts(server.address, "/satellites/sync");
    compare("no-op POST of the same JSON on bare axum, no layers", 0.6, ours, || posts(noop.address, "/"));
}

/// 100,000 nodes and 1,000,000 history rows: start, memory, and pages wherever they are.
fn fleet(runtime: &tokio::runtime::Runtime) {
    let folder = tempfile::tempdir().unwrap();
    let began = Instant::now();
    runtime.block_on(seed::fleet(folder.path(), 100_000, 10));
    println!("seeded 100,000 nodes and 1,000,000 history rows in {:.0} s", began.elapsed().as_secs_f64());
    let began = Instant::now();
    let server = Server::start_in(folder.path(), &[]);
    let ready = began.elapsed().as_secs_f64();
    say(ready < 3.0, &format!("ready after {ready:.2} s (under 3)"));
    let page = |query: &str| {
        let path = format!("/api/v1/nodes?limit=100{query}");
        runtime.block_on(client::reads(server.address, &server.token, &path, 4, Duration::from_secs(2)))
    };
    let first = page("");
    let after = |number| wardroom_store::cursor::at("node", &seed::id_of(number));
    let last = page(&format!("&continue={}", after(99_800)));
    println!("pages of 100: first {first:.0}/s, last {last:.0}/s, ratio {:.2}", last / first);
    for (name, query) in [
        ("state", "&state=migrating"),
        ("label", "&labelSelector=rack%3Dr7"),
        ("workflow", "&fieldSelector=workflow_id%3Ddebian"),
        ("group", "&group_id=berlin"),
    ] {
        let (first, last) = (page(query), page(&format!("{query}&continue={}", after(90_000))));
        println!("  with {name}: first {first:.0}/s, late {last:.0}/s, ratio {:.2}", last / first);
    }
    let memory = server.resident_megabytes();
    say(memory < 150, &format!("resident memory: {memory} MB (under 150)"));
}

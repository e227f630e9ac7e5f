//! The workflow engine alone, beside a plain loop that claims and advances rows of the same database.
//!
//! The stages do nothing, so what is measured is what the engine adds: intent, fences, the node, history. The plain
//! loop takes a lease, advances the row under it and writes a row of history, in one transaction per advance.
//! `cargo bench -p wardroom-bench --bench workflow -- onboardings` is another one, which takes a quarter of an hour: a
//! thousand real onboardings by the built server against a MAAS that takes twenty requests a second.
//! PostgreSQL is measured when `WARDROOM_TEST_POSTGRES` names a cluster (`./dev bench` does).

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark panics and prints")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

#[path = "spine/client.rs"]
#[expect(dead_code, reason = "shared with another benchmark, which needs more of it")]
mod client;
#[path = "workflow/engine.rs"]
mod engine;
#[path = "workflow/onboardings.rs"]
mod onboardings;
#[path = "workflow/raw.rs"]
mod raw;
#[path = "spine/server.rs"]
#[expect(dead_code, reason = "shared with another benchmark, which needs more of it")]
mod server;
#[path = "../../crates/workflow/tests/suite/subject.rs"]
mod subject;

use std::time::Duration;

use wardroom_store::Location;

/// Runs that are executed.
const RUNS: usize = 1000;
/// How long the plain loop is measured.
const PERIOD: Duration = Duration::from_secs(5);
/// Connections of the plain loop on PostgreSQL; SQLite has one writer.
const CLIENTS: usize = 16;

fn main() -> std::process::ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if let Some(at) = std::env::args().position(|argument| argument == "onboardings") {
        let count = std::env::args().nth(at + 1).and_then(|count| count.parse().ok()).unwrap_or(1000);
        runtime.block_on(onboardings::measure(count));
        return wardroom_bench::end();
    }
    runtime.block_on(sqlite());
    runtime.block_on(postgres());
    wardroom_bench::end()
}

async fn sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Sqlite { dir: folder.path().to_owned() };
    let ours = engine::advances(&location, RUNS).await;
    let raw = raw::sqlite(folder.path(), PERIOD);
    report("SQLite", ours, raw);
}

async fn postgres() {
    let Ok(admin) = std::env::var("WARDROOM_TEST_POSTGRES") else {
        println!("PostgreSQL: WARDROOM_TEST_POSTGRES is not set, not measured");
        return;
    };
    let url = raw::new_database(&admin).await;
    let ours = engine::advances(&Location::Postgres { url: url.clone() }, RUNS).await;
    let raw = raw::postgres(&url, CLIENTS, PERIOD).await;
    report("PostgreSQL", ours, raw);
}

fn report(database: &str, ours: f64, raw: f64) {
    println!("stages advanced by the engine, {database}, {RUNS} onboardings at once: {ours:.0}/s");
    let ratio = ours / raw;
    let what = format!("  plain loop of claim and advance: {raw:.0}/s, ratio {ratio:.2} (at least 0.5)");
    wardroom_bench::say(ratio >= 0.5, &what);
}

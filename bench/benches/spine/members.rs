//! Many satellites that all beat: what they cost in memory, and how fast they are answered.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use sha2::{Digest as _, Sha256};
use wardroom_bench::say;
use wardroom_store::{Change, Content, Document, Entry, Location, Store};

use crate::{client, server::Server};

/// How many, unless `WARDROOM_BENCH_MEMBERS` says otherwise; the bound is for a million.
const MEMBERS: usize = 100_000;
const MOST_MEGABYTES: f64 = 1024.0;

/// What a server needs that has no members.
const EMPTY_MEGABYTES: f64 = 100.0;

pub(crate) fn members(runtime: &tokio::runtime::Runtime, body: &'static str) {
    let count = std::env::var("WARDROOM_BENCH_MEMBERS").ok().and_then(|text| text.parse().ok());
    let count = count.unwrap_or(MEMBERS);
    let folder = tempfile::tempdir().unwrap();
    let began = Instant::now();
    runtime.block_on(seed(folder.path(), count));
    println!("seeded {count} satellites in {:.0} s", began.elapsed().as_secs_f64());
    let server = Server::start_in(folder.path(), &[]);
    let megabytes = |what: &str| {
        let now = settled(&server);
        println!("{what}: {now} MB resident");
        now as f64
    };
    megabytes("loaded");
    let callers: Vec<String> = (0..count).map(authorization).collect();
    for round in ["once", "twice"] {
        let rate = runtime.block_on(client::each(server.address, &callers, body, 32));
        println!("every member has beaten {round}: {rate:.0}/s");
        megabytes("  then");
    }
    let whole = megabytes("in the end");
    let of_million = EMPTY_MEGABYTES + (whole - EMPTY_MEGABYTES).max(0.0) * 1e6 / count as f64;
    say(
        of_million < MOST_MEGABYTES,
        &format!(
            "resident memory with 1,000,000 members: {of_million:.0} MB by this run (under {MOST_MEGABYTES:.0})"
        ),
    );
}

/// The memory of the server once it does not change any more.
fn settled(server: &Server) -> u64 {
    let mut last = 0;
    loop {
        std::thread::sleep(Duration::from_secs(4));
        let now = server.resident_megabytes();
        if now.abs_diff(last) <= 1 {
            return now;
        }
        last = now;
    }
}

async fn seed(folder: &Path, count: usize) {
    let store = Store::open(&Location::Sqlite { dir: folder.to_owned() }).await.unwrap();
    let all: Vec<usize> = (0..count).collect();
    for some in all.chunks(5_000) {
        for committed in store.commit_all(some.iter().map(|number| registered(*number)).collect()).await {
            committed.unwrap();
        }
    }
}

fn secret(number: usize) -> String {
    format!("Wr1{number:020}")
}

fn authorization(number: usize) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("robot$sat-{number}:{}", secret(number))))
}

/// A satellite with a credential, as it is stored once it has registered.
fn registered(number: usize) -> Change {
    let mut hash = Sha256::new();
    hash.update(b"wardroom/satellite/1");
    hash.update(secret(number));
    let hash = BASE64_URL_SAFE_NO_PAD.encode(hash.finalize());
    let at = jiff::Timestamp::from_second(1_700_000_000).unwrap();
    let document = serde_json::json!({
        "epoch": 1,
        "heartbeat_interval": "@every 00h00m30s",
        "credential": {"epoch": 1, "hash": hash, "issued_at": at},
    });
    let name = format!("sat-{number}");
    let after = Content {
        kind: "satellite".to_owned(),
        id: format!("01920000-0000-7000-8000-{number:012}"),
        state: "online".to_owned(),
        document: Document::of(&document).unwrap(),
        labels: BTreeMap::from([("zone".to_owned(), format!("zone-{}", number % 100))]),
        fields: BTreeMap::from([("name".to_owned(), name.clone())]),
        keys: [format!("name/{name}")].into(),
        due_at: None,
        deleted: false,
        name,
    };
    let entry = Entry {
        entry_type: "registered".to_owned(),
        triggered_by: "system".to_owned(),
        user_id: None,
        comment: None,
        metadata: serde_json::Value::Null,
        request_id: None,
        at,
    };
    Change { before: None, after, entry, effects: Vec::new(), fence: None, holds: Vec::new() }
}

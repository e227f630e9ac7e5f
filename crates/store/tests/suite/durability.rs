//! What was acknowledged survives the death of its process.
use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use wardroom_store::{Location, Rows, Store, verify};

use crate::sample;

const FOLDER: &str = "WARDROOM_TEST_CHILD_FOLDER";
const ROUNDS: usize = 5;
const WRITERS: usize = 16;

/// The victim: many writers, each telling what was acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "killed_writers_lose_nothing runs it in a process of its own"]
async fn child() {
    let dir = std::env::var_os(FOLDER).unwrap().into();
    let store = Store::open(&Location::Sqlite { dir }).await.unwrap();
    let mut writers = tokio::task::JoinSet::new();
    for number in 1..=WRITERS {
        writers.spawn(write_for_ever(store.clone(), number));
    }
    writers.join_all().await;
}

#[expect(clippy::print_stdout, reason = "the parent reads it")]
async fn write_for_ever(store: Store, number: usize) {
    let mut resource = match store.get("node", &sample::id(number)).await.unwrap() {
        Some(resource) => resource,
        None => sample::created(&store, number).await,
    };
    loop {
        let state = format!("state-{}", resource.version);
        resource = sample::moved(&store, &resource, &state).await.resource;
        println!("acknowledged {number} {}", resource.version);
    }
}

#[tokio::test]
async fn killed_writers_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Sqlite { dir: folder.path().to_owned() };
    let mut acknowledged: HashMap<usize, i64> = HashMap::new();
    for round in 0..ROUNDS {
        run_and_kill(folder.path(), 200 + 150 * round, &mut acknowledged);
        assert_eq!(verify(&location, None, &[]).await.unwrap().fault, None);
        let store = Store::open(&location).await.unwrap();
        for (number, version) in &acknowledged {
            let found = store.get("node", &sample::id(*number)).await.unwrap().unwrap();
            assert!(
                found.version >= *version,
                "node {number}: {version} was acknowledged, found {}",
                found.version
            );
            let total = store.history("node", &sample::id(*number), Rows::All, 1, 0).await.unwrap().1;
            assert_eq!(total, found.version);
        }
    }
}

/// Kills the child after some acknowledgements; what it said before counts, also what is still in the pipe.
fn run_and_kill(folder: &std::path::Path, after: usize, acknowledged: &mut HashMap<usize, i64>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "durability::child", "--ignored", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut count = 0;
    for line in lines {
        let line = line.unwrap();
        let Some((_, said)) = line.split_once("acknowledged ") else { continue };
        // The last line may have been cut by the kill.
        let Some((number, version)) = said.split_once(' ') else { continue };
        if let (Ok(number), Ok(version)) = (number.parse(), version.parse::<i64>()) {
            let known = acknowledged.entry(number).or_default();
            *known = version.max(*known);
        }
        count += 1;
        if count == after {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(count >= after, "the child ended by itself after {count}");
}

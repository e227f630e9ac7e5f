//! The fake Kubernetes, held to recorded answers of a real API server: each request is sent again, in order.

#![cfg(feature = "kubernetes")]
#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]
#![expect(clippy::print_stdout, reason = "a test says what it leaves out")]

use std::path::PathBuf;

use serde_json::{Value, json};
use wardroom_fakes::kubernetes::{Kubernetes, Options, Order, Outcome};

/// Recordings whose status depends on how far the real controllers were at that moment.
const RACED: &[u64] = &[16, 18, 19, 20, 21];

/// Before these the real controllers had no time to look.
const AT_ONCE: &[u64] = &[13, 39, 40];

/// Seconds passed before these, which the order of managed fields shows.
const LATER: &[u64] = &[37, 41];

fn transcript() -> Option<Vec<Value>> {
    let default = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    let folder = std::env::var_os("WARDROOM_CONTRACT_DATA").map_or(default, PathBuf::from);
    let Ok(text) = std::fs::read_to_string(folder.join("kubernetes-transcript.jsonl")) else {
        println!("kubernetes-transcript.jsonl is not there: nothing is checked against it");
        return None;
    };
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// Replaces everything that is different in each cluster and at each time.
fn normal(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                let is_time = name == "time" || name.ends_with("Timestamp") || name.ends_with("Time");
                if (is_time || matches!(name.as_str(), "uid" | "resourceVersion" | "continue"))
                    && value.is_string()
                {
                    *value = json!("some");
                }
                normal(value);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(normal),
        Value::String(text) => {
            // The hash of a template in the name of its ReplicaSet.
            if let Some(at) = text.find("controller-").filter(|_| !text.contains("kube-")) {
                let end = text[at..].find('"').map_or(text.len(), |end| at + end);
                text.replace_range(at..end, "controller-hash");
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Brings the fake's answer into the form that the recording keeps.
fn recorded_form(number: u64, answer: Value) -> Value {
    let names = |list: &Value| -> Vec<Value> {
        list.as_array().unwrap().iter().map(|item| item["metadata"]["name"].clone()).collect()
    };
    match number {
        15 => {
            let items = answer["items"].as_array().unwrap().iter().map(|item| {
                let metadata = &item["metadata"];
                json!({"metadata": {"name": metadata["name"], "ownerReferences": metadata["ownerReferences"]},
                    "status": item["status"]})
            });
            json!({"items": items.collect::<Vec<_>>()})
        }
        27 | 28 | 30 => {
            let mut answer = answer;
            answer["items"] = json!(names(&answer["items"]));
            answer
        }
        37 => answer["metadata"].clone(),
        _ => answer,
    }
}

/// Checks lists of groups and resources, of which only some were recorded.
fn check_discovery(title: &str, ours: &Value, theirs: &Value) {
    let list = if ours["groups"].is_array() { "groups" } else { "resources" };
    let mut compared = 0;
    for entry in ours[list].as_array().unwrap() {
        let Some(real) = theirs[list].as_array().unwrap().iter().find(|real| real["name"] == entry["name"])
        else {
            continue;
        };
        let mut real = real.clone();
        real.as_object_mut().unwrap().remove("storageVersionHash");
        assert_eq!(*entry, real, "{title}");
        compared += 1;
    }
    assert!(compared >= 4, "{title}: {compared}");
}

/// Checks the events of a watch: of the first all, of the second their order.
fn check_watch(title: &str, text: &str, mut theirs: Value) {
    let mut events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    if title == "watch for 2 s" {
        normal(&mut events[0]);
        normal(&mut theirs);
        assert_eq!(events[0], theirs, "{title}");
        return;
    }
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[0], "ADDED", "{title}");
    assert!(kinds[1..].iter().all(|kind| *kind == "MODIFIED") && kinds.len() > 5, "{title}: {kinds:?}");
}

#[tokio::test]
async fn contract_of_kubernetes() {
    let Some(transcript) = transcript() else { return };
    let token = Some("right".to_owned());
    let fake = Kubernetes::start(Options { token, controllers: None, ..Options::default() }).await.unwrap();
    fake.order(Order {
        kind: "Deployment".to_owned(),
        namespace: None,
        name: None,
        outcome: Outcome::Stall,
        after_ms: 0,
    });
    let client = reqwest::Client::new();
    // The version that the recorded watch goes on from.
    let mut version = String::new();
    let mut seen = 0;
    for line in &transcript {
        let (number, title) = (line["n"].as_u64().unwrap(), line["title"].as_str().unwrap());
        if LATER.contains(&number) {
            fake.advance(5);
        }
        if title == "is being deleted" {
            // The real controllers had got no further than this.
            fake.reconcile_once();
        } else if !AT_ONCE.contains(&number) {
            fake.reconcile();
        }
        let path = line["path"]
            .as_str()
            .unwrap()
            .replace("resourceVersion=247", &format!("resourceVersion={version}"));
        let token = if title == "wrong token" { "wrong" } else { "right" };
        let method = line["method"].as_str().unwrap().parse().unwrap();
        let mut request = client.request(method, format!("{}{path}", fake.url())).bearer_auth(token);
        if !line["request"].is_null() {
            request = request
                .header("content-type", line["content_type"].as_str().unwrap())
                .body(line["request"].to_string());
        }
        let is_watch = path.contains("watch=1");
        let response = if is_watch && !path.contains("resourceVersion=abc") {
            let wait = async {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                fake.reconcile();
            };
            tokio::join!(request.send(), wait).0.unwrap()
        } else {
            request.send().await.unwrap()
        };
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        let label = format!("{number} {title}: {text}");
        assert_eq!(json!(status), line["status"], "{label}");
        seen += 1;
        let mut theirs = line["response"].clone();
        if is_watch && status == 200 {
            check_watch(title, &text, theirs);
            continue;
        }
        let ours: Value = serde_json::from_str(&text).unwrap();
        if number == 31 {
            version = ours["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        }
        if (2..=4).contains(&number) {
            check_discovery(title, &ours, &theirs);
            continue;
        }
        let mut ours = recorded_form(number, ours);
        normal(&mut ours);
        normal(&mut theirs);
        if RACED.contains(&number) {
            ours["status"].take();
            theirs["status"].take();
        }
        assert_eq!(ours, theirs, "{number} {title}");
    }
    println!("{seen} recorded answers were compared");
    assert!(seen > 40);
}

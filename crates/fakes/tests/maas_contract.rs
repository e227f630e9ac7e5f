//! Replays recorded answers of a real MAAS against the fake: every status and operation, and a life from `New` to deleted.

#![cfg(feature = "maas")]
#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]
#![expect(clippy::print_stdout, reason = "a test says what it leaves out")]

use std::{collections::BTreeMap, path::PathBuf};

use jiff::Timestamp;
use reqwest::{Client, Method};
use serde_json::Value;
use wardroom_core::gpu_node::maas::STATUSES;
use wardroom_fakes::maas::{Change, Config, Fake, Seed};

/// Rows of the matrix that the fake does not reproduce. This list may only shrink.
const MATRIX_EXCEPTIONS: &[(&str, &str)] = &[];

/// Rows of the transcript whose answer differs in more than what belongs to the recorded site. This list may only shrink.
const TRANSCRIPT_EXCEPTIONS: &[(u64, &str)] =
    &[(30, "the fake keeps one set of results with one script, not the history of every script")];

fn recorded(file: &str) -> Option<Vec<Value>> {
    let default = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    let folder = std::env::var_os("WARDROOM_CONTRACT_DATA").map_or(default, PathBuf::from);
    let Ok(text) = std::fs::read_to_string(folder.join(file)) else {
        println!("{file} is not there: nothing is replayed");
        return None;
    };
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

struct Maas {
    fake: Fake,
    client: Client,
    nonce: std::cell::Cell<u32>,
}

struct Reply {
    status: u16,
    kind: String,
    body: Value,
}

impl Maas {
    async fn start() -> Self {
        let fake = Fake::start(Config::default(), "127.0.0.1:0".parse().unwrap()).await.unwrap();
        Self { fake, client: Client::new(), nonce: std::cell::Cell::new(0) }
    }

    fn authorization(&self, key: [&str; 3]) -> String {
        self.nonce.set(self.nonce.get() + 1);
        format!(
            "OAuth oauth_version=\"1.0\", oauth_signature_method=\"PLAINTEXT\", oauth_consumer_key=\"{}\", \
             oauth_token=\"{}\", oauth_signature=\"%26{}\", oauth_nonce=\"{}\", oauth_timestamp=\"{}\"",
            key[0],
            key[1],
            key[2],
            self.nonce.get(),
            now().as_second()
        )
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        form: &[(String, String)],
        key: Option<[&str; 3]>,
    ) -> Reply {
        let url = format!("http://{}{path}", self.fake.address());
        let mut request = self.client.request(Method::from_bytes(method.as_bytes()).unwrap(), url);
        if let Some(key) = key {
            request = request.header("authorization", self.authorization(key));
        }
        if method != "GET" {
            let mut body = String::new();
            for (name, value) in form {
                body += &format!("--B\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
            }
            let kind = "multipart/form-data; boundary=B";
            request = request.header("content-type", kind).body(body + "--B--\r\n");
        }
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let kind = response.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
        let text = response.text().await.unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Reply { status, kind: kind.unwrap_or_default(), body }
    }

    async fn call(&self, method: &str, path: &str, form: &[(&str, &str)]) -> Reply {
        let form: Vec<_> =
            form.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.send(method, &format!("/MAAS/api/2.0/{path}"), &form, Some(KEY)).await
    }
}

const KEY: [&str; 3] = ["consumer", "token", "secret"];

#[expect(clippy::disallowed_methods, reason = "the fake checks the time of a request")]
fn now() -> Timestamp {
    Timestamp::now()
}

#[tokio::test]
async fn contract_of_every_operation_in_every_status() {
    let Some(rows) = recorded("maas-op-matrix.jsonl") else { return };
    let maas = Maas::start().await;
    let mut wrong = Vec::new();
    for row in &rows {
        let (status, op) = (row["status_name"].as_str().unwrap(), row["op"].as_str().unwrap());
        let difference = replay(&maas, row).await;
        let excepted = MATRIX_EXCEPTIONS.contains(&(status, op));
        match difference {
            Some(difference) if !excepted => wrong.push(format!("{op} in {status}: {difference}")),
            None if excepted => wrong.push(format!("{op} in {status} is right now: take it off the list")),
            _ => {}
        }
    }
    assert!(rows.len() >= 23 * 20, "all of the matrix is there: {}", rows.len());
    assert!(wrong.is_empty(), "{} rows differ:\n{}", wrong.len(), wrong.join("\n"));
    println!("replayed {} rows, {} exceptions", rows.len(), MATRIX_EXCEPTIONS.len());
}

/// Returns the difference from a recorded row, if any.
async fn replay(maas: &Maas, row: &Value) -> Option<String> {
    let status = STATUSES[usize::try_from(row["status"].as_i64().unwrap()).unwrap()];
    let id = maas.fake.seed(&Seed { configured: true, ..Seed::default() });
    assert!(maas.fake.change(&id, &Change { status: Some(status), ..Change::default() }));
    let op = row["op"].as_str().unwrap();
    let interfaces = maas.call("GET", &format!("nodes/{id}/interfaces/"), &[]).await;
    let machine = format!("machines/{id}/");
    let reply = match op {
        "delete" => maas.call("DELETE", &machine, &[]).await,
        "update tags/desc" => maas.call("PUT", &machine, &[("description", "x")]).await,
        "op-allocate" => maas.call("POST", "machines/op-allocate", &[("system_id", &id)]).await,
        "op-release erase" => maas.call("POST", &format!("{machine}op-release"), &[("erase", "true")]).await,
        "op-set_storage_layout" => {
            maas.call("POST", &format!("{machine}{op}"), &[("storage_layout", "flat")]).await
        }
        "link_subnet" => {
            let path = format!("nodes/{id}/interfaces/{}/op-link_subnet", interfaces.body[0]["id"]);
            maas.call("POST", &path, &[("mode", "AUTO"), ("subnet", "1")]).await
        }
        _ => maas.call(row["method"].as_str().unwrap(), &format!("{machine}{op}"), &[]).await,
    };
    let after = maas.call("GET", &machine, &[]).await;
    let after = if after.status == 404 { "(gone)".into() } else { after.body["status_name"].clone() };
    let error = if reply.status < 300 {
        Value::Null
    } else {
        let text = reply.body.as_str().map_or_else(|| reply.body.to_string(), str::to_owned);
        text.replace(&id, "<system_id>").into()
    };
    let expected_error = row["error"].as_str().map_or(Value::Null, |text| {
        // Their JSON has spaces that ours lacks.
        let json: Option<Value> = serde_json::from_str(text).ok();
        json.map_or_else(|| text.to_owned(), |json| json.to_string()).into()
    });
    let ours = [reply.status.into(), reply.kind.into(), after, reply.body["status_name"].clone(), error];
    let theirs = [
        row["http"].clone(),
        row["content_type"].clone(),
        row["status_after"].clone(),
        row["response_status_name"].clone(),
        expected_error,
    ];
    (ours != theirs).then(|| format!("{ours:?} instead of {theirs:?}"))
}

#[tokio::test]
async fn contract_of_a_life_from_new_to_deleted() {
    let Some(rows) = recorded("maas-transcript.jsonl") else { return };
    let maas = Maas::start().await;
    let mut ids = BTreeMap::new();
    let mut wrong = Vec::new();
    for row in &rows {
        let seq = row["seq"].as_u64().unwrap();
        let reply = repeat(&maas, row, &ids).await;
        learn(seq, &reply.body, &mut ids);
        let mut differences = Vec::new();
        let recorded = &row["response"];
        if recorded["status"] != reply.status {
            differences.push(format!("status {} instead of {}", reply.status, recorded["status"]));
        }
        if recorded["headers"]["Content-Type"] != reply.kind {
            differences.push(format!("{} instead of {}", reply.kind, recorded["headers"]["Content-Type"]));
        }
        compare("", &recorded["body"], &reply.body, &ids, &mut differences);
        let excepted = TRANSCRIPT_EXCEPTIONS.iter().any(|(number, _)| *number == seq);
        if differences.is_empty() == excepted {
            let which = format!("{seq} ({})", row["note"].as_str().unwrap());
            wrong.push(match differences.len() {
                0 => format!("{which} is right now: take it off the list"),
                _ => format!("{which}:\n    {}", differences.join("\n    ")),
            });
        }
    }
    assert!(rows.len() >= 95, "all of the transcript is there: {}", rows.len());
    assert!(wrong.is_empty(), "{} rows differ:\n{}", wrong.len(), wrong.join("\n"));
    println!("replayed {} rows, exceptions: {TRANSCRIPT_EXCEPTIONS:?}", rows.len());
}

type Ids = BTreeMap<String, String>;

async fn repeat(maas: &Maas, row: &Value, ids: &Ids) -> Reply {
    let (request, note) = (&row["request"], row["note"].as_str().unwrap());
    let mut path = ours(request["path"].as_str().unwrap(), ids);
    if let Some(query) = request["query"].as_object() {
        let pairs: Vec<_> = query
            .iter()
            .map(|(name, value)| {
                format!("{name}={}", ours(value.as_str().unwrap_or(&value.to_string()), ids))
            })
            .collect();
        path = format!("{path}?{}", pairs.join("&"));
    }
    let mut form = Vec::new();
    for (name, value) in request["form"].as_object().into_iter().flatten() {
        let values = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
        for value in values {
            let value = value.as_str().unwrap();
            let number = ["root_device", "id"].contains(&name.as_str());
            let value = if number || value == "abc123" { id_of(value, ids) } else { value.to_owned() };
            form.push((name.clone(), value));
        }
    }
    let key = match (request["auth"].as_str(), note) {
        (None, _) => None,
        (_, "unknown consumer key") => Some(["who", "token", "secret"]),
        (_, "unknown token") => Some(["consumer", "bbbbbbbbbbbbbbbbbb", "secret"]),
        (_, "wrong token secret") => Some(["consumer", "token", "wrong"]),
        _ => Some(KEY),
    };
    maas.send(request["method"].as_str().unwrap(), &path, &form, key).await
}

/// Their ids are not ours; where one is first shown, remember which is which.
fn learn(seq: u64, body: &Value, ids: &mut Ids) {
    let mut know = |theirs: &str, ours: &Value| {
        let ours = ours.as_str().map_or_else(|| ours.to_string(), str::to_owned);
        ids.insert(theirs.to_owned(), ours);
    };
    match seq {
        12 => {
            know("abc123", &body["system_id"]);
            know("wd4xdg", &body["system_id"]);
            know("97", &body["interface_set"][0]["id"]);
            know("98", &body["interface_set"][1]["id"]);
        }
        35 => know("32", &body["id"]),
        36 => know("33", &body["id"]),
        46 => know("49", &body["links"][0]["id"]),
        47 => know("50", &body["links"][1]["id"]),
        _ => {}
    }
}

fn id_of(theirs: &str, ids: &Ids) -> String {
    ids.get(theirs).cloned().unwrap_or_else(|| theirs.to_owned())
}

/// A path or a text with our ids in the place of theirs.
fn ours(text: &str, ids: &Ids) -> String {
    let parts = text.split('/').map(|part| id_of(part, ids));
    let text = parts.collect::<Vec<_>>().join("/");
    let id = id_of("abc123", ids);
    text.replace("abc123", &id).replace("wd4xdg", &id)
}

/// Fields of the recorded site or moment: compared by their type only.
const OF_THE_SITE: &[&str] = &[
    "id",
    "uuid",
    "device_id",
    "resource_uri",
    "cidr",
    "gateway_ip",
    "dns_servers",
    "disabled_boot_architectures",
    "ip_address",
    "created",
    "last_sync",
    "next_sync",
    "next_uri",
    "prev_uri",
    "version",
    "current_commissioning_result_id",
    "current_installation_result_id",
];

fn compare(path: &str, theirs: &Value, ours_: &Value, ids: &Ids, differences: &mut Vec<String>) {
    match (theirs, ours_) {
        (Value::Object(theirs), Value::Object(ours_)) => {
            for key in theirs.keys().filter(|key| !ours_.contains_key(*key)) {
                differences.push(format!("{path}.{key} is missing"));
            }
            for (key, value) in ours_ {
                match theirs.get(key) {
                    None => differences.push(format!("{path}.{key} is not in the recording")),
                    Some(_) if path.ends_with("subnet") && key == "name" => {}
                    Some(expected) if OF_THE_SITE.contains(&key.as_str()) => {
                        if kind(expected) != kind(value) {
                            differences.push(format!("{path}.{key} is {value} instead of {expected}"));
                        }
                    }
                    Some(expected) => compare(&format!("{path}.{key}"), expected, value, ids, differences),
                }
            }
        }
        (Value::Array(theirs), Value::Array(ours_)) => {
            // The recorded site has one subnet; ours has one more to plug fabrics into.
            let subnets = theirs.first().is_some_and(|first| !first["cidr"].is_null());
            if theirs.len() != ours_.len() && !subnets {
                differences.push(format!("{path} has {} entries instead of {}", ours_.len(), theirs.len()));
            }
            for (at, (theirs, ours_)) in theirs.iter().zip(ours_).enumerate() {
                let path = if subnets { "subnet".to_owned() } else { format!("{path}[{at}]") };
                compare(&path, theirs, ours_, ids, differences);
            }
        }
        (Value::String(expected), Value::String(value)) => {
            let expected = expected.replace("<token_secret>", "secret");
            let expected = if expected.contains("'32', '33'") {
                expected.replace("'32', '33'", &format!("'{}', '{}'", id_of("32", ids), id_of("33", ids)))
            } else {
                ours(&expected, ids)
            };
            if expected != *value {
                differences.push(format!("{path} is {value:?} instead of {expected:?}"));
            }
        }
        _ if theirs != ours_ => differences.push(format!("{path} is {ours_} instead of {theirs}")),
        _ => {}
    }
}

fn kind(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

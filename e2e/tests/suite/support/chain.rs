//! The chain of history, recomputed from the API; and the result of `wardroom audit verify`.

use std::{collections::BTreeMap, process::Command};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{
    http::Api,
    site::{Site, binary},
};

/// Every row of history, oldest first for each resource.
pub(crate) fn all_rows(api: &Api) -> BTreeMap<(String, String), Vec<Value>> {
    let mut rows: BTreeMap<_, Vec<Value>> = BTreeMap::new();
    let mut path = "/api/v1/history?limit=1000".to_owned();
    for _ in 0..10_000 {
        let page = api.get(&path).expect(200);
        for row in page["data"].as_array().unwrap() {
            let text = |field: &str| row[field].as_str().unwrap().to_owned();
            rows.entry((text("kind"), text("resource_id"))).or_default().push(row.clone());
        }
        match page["continue"].as_str() {
            Some(next) => path = format!("/api/v1/history?limit=1000&continue={next}"),
            None => break,
        }
    }
    for rows in rows.values_mut() {
        rows.sort_by_key(|row| row["sequence"].as_i64());
    }
    rows
}

/// Sequences have no gaps, and each row is sealed over the one before.
pub(crate) fn verify(rows: &BTreeMap<(String, String), Vec<Value>>) {
    for (resource, rows) in rows {
        let mut previous = String::new();
        for (index, row) in rows.iter().enumerate() {
            assert_eq!(row["sequence"], index + 1, "{resource:?}: a gap before {row}");
            assert_eq!(row["hash"], seal(row, &previous), "{resource:?}: a broken chain at {row}");
            if index > 0 {
                assert_eq!(row["from_state"], rows[index - 1]["to_state"], "{resource:?}: a jump at {row}");
            }
            previous = row["hash"].as_str().unwrap().to_owned();
        }
    }
}

fn seal(row: &Value, previous: &str) -> String {
    let mut hash = Sha256::new();
    let mut text = |text: &str| {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    };
    text("wardroom/history/1");
    text(previous);
    text(row["kind"].as_str().unwrap());
    text(row["resource_id"].as_str().unwrap());
    hash.update(row["sequence"].as_i64().unwrap().to_be_bytes());
    let created_at: jiff::Timestamp = row["created_at"].as_str().unwrap().parse().unwrap();
    let metadata = Some(row["metadata"].to_string()).filter(|_| !row["metadata"].is_null());
    let given = |field: &str| row[field].as_str().map(str::to_owned);
    let parts = [
        (true, given("type")),
        (false, given("from_state")),
        (true, given("to_state")),
        (true, given("triggered_by")),
        (false, given("user_id")),
        (false, given("comment")),
        (false, metadata),
        (false, given("request_id")),
        (true, Some(format!("{created_at:.6}"))),
    ];
    for (required, part) in parts {
        if !required {
            hash.update([u8::from(part.is_some())]);
        }
        if let Some(part) = part {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns whether history verifies, and the output, if this program has the command.
pub(crate) fn audit(site: &Site) -> Option<(bool, String)> {
    let help = Command::new(binary()).arg("--help").output().unwrap();
    if !String::from_utf8_lossy(&help.stdout).contains("audit") {
        return None;
    }
    let mut command = Command::new(binary());
    command.args(["audit", "verify"]);
    match site.database.url() {
        Some(url) => command.args(["--database-url", url]),
        None => command.arg("--data-dir").arg(site.data_dir(0)),
    };
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

/// All of history is as it was written.
pub(crate) fn verify_all(site: &Site) {
    verify(&all_rows(&site.admin()));
    if let Some((verified, said)) = audit(site) {
        assert!(verified, "audit verify: {said}");
    }
}

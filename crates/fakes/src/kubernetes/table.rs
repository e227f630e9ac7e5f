//! Objects as a table, the form in which `kubectl get` asks for them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::kinds::Kind;

/// Returns an object or a list as a table of names, states and ages.
pub(super) fn of(kind: &Kind, document: &Value, now: Timestamp) -> Value {
    let items = document["items"].as_array().cloned().unwrap_or_else(|| vec![document.clone()]);
    let columns = columns(kind);
    let mut definitions = vec![json!({"name": "Name", "type": "string", "format": "name", "priority": 0})];
    definitions.extend(
        columns.iter().map(|(name, _)| json!({"name": name, "type": "string", "format": "", "priority": 0})),
    );
    definitions.push(json!({"name": "Age", "type": "string", "format": "", "priority": 0}));
    let rows: Vec<_> = items
        .into_iter()
        .map(|mut item| {
            let metadata = item["metadata"].clone();
            let mut cells = vec![metadata["name"].clone()];
            cells.extend(columns.iter().map(|(_, cell)| json!(cell(&item))));
            cells.push(json!(age(&metadata["creationTimestamp"], now)));
            item = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
            json!({"cells": cells, "object": item})
        })
        .collect();
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": document["metadata"],
        "columnDefinitions": definitions, "rows": rows})
}

/// Returns the time since an object was created, in its largest unit.
fn age(created: &Value, now: Timestamp) -> String {
    let created: Option<Timestamp> = created.as_str().and_then(|time| time.parse().ok());
    let seconds = created.map_or(0, |created| now.duration_since(created).as_secs().max(0));
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

type Column = (&'static str, fn(&Value) -> String);

fn columns(kind: &Kind) -> Vec<Column> {
    fn number(value: &Value) -> i64 {
        value.as_i64().unwrap_or(0)
    }
    match kind.kind.as_str() {
        "Namespace" | "Pod" => {
            vec![("Status", |object| object["status"]["phase"].as_str().unwrap_or("").to_owned())]
        }
        "Deployment" => vec![
            ("Ready", |object| {
                format!(
                    "{}/{}",
                    number(&object["status"]["readyReplicas"]),
                    number(&object["spec"]["replicas"])
                )
            }),
            ("Up-to-date", |object| number(&object["status"]["updatedReplicas"]).to_string()),
            ("Available", |object| number(&object["status"]["availableReplicas"]).to_string()),
        ],
        "Job" => vec![("Completions", |object| {
            format!("{}/{}", number(&object["status"]["succeeded"]), number(&object["spec"]["completions"]))
        })],
        "ConfigMap" | "Secret" => {
            vec![("Data", |object| object["data"].as_object().map_or(0, serde_json::Map::len).to_string())]
        }
        _ => Vec::new(),
    }
}

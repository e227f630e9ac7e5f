//! Documents of files, each with the resource that it describes, in the order in which they can be applied.

use std::{collections::HashMap, fmt, iter::successors};

use clap::ValueEnum as _;
use serde_json::Value;

use crate::{
    document::{self, Document},
    kind::Kind,
};

/// What a document describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) kind: String,
    pub(crate) name: String,
}

impl Subject {
    /// Its kind, as other commands take it.
    pub(crate) fn kind(&self) -> anyhow::Result<Kind> {
        Kind::from_str(&self.kind, false).map_err(|_| anyhow::anyhow!(unknown(&self.kind)))
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

/// The documents with what they describe, in the order in which they can be applied.
pub(crate) fn subjects(documents: Vec<Document>) -> anyhow::Result<Vec<(Subject, Document)>> {
    let subject = |mut document: Document| {
        let kind = document.remove("kind");
        let kind = kind.as_ref().and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
        anyhow::ensure!(APPLIED.contains(&kind.as_str()), unknown(&kind));
        let name = match kind.as_str() {
            "node" => document.get("mac_address").and_then(Value::as_str).unwrap_or_default().to_owned(),
            _ => document::name(&document),
        };
        Ok((Subject { kind, name }, document))
    };
    ordered(documents).into_iter().map(subject).collect()
}

/// The kinds that documents describe.
const APPLIED: [&str; 10] = [
    "workflow",
    "group",
    "node",
    "site",
    "satellite-group",
    "satellite-config",
    "cluster",
    "nodepool",
    "fleet",
    "device",
];

/// Sorts documents by their references: groups from the top of their tree, nodes last.
fn ordered(mut documents: Vec<Document>) -> Vec<Document> {
    let text = |document: &Document, field| document.get(field).and_then(Value::as_str).map(str::to_owned);
    let kind = |document: &Document| text(document, "kind").unwrap_or_default();
    let groups = documents.iter().filter(|document| kind(document) == "group");
    let parents: HashMap<_, _> =
        groups.map(|group| (document::name(group), text(group, "parent_id"))).collect();
    let depth = |group: &Document| {
        let above = successors(text(group, "parent_id"), |parent| parents.get(parent).cloned().flatten());
        // A cycle has no top; the server refuses it.
        above.take(parents.len()).count()
    };
    documents.sort_by_cached_key(|document| match kind(document).as_str() {
        "group" => (1, depth(document)),
        "node" | "nodepool" | "NodePool" => (2, 0),
        _ => (0, 0),
    });
    documents
}

/// Says which kinds there are, and how others are made.
pub(crate) fn unknown(kind: &str) -> String {
    let kinds = "kind: workflow, group, node, site, cluster, nodepool, fleet, device, satellite-group or satellite-config";
    match kind {
        "" => format!("every document needs {kinds}"),
        "gpu-node" => "GPU nodes are registered, not applied: `wardroom gpu-node create HOSTNAME`".to_owned(),
        "satellite" => "satellites are created, not applied: `wardroom satellite create NAME`".to_owned(),
        kind => format!("{kind:?} cannot be applied; a document has {kinds}"),
    }
}

//! Data to measure with, written through the store.

use std::path::Path;

use jiff::Timestamp;
use serde_json::json;
use wardroom_store::{Change, Content, Entry, Location, Resource, Store};

/// Ids are in the order of numbers, as UUIDv7s are in the order of time.
pub(crate) fn id_of(number: usize) -> String {
    format!("01900000-0000-7000-8000-{number:012x}")
}

fn node(number: usize, state: &str) -> Content {
    let mac = format!("02:{:02x}:{:02x}:{:02x}:00:00", number >> 16 & 255, number >> 8 & 255, number & 255);
    let fields = [("mac_address", mac.as_str()), ("workflow_id", "debian"), ("group_id", "berlin")];
    let document = json!({
        "mac_address": mac, "hostname": null, "ip_address": "10.0.0.7", "vendor": "ACME", "model": "R640",
        "serial_number": format!("S{number}"), "system_uuid": null, "workflow_id": "debian", "group_id": "berlin",
        "install_attempts": 0, "install_progress": 100, "last_install_error": null, "counted_attempts": [],
        "install_round": 1, "approved_by_group": null, "last_install_report": null
    });
    Content {
        kind: "node".to_owned(),
        id: id_of(number),
        name: mac.clone(),
        state: state.to_owned(),
        document: wardroom_store::Document::of(&document).unwrap(),
        labels: [("rack".to_owned(), format!("r{}", number % 100))].into(),
        fields: fields.map(|(field, value)| (field.to_owned(), value.to_owned())).into(),
        keys: [mac].into(),
        deleted: false,
        due_at: None,
    }
}

fn entry(entry_type: &str) -> Entry {
    Entry {
        entry_type: entry_type.to_owned(),
        triggered_by: "admin".to_owned(),
        user_id: Some("bench".to_owned()),
        comment: None,
        metadata: serde_json::Value::Null,
        request_id: Some("01900000-0000-7000-8000-000000000000".to_owned()),
        at: Timestamp::UNIX_EPOCH,
    }
}

async fn commit_all(store: &Store, changes: Vec<Change>) -> Vec<Resource> {
    store.commit_all(changes).await.into_iter().map(|committed| committed.unwrap().resource).collect()
}

/// A fleet of nodes with so many rows of history each.
pub(crate) async fn fleet(folder: &Path, nodes: usize, rows: usize) {
    let store = Store::open(&Location::Sqlite { dir: folder.to_owned() }).await.unwrap();
    for first in (0..nodes).step_by(5_000) {
        let change = |number| Change {
            before: None,
            after: node(number, "active"),
            entry: entry("registered"),
            effects: Vec::new(),
            fence: None,
            holds: vec![],
        };
        let mut resources = commit_all(&store, (first..first + 5_000).map(change).collect()).await;
        for row in 1..rows {
            let state = if row % 2 == 1 { "migrating" } else { "active" };
            let changes = resources.into_iter().map(|before| Change {
                after: Content { state: state.to_owned(), ..before.content.clone() },
                before: Some(before),
                entry: entry("transition"),
                effects: Vec::new(),
                fence: None,
                holds: vec![],
            });
            resources = commit_all(&store, changes.collect()).await;
        }
    }
}

/// The columns that one transition of a node writes, as the store writes them.
pub(crate) struct Written {
    pub(crate) document: String,
    pub(crate) head: String,
}

pub(crate) async fn written() -> Written {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&Location::Sqlite { dir: folder.path().to_owned() }).await.unwrap();
    let change = Change {
        before: None,
        after: node(1, "active"),
        entry: entry("registered"),
        effects: Vec::new(),
        fence: None,
        holds: vec![],
    };
    let resource = store.commit(change).await.unwrap().resource;
    Written { document: resource.content.document.as_str().to_owned(), head: resource.head }
}

/// Makes the schema, and the nodes that raw transitions move.
pub(crate) async fn schema(folder: &Path, nodes: usize) {
    let store = Store::open(&Location::Sqlite { dir: folder.to_owned() }).await.unwrap();
    let change = |number| Change {
        before: None,
        after: node(number, "active"),
        entry: entry("registered"),
        effects: Vec::new(),
        fence: None,
        holds: vec![],
    };
    commit_all(&store, (0..nodes).map(change).collect()).await;
}

/// A fresh database in the cluster; says its URL.
pub(crate) fn new_database(admin: &str) -> String {
    let name = format!("bench_{}", std::process::id());
    for command in [format!("DROP DATABASE IF EXISTS {name}"), format!("CREATE DATABASE {name}")] {
        crate::raw::run("psql", &[admin, "-q", "-c", &command]);
    }
    let (server, _) = admin.rsplit_once('/').unwrap();
    format!("{server}/{name}")
}

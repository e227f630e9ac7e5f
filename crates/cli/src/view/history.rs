//! Rows of history in columns, with the names that people know resources by.

use std::collections::{BTreeMap, BTreeSet};

use clap::ValueEnum as _;
use futures_util::{StreamExt as _, stream};
use serde::Serialize;
use wardroom_api::{client::Client, history::Row};

use super::{Resource, View};
use crate::{
    kind::{Kind, with_type},
    locate::is_id,
    table::{
        Column,
        Level::{Narrow, Wide},
        column, or_none,
    },
    text::time,
};

/// A row as people read it; programs get the row alone.
#[derive(Serialize)]
#[serde(transparent)]
pub(crate) struct NamedRow {
    row: Row,
    #[serde(skip)]
    name: Option<String>,
}

/// Rows of one resource, which is named already.
pub(crate) fn unnamed(rows: Vec<Row>) -> Vec<NamedRow> {
    rows.into_iter().map(|row| NamedRow { row, name: None }).collect()
}

/// The names of resources. History has only their ids, because it outlives them; each name is fetched once.
pub(crate) struct Names {
    client: Client,
    known: BTreeMap<(String, String), Option<String>>,
    are_shown: bool,
}

/// How many names are fetched at a time.
const AT_ONCE: usize = 8;

/// How many names are kept.
const MOST: usize = 10_000;

impl Names {
    /// Names, if the format has a place for them: only tables do.
    pub(crate) fn new(client: &Client, are_shown: bool) -> Self {
        Self { client: client.clone(), known: BTreeMap::new(), are_shown }
    }

    /// Notes the name by which the caller found a resource: for a deleted one it cannot be fetched.
    pub(crate) fn learn(&mut self, row: &Row, called: &str) {
        if row.resource_id != called {
            self.known.insert(key(row), Some(called.to_owned()));
        }
    }

    /// Returns the rows with the current names.
    pub(crate) async fn name_rows(&mut self, rows: Vec<Row>) -> Vec<NamedRow> {
        if !self.are_shown {
            return unnamed(rows);
        }
        // A change may have renamed the resource.
        let renamed = rows.iter().filter(|row| row.type_ == "changed");
        renamed.for_each(|row| drop(self.known.remove(&key(row))));
        let asked = rows.iter().filter(|row| said(row).is_none() && row.kind != Kind::Token.as_str());
        let wanted = asked.map(key).filter(|key| !self.known.contains_key(key));
        let wanted: BTreeMap<_, Option<String>> = wanted.map(|key| (key, None)).collect();
        let client = &self.client;
        let found = stream::iter(wanted.into_keys()).map(|(kind, id)| async move {
            let name = name_of(client, &kind, &id).await;
            ((kind, id), name)
        });
        let found: Vec<_> = found.buffer_unordered(AT_ONCE).collect().await;
        // A long-lived follower meets more resources than fit.
        if self.known.len() + found.len() > MOST {
            let told: BTreeSet<_> = rows.iter().map(key).collect();
            self.known.retain(|key, _| told.contains(key));
        }
        self.known.extend(found);
        let named = |row: Row| {
            let name = said(&row).or_else(|| self.known.get(&key(&row)).cloned().flatten());
            NamedRow { name, row }
        };
        rows.into_iter().map(named).collect()
    }
}

/// Returns the name in a row about a token. Most readers of history may not list tokens, and a refused read would be
/// recorded.
fn said(row: &Row) -> Option<String> {
    let name = row.metadata["name"].as_str().filter(|_| row.kind == Kind::Token.as_str());
    name.map(str::to_owned)
}

fn key(row: &Row) -> (String, String) {
    (row.kind.clone(), row.resource_id.clone())
}

/// Returns the name of a resource, if it exists and the caller may read it.
async fn name_of(client: &Client, kind: &str, id: &str) -> Option<String> {
    let kind = Kind::from_str(kind, false).ok()?;
    with_type!(kind, T => T::find(client, id).await.ok().and_then(|item: T| named(&item)))
}

/// Returns what people call a resource, if that is not its id.
fn named<T: Resource>(item: &T) -> Option<String> {
    Some(item.title()).filter(|title| !is_id(title)).map(str::to_owned)
}

impl View for NamedRow {
    #[rustfmt::skip]
    const COLUMNS: &'static [Column<Self>] = &[
        column("TIME",     Narrow, |NamedRow { row, .. }, _| time(row.created_at)),
        column("RESOURCE", Narrow, |NamedRow { row, .. }, _| format!("{}/{}", row.kind, row.resource_id)),
        column("NAME",     Narrow, |told, _| or_none(told.name.as_deref())),
        column("SEQ",      Narrow, |NamedRow { row, .. }, _| row.sequence.to_string()),
        column("TYPE",     Narrow, |NamedRow { row, .. }, _| row.type_.clone()),
        column("FROM",     Narrow, |NamedRow { row, .. }, _| or_none(row.from_state.as_deref())),
        column("TO",       Narrow, |NamedRow { row, .. }, _| row.to_state.clone()),
        column("BY",       Narrow, |NamedRow { row, .. }, _| by(row)),
        column("COMMENT",  Narrow, |NamedRow { row, .. }, _| or_none(comment(row).as_deref())),
        column("REQUEST",  Wide,   |NamedRow { row, .. }, _| or_none(row.request_id.as_deref())),
        column("DETAILS",  Wide,   |NamedRow { row, .. }, _| if row.metadata.is_null() { or_none(None) } else { row.metadata.to_string() }),
        column("CURSOR",   Wide,   |NamedRow { row, .. }, _| or_none(Some(&row.cursor))),
    ];

    const USUAL: &'static [usize] = &[20, 46, 15, 3, 10, 14, 14, 19];

    fn name(&self) -> String {
        self.row.id.clone()
    }
}

/// Returns the mode, the comment and the skipped stages with their reasons; without these, the outcome and its evidence.
fn comment(row: &Row) -> Option<String> {
    let skipped = row.metadata["skip"].as_object().into_iter().flatten();
    let skipped = skipped.filter_map(|(stage, why)| Some(format!("skips {stage}: {}", why.as_str()?)));
    let mode = row.metadata["mode"].as_str().map(|mode| format!("mode {mode}"));
    let said: Vec<_> = mode.into_iter().chain(row.comment.iter().cloned()).chain(skipped).collect();
    if !said.is_empty() {
        return Some(said.join("; "));
    }
    let seen = |name: &str| row.metadata[name].as_str();
    let why = seen("evidence").or_else(|| seen("reason")).or_else(|| seen("error"));
    // A row of a run is about a stage.
    let stage: Vec<_> = [seen("stage"), seen("outcome")].into_iter().flatten().collect();
    let told: Vec<_> = [stage.join(" ")].into_iter().chain(why.map(str::to_owned)).collect();
    let told: Vec<_> = told.into_iter().filter(|part| !part.is_empty()).collect();
    (!told.is_empty()).then(|| told.join(": "))
}

/// Returns the cause of a row, with its user if there is one.
fn by(row: &Row) -> String {
    match &row.user_id {
        Some(user) => format!("{} ({user})", row.triggered_by),
        None => row.triggered_by.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use wardroom_api::history::Row;

    use super::{MOST, Names, comment};

    /// An unknown kind has no names to fetch, so this needs no server.
    #[tokio::test]
    async fn so_many_names_are_kept_and_no_more() {
        let (server, token, certificates, timeout) = ("http://127.0.0.1:1".to_owned(), None, None, None);
        let options = wardroom_api::client::Options { server, token, certificates, timeout, warned: None };
        let mut names = Names::new(&wardroom_api::client::Client::new(&options).unwrap(), true);
        let row = |number: usize| -> Row {
            let row = json!({
                "id": "1", "cursor": "c", "kind": "nothing", "resource_id": number.to_string(), "sequence": 1,
                "type": "attempt", "to_state": "s", "triggered_by": "system", "metadata": null,
                "created_at": "2026-01-01T00:00:00Z", "hash": "",
            });
            serde_json::from_value(row).unwrap()
        };
        for page in 0..=MOST / 500 {
            let rows: Vec<_> = (0..500).map(|number| row(page * 500 + number)).collect();
            assert_eq!(names.name_rows(rows).await.len(), 500);
            assert!(names.known.len() <= MOST, "{}", names.known.len());
        }
        assert!(!names.known.is_empty());
    }

    #[test]
    fn a_row_says_what_happened() {
        let row = |said: Option<&str>, metadata: Value| -> Row {
            let row = json!({
                "id": "1", "cursor": "c", "kind": "run", "resource_id": "r", "sequence": 1, "type": "attempt",
                "to_state": "running", "triggered_by": "workflow", "comment": said, "metadata": metadata,
                "created_at": "2026-01-01T00:00:00Z", "hash": "",
            });
            serde_json::from_value(row).unwrap()
        };
        let check = |said, metadata, expected: Option<&str>| {
            assert_eq!(comment(&row(said, metadata)).as_deref(), expected);
        };
        check(None, json!({"attempt": 3, "error": "no disk"}), Some("no disk"));
        check(Some("again"), json!({"error": "no disk"}), Some("again"));
        let failed = json!({"stage": "deploy_node", "outcome": "failed", "evidence": "504"});
        check(None, failed, Some("deploy_node failed: 504"));
        check(None, json!({"stage": "deploy_node", "outcome": "done"}), Some("deploy_node done"));
        check(None, json!({"event": "claim", "stage": "deploy_node"}), Some("deploy_node"));
        check(Some("back"), json!({"mode": "keep"}), Some("mode keep; back"));
        check(None, json!({"event": "refreshed", "mode": "keep"}), Some("mode keep"));
        check(None, Value::Null, None);
    }
}

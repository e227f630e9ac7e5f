//! Rows of history in columns.

use wardroom_api::history::Row;

use super::View;
use crate::{
    table::{
        Column,
        Level::{Narrow, Wide},
        column, or_none,
    },
    text::time,
};

impl View for Row {
    #[rustfmt::skip]
    const COLUMNS: &'static [Column<Self>] = &[
        column("TIME",     Narrow, |row, _| time(row.created_at)),
        column("RESOURCE", Narrow, |row, _| format!("{}/{}", row.kind, row.resource_id)),
        column("SEQ",      Narrow, |row, _| row.sequence.to_string()),
        column("TYPE",     Narrow, |row, _| row.type_.clone()),
        column("FROM",     Narrow, |row, _| or_none(row.from_state.as_deref())),
        column("TO",       Narrow, |row, _| row.to_state.clone()),
        column("BY",       Narrow, |row, _| by(row)),
        column("COMMENT",  Narrow, |row, _| or_none(comment(row).as_deref())),
        column("REQUEST",  Wide,   |row, _| or_none(row.request_id.as_deref())),
        column("DETAILS",  Wide,   |row, _| if row.metadata.is_null() { or_none(None) } else { row.metadata.to_string() }),
        column("CURSOR",   Wide,   |row, _| or_none(Some(&row.cursor))),
    ];

    const USUAL: &'static [usize] = &[20, 46, 3, 10, 14, 14, 19];

    fn name(&self) -> String {
        self.id.clone()
    }
}

/// What somebody said; the stages that somebody had skipped, with their reasons; or what was done, and what was seen.
fn comment(row: &Row) -> Option<String> {
    let skipped = row.metadata["skip"].as_object().into_iter().flatten();
    let skipped = skipped.filter_map(|(stage, why)| Some(format!("skips {stage}: {}", why.as_str()?)));
    let said: Vec<_> = row.comment.iter().cloned().chain(skipped).collect();
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

/// Who, for people; otherwise what caused it.
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

    use super::comment;

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
        check(None, Value::Null, None);
    }
}

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

/// What somebody said; the stages that somebody had skipped, with their reasons; or what was seen.
fn comment(row: &Row) -> Option<String> {
    let skipped = row.metadata["skip"].as_object().into_iter().flatten();
    let skipped = skipped.filter_map(|(stage, why)| Some(format!("skips {stage}: {}", why.as_str()?)));
    let said: Vec<_> = row.comment.iter().cloned().chain(skipped).collect();
    if !said.is_empty() {
        return Some(said.join("; "));
    }
    let seen = |name: &str| row.metadata[name].as_str().map(str::to_owned);
    seen("evidence").or_else(|| seen("reason"))
}

/// Who, for people; otherwise what caused it.
fn by(row: &Row) -> String {
    match &row.user_id {
        Some(user) => format!("{} ({user})", row.triggered_by),
        None => row.triggered_by.clone(),
    }
}

//! Tables of stable columns, for people and for `awk`.

use std::{collections::BTreeMap, str::FromStr};

use jiff::Timestamp;
use unicode_width::UnicodeWidthStr as _;
use wardroom_core::{gpu_node, node, run, satellite, table::State};

use crate::{output, text};

/// When a column is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Always.
    Narrow,
    /// With `-o wide`.
    Wide,
    /// When one resource is described.
    Full,
}

/// One column: its head, when it is shown, and its text for a resource.
pub(crate) struct Column<T> {
    pub(crate) head: &'static str,
    pub(crate) level: Level,
    pub(crate) cell: fn(&T, Timestamp) -> String,
}

/// Writes a column in the order it is read.
pub(crate) const fn column<T>(
    head: &'static str,
    level: Level,
    cell: fn(&T, Timestamp) -> String,
) -> Column<T> {
    Column { head, level, cell }
}

/// The text of a cell without a value.
pub(crate) const NONE: &str = "<none>";

/// A text that may be absent.
pub(crate) fn or_none(text: Option<&str>) -> String {
    text.filter(|text| !text.is_empty()).unwrap_or(NONE).to_owned()
}

/// Labels, as selectors write them.
pub(crate) fn labels(labels: &BTreeMap<String, String>) -> String {
    let labels: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    or_none(Some(&labels.join(",")))
}

/// Whether the names of the columns are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heads {
    Shown,
    Hidden,
}

/// A table that is written row by row; columns are as wide as the widest cell so far.
pub(crate) struct Writer {
    widths: Vec<usize>,
    state: Option<usize>,
    colour: bool,
}

impl Writer {
    /// Writes heads and the first rows.
    pub(crate) fn start(heads: &[&str], rows: &[Vec<String>], shown: Heads) -> anyhow::Result<Self> {
        Self::start_with(heads, rows, shown, &[])
    }

    /// The same, with minimal widths of columns.
    pub(crate) fn start_with(
        heads: &[&str],
        rows: &[Vec<String>],
        shown: Heads,
        least: &[usize],
    ) -> anyhow::Result<Self> {
        let width = |head: &&str| if shown == Heads::Shown { head.width() } else { 0 };
        let least = least.iter().copied().chain(std::iter::repeat(0));
        let widths = heads.iter().zip(least).map(|(head, least)| width(head).max(least)).collect();
        let rows: Vec<Vec<String>> = rows.iter().map(|row| cleaned(row)).collect();
        let state = heads.iter().position(|head| *head == "STATE");
        let mut writer = Self { widths, state, colour: output::is_coloured() };
        rows.iter().for_each(|row| writer.widen(row));
        let mut text = String::new();
        if shown == Heads::Shown {
            let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
            text.push_str(&writer.render(&heads));
        }
        for row in &rows {
            text.push_str(&writer.render(row));
        }
        output::print(&text)?;
        Ok(writer)
    }

    /// Writes one more row; the rows after it are as wide.
    pub(crate) fn row(&mut self, row: &[String]) -> anyhow::Result<()> {
        let row = cleaned(row);
        self.widen(&row);
        output::print(&self.render(&row))
    }

    fn widen(&mut self, row: &[String]) {
        for (width, cell) in self.widths.iter_mut().zip(row) {
            *width = cell.width().max(*width);
        }
    }

    fn render(&self, row: &[String]) -> String {
        let mut line = String::new();
        for (index, cell) in row.iter().enumerate() {
            let padding = self.widths.get(index).copied().unwrap_or_default().saturating_sub(cell.width());
            match tone(cell).filter(|_| self.colour && self.state == Some(index)) {
                Some(tone) => line.push_str(&format!("\u{1b}[{tone}m{cell}\u{1b}[0m")),
                None => line.push_str(cell),
            }
            if index + 1 < row.len() {
                line.push_str(&" ".repeat(padding + 3));
            }
        }
        line.push('\n');
        line
    }
}

fn cleaned(row: &[String]) -> Vec<String> {
    row.iter().map(|cell| text::clean(cell)).collect()
}

/// The colour of a state of any lifecycle; the same name has the same colour in all of them.
fn tone(state: &str) -> Option<&'static str> {
    tone_in::<node::State>(state)
        .or_else(|| tone_in::<gpu_node::State>(state))
        .or_else(|| tone_in::<satellite::State>(state))
        .or_else(|| tone_in::<run::State>(state))
}

/// Green in service, grey at its end, red when failed, yellow in transition.
fn tone_in<S: State + FromStr>(state: &str) -> Option<&'static str> {
    let state: S = state.parse().ok()?;
    Some(if S::SERVICE.contains(&state) {
        "32"
    } else if S::TERMINAL.contains(&state) {
        "90"
    } else if state.as_str().contains("failed") || matches!(state.as_str(), "quarantined" | "revoked") {
        "31"
    } else {
        "33"
    })
}

//! Tables of stable columns, for people and for `awk`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use unicode_width::UnicodeWidthStr as _;
use wardroom_core::tone::{self, Tone};

use crate::{
    colour::{self, Paint},
    output, text,
};

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
#[derive(Clone)]
pub(crate) struct Writer {
    widths: Vec<usize>,
    state: Option<usize>,
    tones: Tones,
    marked: bool,
    paint: Paint,
}

impl Writer {
    /// Writes heads and the first rows.
    pub(crate) fn start(heads: &[&str], rows: &[Vec<String>], shown: Heads) -> anyhow::Result<Self> {
        let tones = if heads.first() == Some(&"KIND") { Tones::ByRow } else { Tones::None };
        Self::start_with(heads, rows, shown, tones, &[])
    }

    /// The same, with tones of states and minimal widths of columns.
    pub(crate) fn start_with(
        heads: &[&str],
        rows: &[Vec<String>],
        shown: Heads,
        tones: Tones,
        least: &[usize],
    ) -> anyhow::Result<Self> {
        let width = |head: &&str| if shown == Heads::Shown { head.width() } else { 0 };
        let least = least.iter().copied().chain(std::iter::repeat(0));
        let widths = heads.iter().zip(least).map(|(head, least)| width(head).max(least)).collect();
        let state = heads.iter().position(|head| *head == "STATE");
        let (marked, paint) = (colour::is_terminal(), colour::of_output());
        let mut writer = Self { widths, state, tones, marked, paint };
        let rows: Vec<Vec<String>> = rows.iter().map(|row| writer.cells(row)).collect();
        rows.iter().for_each(|row| writer.widen(row));
        let mut text = String::new();
        if shown == Heads::Shown {
            let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
            text.push_str(&Self { tones: Tones::None, ..writer.clone() }.render(&heads));
        }
        for row in &rows {
            text.push_str(&writer.render(row));
        }
        output::print(&text)?;
        Ok(writer)
    }

    /// Writes more rows in one piece; the rows after them are as wide.
    pub(crate) fn rows(&mut self, rows: &[Vec<String>]) -> anyhow::Result<()> {
        let rows: Vec<_> = rows.iter().map(|row| self.cells(row)).collect();
        rows.iter().for_each(|row| self.widen(row));
        output::print(&rows.iter().map(|row| self.render(row)).collect::<String>())
    }

    fn widen(&mut self, row: &[String]) {
        for (width, cell) in self.widths.iter_mut().zip(row) {
            *width = cell.width().max(*width);
        }
    }

    /// Returns the cells without control characters. On a terminal a state has its mark, so that colour is never alone.
    fn cells(&self, row: &[String]) -> Vec<String> {
        let mut cells: Vec<_> = row.iter().map(|cell| text::clean(cell)).collect();
        if let Some((at, tone)) = self.tone(row).filter(|_| self.marked) {
            cells[at].insert_str(0, &format!("{} ", tone.mark()));
        }
        cells
    }

    fn tone(&self, row: &[String]) -> Option<(usize, Tone)> {
        let at = self.state?;
        let cell = row.get(at)?;
        let word = cell
            .split_once(' ')
            .filter(|(mark, _)| mark.chars().count() == 1)
            .map_or(&**cell, |(_, state)| state);
        Some((at, self.tones.of(row, word)?))
    }

    fn render(&self, row: &[String]) -> String {
        let mut line = String::new();
        let toned = self.tone(row);
        for (index, cell) in row.iter().enumerate() {
            let padding = self.widths.get(index).copied().unwrap_or_default().saturating_sub(cell.width());
            match toned.filter(|(at, _)| *at == index) {
                Some((_, tone)) => line.push_str(&self.paint.toned(tone, cell)),
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

/// The tone of a state in a table: of the row's kind, where a column names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tones {
    /// States have none.
    None,
    /// All rows are of this kind.
    Of(&'static str),
    /// The first column is the kind, or begins with it.
    ByRow,
}

impl Tones {
    /// Returns the tone of a cell such as `pending (refresh)`.
    fn of(self, row: &[String], cell: &str) -> Option<Tone> {
        let kind = match self {
            Self::None => return None,
            Self::Of(kind) => kind,
            Self::ByRow => row.first()?.split('/').next()?,
        };
        let state = cell.split(' ').next().unwrap_or_default();
        Some(if state == "deleted" { Tone::Over } else { tone::of(kind, state) })
    }
}

#[cfg(test)]
mod tests {
    use wardroom_core::tone::Tone;

    use super::Tones;

    #[test]
    fn a_state_has_the_tone_of_its_kind() {
        let check = |tones: Tones, cell: &str, expected| {
            assert_eq!(tones.of(&["node".to_owned()], cell), expected, "{cell}");
        };
        check(Tones::Of("satellite"), "pending (refresh)", Some(Tone::Wait));
        check(Tones::Of("node"), "deleted (was retired)", Some(Tone::Over));
        check(Tones::ByRow, "install_failed", Some(Tone::Bad));
        check(Tones::Of("token"), "expired", Some(Tone::Over));
        check(Tones::None, "active", None);
    }
}

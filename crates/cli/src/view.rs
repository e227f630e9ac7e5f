//! How resources are fetched and written: one file with one table of columns for each kind.

use jiff::Timestamp;
use serde::Serialize;
use wardroom_api::{
    Page,
    client::{Client, NodeQuery},
};
use wardroom_server::clock::Clock;

use crate::{
    kind::Kind,
    output::{self, Format},
    table::{Column, Heads, Level, Writer},
    text,
};

mod group;
pub(crate) mod history;
pub(crate) mod node;
pub(crate) mod satellite;
mod token;
mod workflow;

/// Something with columns.
pub(crate) trait View: Serialize + Sized + 'static {
    /// The columns, in the order they are written.
    const COLUMNS: &'static [Column<Self>];

    /// What `-o name` writes.
    fn name(&self) -> String;
}

/// A resource that commands get by its kind.
pub(crate) trait Resource: View {
    /// The kind.
    const KIND: Kind;

    /// The id.
    fn id(&self) -> &str;

    /// One page; only nodes can be selected by more than limit and cursor.
    async fn page(client: &Client, query: &NodeQuery) -> anyhow::Result<Page<Self>>;

    /// One resource, by its id.
    async fn find(client: &Client, id: &str) -> anyhow::Result<Self>;

    /// Whether a selection covers this resource; what cannot be selected is always covered.
    async fn is_selected(&self, _client: &Client, _query: &NodeQuery) -> anyhow::Result<bool> {
        Ok(true)
    }
}

/// `-o` and `--no-headers`.
#[derive(clap::Args, Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// How the result is written.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Format,
    /// Leave the line with the names of the columns out.
    #[arg(long)]
    no_headers: bool,
}

/// Whether all there is is written at once, or more comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Whole,
    Stream,
}

/// Writes resources as they come.
pub(crate) struct Printer {
    format: Format,
    table: Option<Writer>,
}

impl Printer {
    /// Writes what there is.
    pub(crate) fn start<T: View>(shape: Shape, mode: Mode, items: &[T]) -> anyhow::Result<Self> {
        let format = shape.output;
        let mut printer = Self { format, table: None };
        match (format, mode) {
            (Format::Table | Format::Wide, _) => {
                if items.is_empty() && mode == Mode::Whole {
                    output::note("nothing found");
                    return Ok(printer);
                }
                let heads: Vec<_> = columns::<T>(level(format)).map(|column| column.head).collect();
                let now = Clock.now();
                let rows: Vec<_> = items.iter().map(|item| cells(item, level(format), now)).collect();
                let shown = if shape.no_headers { Heads::Hidden } else { Heads::Shown };
                printer.table = Some(Writer::start(&heads, &rows, shown)?);
            }
            (Format::Json, Mode::Whole) => output::json(&items)?,
            (Format::Yaml, Mode::Whole) => output::yaml(&items)?,
            (Format::Json | Format::Yaml, Mode::Stream) | (Format::Name, _) => {
                items.iter().try_for_each(|item| printer.add(item))?;
            }
        }
        Ok(printer)
    }

    /// Writes one more.
    pub(crate) fn add<T: View>(&self, item: &T) -> anyhow::Result<()> {
        match (self.format, &self.table) {
            (Format::Table | Format::Wide, Some(table)) => {
                table.row(&cells(item, level(self.format), Clock.now()))
            }
            (Format::Table | Format::Wide, None) => Ok(()),
            (Format::Json, _) => output::json_line(item),
            (Format::Yaml, _) => {
                output::line("---")?;
                output::yaml(item)
            }
            (Format::Name, _) => output::line(&item.name()),
        }
    }

    /// Writes that one is there no longer.
    pub(crate) fn gone(&self, kind: Kind, id: &str, how: Gone) -> anyhow::Result<()> {
        let id = text::clean(id);
        let (said, mark) = match how {
            Gone::Deleted => ("deleted", "deleted"),
            Gone::Left => ("is no longer selected", "left_selection"),
        };
        let marked = serde_json::json!({"id": id, mark: true});
        match self.format {
            Format::Table | Format::Wide | Format::Name => {
                output::line(&format!("{}/{id} {said}", kind.as_str()))
            }
            Format::Json => output::json_line(&marked),
            Format::Yaml => {
                output::line("---")?;
                output::yaml(&marked)
            }
        }
    }
}

/// How a resource goes out of a watched list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gone {
    Deleted,
    Left,
}

/// Writes one resource by itself.
pub(crate) fn print_one<T: View>(shape: Shape, item: &T) -> anyhow::Result<()> {
    match shape.output {
        Format::Json => output::json(item),
        Format::Yaml => output::yaml(item),
        Format::Table | Format::Wide | Format::Name => {
            Printer::start(shape, Mode::Whole, std::slice::from_ref(item)).map(drop)
        }
    }
}

/// The columns up to a level.
pub(crate) fn columns<T: View>(level: Level) -> impl Iterator<Item = &'static Column<T>> {
    T::COLUMNS.iter().filter(move |column| column.level <= level)
}

fn cells<T: View>(item: &T, level: Level, now: Timestamp) -> Vec<String> {
    columns::<T>(level).map(|column| (column.cell)(item, now)).collect()
}

fn level(format: Format) -> Level {
    if format == Format::Wide { Level::Wide } else { Level::Narrow }
}

/// How something that was just made is told.
#[derive(clap::Args, Debug, Clone, Copy)]
pub(crate) struct Made {
    /// Write what was made in this format; otherwise only its name.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
}

/// Tells what was made.
pub(crate) fn print_made<T: View>(made: &Made, item: &T) -> anyhow::Result<()> {
    match made.output {
        Some(output) => print_one(Shape { output, no_headers: false }, item),
        None => output::line(&format!("{} created", text::clean(&item.name()))),
    }
}

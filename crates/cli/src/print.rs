//! Writes resources as they come, a page at a time: what is written is not kept.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use wardroom_server::platform::clock::Clock;

use crate::{
    format::{self, Chosen, Shown},
    kind::Kind,
    locate::Target,
    output::{self, Format},
    table::{Heads, Level, NONE, Tones, Writer},
    text,
    view::{View, columns},
};

/// `-o` and `--no-headers`.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct Shape {
    /// The output format.
    #[arg(short, long, value_parser = format::Parser, default_value = "table", value_name = "FORMAT")]
    pub(crate) output: Shown,
    /// Omit the line with the column names.
    #[arg(long)]
    no_headers: bool,
}

impl Shape {
    /// Whether names are looked up for people.
    pub(crate) fn is_table(&self) -> bool {
        matches!(self.output, Shown::As(Format::Table | Format::Wide))
    }
}

/// Whether all rows are written at once, or more follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Whole,
    Stream,
}

/// What happened to a resource of a watched list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Added,
    Modified,
}

/// Why a resource leaves a watched list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gone {
    Deleted,
    Left,
}

/// Writes resources as they come.
pub(crate) struct Printer {
    shape: Shape,
    mode: Mode,
    /// Whether each row says what happened.
    events: bool,
    written: usize,
    table: Option<Writer>,
}

impl Printer {
    /// Writes nothing yet.
    pub(crate) fn new(shape: &Shape, mode: Mode) -> Self {
        Self { shape: shape.clone(), mode, events: false, written: 0, table: None }
    }

    /// The same, with the event before each resource.
    pub(crate) fn with_events(self, events: bool) -> Self {
        Self { events, ..self }
    }

    /// Writes all resources of a list that is there as a whole.
    pub(crate) fn whole<T: View>(shape: &Shape, items: &[T]) -> anyhow::Result<()> {
        let mut printer = Self::new(shape, Mode::Whole);
        printer.page(items)?;
        printer.end()
    }

    /// Writes a page, in one piece.
    pub(crate) fn page<T: View>(&mut self, items: &[T]) -> anyhow::Result<()> {
        let now = Clock.now();
        match (&self.shape.output, self.mode) {
            (Shown::As(Format::Table | Format::Wide) | Shown::Chosen(_), _) => {
                if items.is_empty() && self.mode == Mode::Whole {
                    return Ok(());
                }
                let rows = items.iter().map(|item| self.row(item, Event::Added, now));
                let rows: Vec<_> = rows.collect::<Result<_, _>>()?;
                match &mut self.table {
                    Some(table) => table.rows(&rows)?,
                    None => self.table = Some(self.table::<T>(&rows)?),
                }
            }
            (Shown::As(Format::Json), Mode::Whole) => output::print(&list(self.written == 0, items)?)?,
            (Shown::As(Format::Yaml), Mode::Whole) if items.is_empty() => {}
            (Shown::As(Format::Yaml), Mode::Whole) => {
                output::yaml(&items.iter().map(Written).collect::<Vec<_>>())?;
            }
            (Shown::As(_) | Shown::JsonLines | Shown::Csv(_) | Shown::Path(_), _) => {
                let mut page = if self.written == 0 { self.csv_heads::<T>() } else { String::new() };
                for item in items {
                    page.push_str(&self.text(item, Event::Added, now)?);
                }
                output::print(&page)?;
            }
        }
        self.written += items.len();
        Ok(())
    }

    /// Writes one more resource of a stream.
    pub(crate) fn add<T: View>(&mut self, item: &T, event: Event) -> anyhow::Result<()> {
        let now = Clock.now();
        if self.table.is_some() {
            let row = self.row(item, event, now)?;
            return self.table.iter_mut().try_for_each(|table| table.rows(std::slice::from_ref(&row)));
        }
        output::print(&self.text(item, event, now)?)
    }

    /// Ends a list.
    pub(crate) fn end(self) -> anyhow::Result<()> {
        match (&self.shape.output, self.written) {
            (Shown::As(Format::Json), 0) => output::line("[]"),
            (Shown::As(Format::Json), _) => output::line("\n]"),
            (Shown::As(Format::Yaml), 0) => output::line("[]"),
            (Shown::As(Format::Table | Format::Wide) | Shown::Chosen(_), 0) => {
                output::note("nothing found");
                Ok(())
            }
            (_, _) => Ok(()),
        }
    }

    /// Writes that a resource left the list.
    pub(crate) fn gone(&self, kind: Kind, target: &Target, how: Gone) -> anyhow::Result<()> {
        let (id, name) = (&target.id, text::clean(&target.name));
        let (said, mark) = match how {
            Gone::Deleted => ("deleted", "deleted"),
            Gone::Left => ("is no longer selected", "left_selection"),
        };
        let mut marked = json!({"id": id, mark: true});
        if self.events {
            marked = json!({"type": "DELETED", "object": marked});
        }
        match &self.shape.output {
            Shown::As(Format::Table | Format::Wide) => {
                output::line(&format!("{}/{name} {said}", kind.as_str()))
            }
            Shown::As(Format::Json) | Shown::JsonLines => output::json_line(&marked),
            Shown::As(Format::Yaml) => {
                output::line("---")?;
                output::yaml(&marked)
            }
            // A bare name would mean that the resource exists.
            Shown::As(Format::Name) | Shown::Csv(_) | Shown::Path(_) | Shown::Chosen(_) => {
                output::note(&format!("{}/{name} {said}", kind.as_str()));
                Ok(())
            }
        }
    }

    fn table<T: View>(&self, rows: &[Vec<String>]) -> anyhow::Result<Writer> {
        let heads = self.heads::<T>();
        let heads: Vec<_> = heads.iter().map(String::as_str).collect();
        let shown = if self.shape.no_headers { Heads::Hidden } else { Heads::Shown };
        let is_chosen = matches!(self.shape.output, Shown::Chosen(_));
        let usual = if self.mode == Mode::Stream && !is_chosen && !self.events { T::USUAL } else { &[] };
        let tones = if is_chosen { Tones::None } else { T::TONES };
        Writer::start_with(&heads, rows, shown, tones, usual)
    }

    fn heads<T: View>(&self) -> Vec<String> {
        let event = self.events.then(|| "EVENT".to_owned());
        let heads: Vec<_> = match &self.shape.output {
            Shown::Chosen(chosen) | Shown::Csv(Some(chosen)) => {
                chosen.iter().map(|column| column.head.clone()).collect()
            }
            Shown::As(_) | Shown::JsonLines | Shown::Csv(None) | Shown::Path(_) => {
                columns::<T>(self.level()).map(|column| column.head.to_owned()).collect()
            }
        };
        event.into_iter().chain(heads).collect()
    }

    fn row<T: View>(&self, item: &T, event: Event, now: Timestamp) -> anyhow::Result<Vec<String>> {
        let event = self.events.then(|| word(event).to_owned());
        let cells = match &self.shape.output {
            Shown::Chosen(chosen) | Shown::Csv(Some(chosen)) => picked(chosen, &serde_json::to_value(item)?),
            Shown::As(_) | Shown::JsonLines | Shown::Csv(None) | Shown::Path(_) => {
                columns::<T>(self.level()).map(|column| (column.cell)(item, now)).collect()
            }
        };
        Ok(event.into_iter().chain(cells).collect())
    }

    fn level(&self) -> Level {
        let is_wide = matches!(self.shape.output, Shown::As(Format::Wide) | Shown::Csv(_));
        if is_wide { Level::Wide } else { Level::Narrow }
    }

    fn csv_heads<T: View>(&self) -> String {
        let is_csv = matches!(self.shape.output, Shown::Csv(_)) && !self.shape.no_headers;
        if is_csv { record(&self.heads::<T>()) } else { String::new() }
    }

    /// One resource in a format that needs nothing around it.
    fn text<T: View>(&self, item: &T, event: Event, now: Timestamp) -> anyhow::Result<String> {
        let object = || -> anyhow::Result<Value> {
            let object = serde_json::to_value(Written(item))?;
            Ok(if self.events { json!({"type": word(event), "object": object}) } else { object })
        };
        Ok(match &self.shape.output {
            Shown::As(Format::Yaml) => format!("---\n{}", serde_saphyr::to_string(&object()?)?),
            Shown::As(Format::Name) => format!("{}\n", item.name()),
            Shown::Csv(_) => record(&self.row(item, event, now)?),
            Shown::Path(path) => match path.text(&serde_json::to_value(item)?) {
                Some(found) => format!("{}\n", text::clean(&found)),
                None => "\n".to_owned(),
            },
            Shown::As(Format::Json | Format::Table | Format::Wide) | Shown::JsonLines | Shown::Chosen(_) => {
                // Fields keep the order of the API.
                let line =
                    if self.events { object()?.to_string() } else { serde_json::to_string(&Written(item))? };
                format!("{line}\n")
            }
        })
    }
}

const fn word(event: Event) -> &'static str {
    match event {
        Event::Added => "ADDED",
        Event::Modified => "MODIFIED",
    }
}

fn picked(chosen: &[Chosen], value: &Value) -> Vec<String> {
    chosen.iter().map(|column| column.cell(value)).collect()
}

/// A part of a list in JSON, indented as the whole would be; its end is written by [`Printer::end`].
fn list<T: View>(is_first: bool, items: &[T]) -> anyhow::Result<String> {
    let mut part = String::new();
    for (at, item) in items.iter().enumerate() {
        part.push_str(if at == 0 && is_first { "[\n" } else { ",\n" });
        let item = serde_json::to_string_pretty(&Written(item))?;
        let lines: Vec<_> = item.lines().map(|line| format!("  {line}")).collect();
        part.push_str(&lines.join("\n"));
    }
    Ok(part)
}

/// One line of CSV. Spreadsheets run what begins with `=`, `+`, `-` or `@`: such a text is quoted with an apostrophe.
fn record(cells: &[String]) -> String {
    let quoted = |cell: &String| {
        let cell = text::clean(cell);
        let cell = if cell == NONE { String::new() } else { cell };
        let cell = if cell.starts_with(['=', '+', '-', '@']) { format!("'{cell}") } else { cell };
        if cell.contains([',', '"']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
    };
    cells.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

/// A resource as programs get it: `wardroom apply` takes it back.
pub(crate) struct Written<'a, T>(pub(crate) &'a T);

impl<T: View> Serialize for Written<'_, T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Document<'a, T> {
            kind: &'static str,
            #[serde(flatten)]
            item: &'a T,
        }
        match T::APPLIED {
            Some(kind) => Document { kind: kind.as_str(), item: self.0 }.serialize(serializer),
            None if T::EXACT => {
                let value = serde_json::to_value(self.0).map_err(serde::ser::Error::custom)?;
                value.serialize(serializer)
            }
            None => self.0.serialize(serializer),
        }
    }
}

/// Writes one resource by itself.
pub(crate) fn one<T: View>(shape: &Shape, item: &T) -> anyhow::Result<()> {
    match shape.output {
        Shown::As(Format::Json) => output::json(&Written(item)),
        Shown::As(Format::Yaml) => output::yaml(&Written(item)),
        Shown::As(Format::Table | Format::Wide | Format::Name)
        | Shown::JsonLines
        | Shown::Csv(_)
        | Shown::Path(_)
        | Shown::Chosen(_) => Printer::whole(shape, std::slice::from_ref(item)),
    }
}

/// How a new resource is written.
#[derive(clap::Args, Debug, Clone, Copy)]
pub(crate) struct Made {
    /// Write the new resource in this format; default: only its name.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
}

/// Writes a new resource.
pub(crate) fn made<T: View>(made: &Made, item: &T) -> anyhow::Result<()> {
    match made.output {
        Some(output) => one(&Shape { output: Shown::As(output), no_headers: false }, item),
        None => output::line(&format!("{} created", text::clean(&item.name()))),
    }
}

#[cfg(test)]
mod tests {
    use wardroom_api::workflow::Workflow;

    use super::{list, record};

    /// Pages joined are the list as a whole.
    #[test]
    fn a_list_in_parts_is_the_list() {
        let item = |name: &str| -> Workflow {
            let at = "2026-01-01T00:00:00Z";
            let item = serde_json::json!({"name": name, "id": name, "kernel": "k\n{", "initrd": [], "image": null,
                "arguments": "", "promote": false, "created_at": at, "updated_at": at});
            serde_json::from_value(item).unwrap()
        };
        let items = [item("a"), item("b"), item("c")];
        let parts = list(true, &items[..2]).unwrap() + &list(false, &items[2..]).unwrap() + "\n]";
        let whole: Vec<_> = items.iter().map(super::Written).collect();
        assert_eq!(parts, serde_json::to_string_pretty(&whole).unwrap());
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let cells = ["a,b", "say \"x\"", "<none>", "=1+1", "plain"].map(str::to_owned);
        assert_eq!(record(&cells), "\"a,b\",\"say \"\"x\"\"\",,'=1+1,plain\n");
    }
}

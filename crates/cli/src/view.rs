//! How resources are fetched and written: one file with one table of columns for each kind.

use jiff::Timestamp;
use serde::Serialize;
use wardroom_api::{
    Page,
    action::Action,
    client::{self, Client, Query},
    found::Found,
    satellite::EffectProgress,
};
use wardroom_server::platform::clock::Clock;

use crate::{
    exit::{Code, failure},
    kind::Kind,
    locate::{Among, Target, locate},
    output::{self, Format},
    said::Said,
    suggest::Words,
    table::{Column, Heads, Level, Tones, Writer},
    text,
};

mod adapter;
mod gpu_node;
mod group;
pub(crate) mod history;
mod incident;
mod node;
mod run;
mod satellite;
mod satellite_config;
mod satellite_group;
mod site;
mod token;
mod workflow;

/// A resource with columns.
pub(crate) trait View: Serialize + Sized + 'static {
    /// The columns, in the order they are written.
    const COLUMNS: &'static [Column<Self>];

    /// How wide columns usually are, for lists that start empty and are watched.
    const USUAL: &'static [usize] = &[];

    /// The kind in a document for `wardroom apply`; none for a kind that cannot be applied.
    const APPLIED: Option<Kind> = None;

    /// The tones of its states.
    const TONES: Tones = Tones::None;

    /// The columns that are shown under the name of a layer when one resource is described.
    const LAYERS: &'static [(&'static str, &'static [&'static str])] = &[];

    /// The columns that a description leaves out, because other parts of it say the same.
    const HIDDEN: &'static [&'static str] = &["AGE"];

    /// What `-o name` writes.
    fn name(&self) -> String;
}

/// The selectors that lists of a kind take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Selectable {
    /// Nothing.
    No,
    /// State.
    ByState,
    /// State and fields.
    ByFields,
    /// State, fields and labels.
    ByLabels,
}

/// A resource that commands get by its kind.
pub(crate) trait Resource: View {
    /// The kind.
    const KIND: Kind;

    /// The selectors that its lists take.
    const SELECTABLE: Selectable = Selectable::No;

    /// Whether the server explains its state.
    const EXPLAINED: bool = false;

    /// Whether the server lists and shows deleted ones.
    const LISTED_DELETED: bool = false;

    /// The next step for a kind that cannot be deleted.
    const KEPT: Option<&'static str> = None;

    /// The list of its users, as `wardroom get` takes it, up to the name of the resource.
    const USERS: Option<&'static str> = None;

    /// The words after `wardroom` of the command that carries out an action of the server on this kind.
    fn command(_action: &Action, _id: &str) -> Option<Words> {
        None
    }

    /// The id.
    fn id(&self) -> &str;

    /// Whether it is deleted.
    fn is_deleted(&self) -> bool {
        false
    }

    /// One page.
    async fn page(client: &Client, query: &Query) -> anyhow::Result<Page<Self>>;

    /// Returns one resource by its id.
    async fn find(client: &Client, id: &str) -> anyhow::Result<Self>;

    /// Returns the resources that a name, an id or the start of an id leads to.
    async fn named(client: &Client, typed: &str, among: Among) -> anyhow::Result<Vec<Found>> {
        Ok(client.find(Some(Self::KIND.as_str()), typed, among == Among::All).await?)
    }

    /// Deletes one resource by its id.
    async fn delete(_client: &Client, _id: &str) -> anyhow::Result<()> {
        Err(failure(Code::Usage, Self::KEPT.unwrap_or("it is kept")))
    }

    /// Its state, where that is all it can be selected by.
    fn state(&self) -> Option<&str> {
        None
    }

    /// A field and its value that select this resource, and few others.
    fn selector(&self) -> Option<String> {
        None
    }

    /// What people call it.
    fn title(&self) -> &str {
        self.id()
    }

    /// Returns the run that is explained together with it.
    fn run(&self) -> Option<&str> {
        None
    }

    /// Writes one resource by itself.
    async fn print_one(_client: &Client, shape: Shape, item: &Self) -> anyhow::Result<()> {
        print_one(shape, item)
    }

    /// Returns the effects of a resource on other systems, also of a deleted one; none for a kind without effects.
    async fn effects(_client: &Client, _id: &str) -> Result<Option<Vec<EffectProgress>>, client::Error> {
        Ok(None)
    }

    /// Writes details for which the columns have no room.
    async fn print_details(&self, _client: &Client, _said: &mut Said) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Returns the resource that is called so.
pub(crate) async fn find<T: Resource>(client: &Client, called: &str, among: Among) -> anyhow::Result<T> {
    T::find(client, &locate::<T>(client, called, among).await?.id).await
}

/// Returns whether a selection covers a resource. Only the server interprets selectors, so this asks it for the selection
/// narrowed to this resource.
pub(crate) async fn is_selected<T: Resource>(
    client: &Client,
    item: &T,
    query: &Query,
) -> anyhow::Result<bool> {
    if let (Some(state), Some(wanted)) = (item.state(), &query.state) {
        return Ok(state == wanted);
    }
    let Some(selector) = item.selector().filter(|_| *query != Query::default()) else { return Ok(true) };
    // The server uses the last of repeated fields: the one that the caller gave wins.
    let fields = match &query.field_selector {
        Some(fields) => format!("{selector},{fields}"),
        None => selector,
    };
    let page = T::page(client, &Query { field_selector: Some(fields), ..query.clone() }).await?;
    Ok(page.data.iter().any(|found| found.id() == item.id()))
}

/// `-o` and `--no-headers`.
#[derive(clap::Args, Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// The output format.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Format,
    /// Omit the line with the column names.
    #[arg(long)]
    no_headers: bool,
}

/// Whether all rows are written at once, or more follow.
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
    /// Writes the first resources.
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
                let usual = if mode == Mode::Stream { T::USUAL } else { &[] };
                printer.table = Some(Writer::start_with(&heads, &rows, shown, T::TONES, usual)?);
            }
            (Format::Json, Mode::Whole) => output::json(&items.iter().map(Written).collect::<Vec<_>>())?,
            (Format::Yaml, Mode::Whole) => output::yaml(&items.iter().map(Written).collect::<Vec<_>>())?,
            (Format::Json | Format::Yaml, Mode::Stream) | (Format::Name, _) => {
                items.iter().try_for_each(|item| printer.add(item))?;
            }
        }
        Ok(printer)
    }

    /// Writes one more resource.
    pub(crate) fn add<T: View>(&mut self, item: &T) -> anyhow::Result<()> {
        match (self.format, &mut self.table) {
            (Format::Table | Format::Wide, Some(table)) => {
                table.row(&cells(item, level(self.format), Clock.now()))
            }
            (Format::Table | Format::Wide, None) => Ok(()),
            (Format::Json, _) => output::json_line(&Written(item)),
            (Format::Yaml, _) => {
                output::line("---")?;
                output::yaml(&Written(item))
            }
            (Format::Name, _) => output::line(&item.name()),
        }
    }

    /// Writes that a resource left the list.
    pub(crate) fn gone(&self, kind: Kind, target: &Target, how: Gone) -> anyhow::Result<()> {
        let (id, name) = (&target.id, text::clean(&target.name));
        let (said, mark) = match how {
            Gone::Deleted => ("deleted", "deleted"),
            Gone::Left => ("is no longer selected", "left_selection"),
        };
        let marked = serde_json::json!({"id": id, mark: true});
        match self.format {
            Format::Table | Format::Wide => output::line(&format!("{}/{name} {said}", kind.as_str())),
            // A bare name would mean that the resource exists.
            Format::Name => {
                output::note(&format!("{}/{name} {said}", kind.as_str()));
                Ok(())
            }
            Format::Json => output::json_line(&marked),
            Format::Yaml => {
                output::line("---")?;
                output::yaml(&marked)
            }
        }
    }
}

/// A resource as programs get it: `wardroom apply` takes it back.
struct Written<'a, T>(&'a T);

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
            None => self.0.serialize(serializer),
        }
    }
}

/// Why a resource leaves a watched list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gone {
    Deleted,
    Left,
}

/// Writes one resource by itself.
pub(crate) fn print_one<T: View>(shape: Shape, item: &T) -> anyhow::Result<()> {
    match shape.output {
        Format::Json => output::json(&Written(item)),
        Format::Yaml => output::yaml(&Written(item)),
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

/// How a new resource is written.
#[derive(clap::Args, Debug, Clone, Copy)]
pub(crate) struct Made {
    /// Write the new resource in this format; default: only its name.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
}

/// Writes a new resource.
pub(crate) fn print_made<T: View>(made: &Made, item: &T) -> anyhow::Result<()> {
    match made.output {
        Some(output) => print_one(Shape { output, no_headers: false }, item),
        None => output::line(&format!("{} created", text::clean(&item.name()))),
    }
}

#[cfg(test)]
mod tests {
    use wardroom_core::{Named, gpu_node, node, run, satellite};

    use super::View;

    /// Columns of a watched list are wide enough for states that appear later.
    #[test]
    fn every_state_has_its_room_in_what_is_watched() {
        fn check<T: View, S: Named>() {
            let at = T::COLUMNS.iter().position(|column| column.head == "STATE").unwrap();
            let longest = S::ALL.iter().map(|state| state.as_str().len()).max();
            assert!(T::USUAL.get(at).copied() >= longest, "{longest:?}");
        }
        check::<wardroom_api::node::Node, node::State>();
        check::<wardroom_api::gpu_node::GpuNode, gpu_node::State>();
        check::<wardroom_api::run::Run, run::State>();
        check::<wardroom_api::satellite::Satellite, satellite::State>();
    }
}

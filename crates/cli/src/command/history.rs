//! `wardroom history`.

use clap::{Args, builder::NonEmptyStringValueParser};
use wardroom_api::{client::HistoryQuery, history::Row};
use wardroom_server::platform::clock::Clock;

use crate::{
    connection::Connection,
    exit::{self, Code, not_found},
    kind::{Kind, with_type},
    locate::{Among, locate},
    said::Said,
    table::{Column, Heads, Level, Writer},
    view::{
        Printer, Shape, columns,
        history::{NamedRow, Names, unnamed},
    },
};

/// Shows changes with their time, actor and reason, newest first. History outlives its resource.
#[derive(Args)]
pub(crate) struct History {
    /// Only one resource: its kind …
    #[arg(value_enum, requires = "name")]
    kind: Option<Kind>,
    /// … and its name, its id or the start of its id.
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// Show at most this many rows.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    connection: Connection,
}

impl History {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let client = self.connection.client()?;
        let target = match (self.kind, &self.name) {
            (Some(kind), Some(name)) => Some(
                with_type!(kind, T => locate::<T>(&client, name, Among::All).await)
                    .map_err(|error| never(kind, name, error))?,
            ),
            (_, None) | (None, _) => None,
        };
        let resource = self
            .kind
            .zip(target.as_ref())
            .map(|(kind, target)| (kind.as_str().to_owned(), target.id.clone()));
        let most = self.limit as usize;
        let mut query = HistoryQuery { resource, limit: None, cursor: None };
        let mut rows = Vec::new();
        while rows.len() < most {
            query.limit = Some((most - rows.len()).min(1000));
            let page = client.history(&query).await.map_err(|error| match (self.kind, &self.name) {
                (Some(kind), Some(name)) => never(kind, name, error.into()),
                (Some(_) | None, _) => error.into(),
            })?;
            rows.extend(page.data);
            query.cursor = page.next;
            if query.cursor.is_none() {
                break;
            }
        }
        let mut names = Names::new(&client, self.shape.is_table());
        if let (Some(target), Some(row)) = (&target, rows.first()) {
            names.learn(row, &target.name);
        }
        let named = names.name_rows(rows).await;
        Printer::whole(&self.shape, &named)
    }
}

/// Returns the error of a resource that was never there.
fn never(kind: Kind, name: &str, error: anyhow::Error) -> anyhow::Error {
    if exit::code(&error) != Code::NotFound {
        return error;
    }
    not_found(kind, format!("there is no {} {name:?}, and none was deleted", kind.as_str()))
}

/// Rows of one resource, which is named already, without the evidence that was shown before.
pub(crate) fn compact(rows: Vec<Row>, said: &mut Said) -> anyhow::Result<()> {
    let shown =
        || columns::<NamedRow>(Level::Narrow).filter(|column| !["RESOURCE", "NAME"].contains(&column.head));
    let heads: Vec<_> = shown().map(|column| column.head).collect();
    let now = Clock.now();
    let mut cell = |column: &Column<NamedRow>, row: &NamedRow| {
        let text = (column.cell)(row, now);
        if column.head == "COMMENT" { said.once(&text) } else { text }
    };
    let rows = unnamed(rows);
    let cells: Vec<_> = rows.iter().map(|row| shown().map(|column| cell(column, row)).collect()).collect();
    Writer::start(&heads, &cells, Heads::Shown).map(drop)
}

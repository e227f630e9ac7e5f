//! `wardroom history`.

use clap::{Args, builder::NonEmptyStringValueParser};
use wardroom_api::{client::HistoryQuery, history::Row};
use wardroom_server::platform::clock::Clock;

use crate::{
    connection::Connection,
    exit::not_found,
    kind::{Kind, with_type},
    table::{Heads, Level, Writer},
    view::{
        Mode, Printer, Resource as _, Shape, columns,
        history::{NamedRow, Names, unnamed},
    },
};

/// Shows changes with their time, actor and reason, newest first. History outlives its resource.
#[derive(Args)]
pub(crate) struct History {
    /// Only one resource: its kind …
    #[arg(value_enum, requires = "id")]
    kind: Option<Kind>,
    /// … and its id; also the MAC of a node, the hostname of a GPU node, the name of a satellite or token.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    id: Option<String>,
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
        let resource = match (self.kind, self.id) {
            (Some(kind), Some(id)) => {
                let id = with_type!(kind, T => T::id_of(&client, &id).await?);
                Some((kind.as_str().to_owned(), id))
            }
            (_, None) | (None, _) => None,
        };
        let most = self.limit as usize;
        let mut query = HistoryQuery { resource, limit: None, cursor: None };
        let mut rows = Vec::new();
        while rows.len() < most {
            query.limit = Some((most - rows.len()).min(1000));
            let page = client.history(&query).await.map_err(|error| match (self.kind, &query.resource) {
                (Some(kind), Some((word, id))) if error.is_not_found() => {
                    not_found(kind, format!("there is no {word} {id:?}, and none was deleted"))
                }
                (Some(_) | None, _) => error.into(),
            })?;
            rows.extend(page.data);
            query.cursor = page.next;
            if query.cursor.is_none() {
                break;
            }
        }
        let mut names = Names::new(&client, self.shape.output);
        if let (Some((_, called)), Some(row)) = (&query.resource, rows.first()) {
            names.learn(row, called);
        }
        let named = names.name_rows(rows).await;
        Printer::start(self.shape, Mode::Whole, &named).map(drop)
    }
}

/// Rows of one resource, which is named already.
pub(crate) fn compact(rows: Vec<Row>) -> anyhow::Result<()> {
    let shown =
        || columns::<NamedRow>(Level::Narrow).filter(|column| !["RESOURCE", "NAME"].contains(&column.head));
    let heads: Vec<_> = shown().map(|column| column.head).collect();
    let now = Clock.now();
    let cells: Vec<_> =
        unnamed(rows).iter().map(|row| shown().map(|column| (column.cell)(row, now)).collect()).collect();
    Writer::start(&heads, &cells, Heads::Shown).map(drop)
}

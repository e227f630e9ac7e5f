//! `wardroom describe`.

use clap::Args;
use unicode_width::UnicodeWidthStr as _;
use wardroom_api::{
    client::{Client, HistoryQuery},
    group::Group,
    node::Node,
    satellite::Satellite,
    token::Token,
    workflow::Workflow,
};
use wardroom_server::clock::Clock;

use super::{history::compact, why};
use crate::{
    connection::Connection,
    kind::Kind,
    output,
    table::Level,
    text,
    view::{Resource, columns},
};

/// How much history is shown.
const ROWS: usize = 10;

/// Shows one resource with its explanation and its last history.
#[derive(Args)]
pub(crate) struct Describe {
    /// The kind of the resource.
    #[arg(value_enum)]
    kind: Kind,
    /// Its id; of a node also its MAC, of a satellite its name.
    id: String,
    #[command(flatten)]
    connection: Connection,
}

impl Describe {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let client = self.connection.client()?;
        match self.kind {
            Kind::Node => {
                let node: Node = self.fields(&client).await?;
                output::line("")?;
                why::print("node", &node.id, &client.why("node", &node.id).await?)?;
                history(&client, Kind::Node, &node.id).await
            }
            Kind::Satellite => {
                let satellite: Satellite = self.fields(&client).await?;
                output::line("")?;
                why::print("satellite", &satellite.name, &client.why("satellite", &satellite.id).await?)?;
                history(&client, Kind::Satellite, &satellite.id).await
            }
            Kind::Workflow => self.fields_and_history::<Workflow>(&client).await,
            Kind::Group => self.fields_and_history::<Group>(&client).await,
            Kind::Token => self.fields_and_history::<Token>(&client).await,
        }
    }

    async fn fields_and_history<T: Resource>(&self, client: &Client) -> anyhow::Result<()> {
        let item: T = self.fields(client).await?;
        history(client, T::KIND, item.id()).await
    }

    async fn fields<T: Resource>(&self, client: &Client) -> anyhow::Result<T> {
        let item = T::find(client, &self.id).await?;
        let (now, all) = (Clock.now(), columns::<T>(Level::Full));
        let fields: Vec<_> = all.map(|column| (title(column.head), (column.cell)(&item, now))).collect();
        let width = fields.iter().map(|(head, _)| head.width()).max().unwrap_or_default() + 1;
        for (head, value) in fields {
            output::line(&format!("{:<width$}  {}", format!("{head}:"), text::clean(&value)))?;
        }
        Ok(item)
    }
}

/// `LAST ERROR` becomes `Last error`; abbreviations stay.
fn title(head: &str) -> String {
    if matches!(head, "ID" | "MAC" | "IP") {
        return head.to_owned();
    }
    let (first, rest) = head.split_at(1);
    format!("{first}{}", rest.to_lowercase())
}

async fn history(client: &Client, kind: Kind, id: &str) -> anyhow::Result<()> {
    let resource = Some((kind.as_str().to_owned(), id.to_owned()));
    let rows = match client.history(&HistoryQuery { resource, limit: Some(ROWS), cursor: None }).await {
        Ok(rows) => rows,
        // Some roles see resources and not their history.
        Err(error) if error.status() == Some(403) => return output::line(&format!("\nHistory: {error}")),
        Err(error) => return Err(error.into()),
    };
    output::line("\nHistory:")?;
    compact(&rows.data)
}

//! `wardroom describe`.

use clap::{Args, builder::NonEmptyStringValueParser};
use wardroom_api::{
    client::{self, Client, HistoryQuery},
    satellite::EffectProgress,
};
use wardroom_server::platform::clock::Clock;

use super::{history::compact, why};
use crate::{
    connection::Connection,
    fields,
    kind::{Kind, with_type},
    locate::{Among, locate},
    output,
    said::Said,
    table::{Heads, Level, NONE, Writer, or_none},
    text::time,
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
    /// Its name, its id or the start of its id; of a node also its MAC, of a run the name of its node.
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: String,
    #[command(flatten)]
    connection: Connection,
}

impl Describe {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let client = self.connection.client()?;
        with_type!(self.kind, T => self.describe::<T>(&client).await)
    }

    async fn describe<T: Resource>(&self, client: &Client) -> anyhow::Result<()> {
        let target = locate::<T>(client, &self.name, Among::All).await?;
        let item = match T::find(client, &target.id).await {
            Ok(item) => item,
            Err(error) => return describe_deleted::<T>(client, &target.id, error).await,
        };
        layers(&item)?;
        let mut said = Said::default();
        if T::EXPLAINED {
            let brief = client.why(T::KIND.as_str(), item.id()).await?.brief;
            output::line("")?;
            why::show(&item, &brief)?;
            brief.blockers.iter().for_each(|blocker| said.note(blocker));
        }
        item.print_details(client, &mut said).await?;
        print_effects(&T::effects(client, item.id()).await?.unwrap_or_default())?;
        history(client, T::KIND, item.id(), &mut said).await
    }
}

/// Writes the fields that are set: those of no layer first, then layer by layer.
fn layers<T: Resource>(item: &T) -> anyhow::Result<()> {
    let now = Clock.now();
    let set = |heads: &dyn Fn(&str) -> bool| -> Vec<(String, String)> {
        let chosen = columns::<T>(Level::Full).filter(|column| heads(column.head));
        let fields = chosen.map(|column| (title(column.head), (column.cell)(item, now)));
        fields.filter(|(_, value)| value != NONE).collect()
    };
    let layered = |head: &str| T::LAYERS.iter().any(|(_, heads)| heads.contains(&head));
    fields::print(&set(&|head| !layered(head) && !T::HIDDEN.contains(&head)))?;
    T::LAYERS
        .iter()
        .try_for_each(|(layer, heads)| fields::section(layer, &set(&|head| heads.contains(&head))))
}

/// Describes a deleted resource of a kind of which only its pending effects on other systems and its history are shown.
async fn describe_deleted<T: Resource>(
    client: &Client,
    id: &str,
    error: anyhow::Error,
) -> anyhow::Result<()> {
    if !error.downcast_ref().is_some_and(client::Error::is_not_found) {
        return Err(error);
    }
    let effects = match T::effects(client, id).await {
        Ok(Some(effects)) => effects,
        Err(error) if !error.is_not_found() => return Err(error.into()),
        Ok(None) | Err(_) => return Err(error),
    };
    fields::print(&[("ID", id.to_owned()), ("State", "deleted".to_owned())])?;
    print_effects(&effects)?;
    history(client, T::KIND, id, &mut Said::default()).await
}

/// Writes the effects on other systems.
fn print_effects(effects: &[EffectProgress]) -> anyhow::Result<()> {
    if effects.is_empty() {
        return Ok(());
    }
    output::line("\nOther systems:")?;
    let row = |effect: &EffectProgress| {
        let EffectProgress { type_, progress, attempts, created_at, last_error, .. } = effect;
        let error = or_none(last_error.as_deref());
        vec![type_.clone(), progress.clone(), attempts.to_string(), time(*created_at), error]
    };
    let rows: Vec<_> = effects.iter().map(row).collect();
    Writer::start(&["EFFECT", "PROGRESS", "ATTEMPTS", "ASKED", "LAST ERROR"], &rows, Heads::Shown).map(drop)
}

/// `LAST ERROR` becomes `Last error`; abbreviations stay.
fn title(head: &str) -> String {
    const ABBREVIATIONS: &[&str] = &["BMC", "ID", "IP", "MAC", "MAAS", "SPIFFE", "URL", "UUID"];
    let words = head.split(' ').enumerate().map(|(at, word)| {
        if ABBREVIATIONS.contains(&word) {
            return word.to_owned();
        }
        let (first, rest) = word.split_at(if at == 0 { 1 } else { 0 });
        format!("{first}{}", rest.to_lowercase())
    });
    words.collect::<Vec<_>>().join(" ")
}

async fn history(client: &Client, kind: Kind, id: &str, said: &mut Said) -> anyhow::Result<()> {
    let resource = Some((kind.as_str().to_owned(), id.to_owned()));
    let rows = match client.history(&HistoryQuery { resource, limit: Some(ROWS), cursor: None }).await {
        Ok(rows) => rows,
        // Some roles see resources and not their history.
        Err(error) if error.status() == Some(403) => return output::line(&format!("\nHistory: {error}")),
        // An adapter is derived from what waits for it: nothing is recorded of it.
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    output::line("\nHistory:")?;
    compact(rows.data, said)
}

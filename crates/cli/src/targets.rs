//! The resources that a verb acts on: named or selected.

use std::collections::HashMap;

use clap::{Args, builder::NonEmptyStringValueParser};
use wardroom_api::client::{self, Client, MEMBER};

use crate::{
    command::get::list,
    connection::Connection,
    exit::{Code, failure, not_found},
    locate::{Among, Target, locate},
    outcome::Consent,
    output,
    preview::{Most, Preview, most},
    select::Selection,
    suggest, text,
    view::Resource,
};

/// The resources that a verb acts on.
#[derive(Args)]
pub(crate) struct Targets {
    /// Names, ids or the starts of ids; of nodes also their MACs, of runs the names of their nodes.
    #[arg(value_name = "NAME", required_unless_present_any = ["labels", "fields", "state"],
        value_parser = NonEmptyStringValueParser::new())]
    names: Vec<String>,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    connection: Connection,
}

/// How far a verb may go.
#[derive(Args)]
struct Limits {
    /// Change nothing: say what would become of each, and why some would be refused. Ends with the code of the command itself.
    #[arg(long)]
    dry_run: bool,
    /// Change nothing if more than this would be changed: a number, or a share of all there are, such as 5%.
    #[arg(long, value_name = "N|N%", value_parser = most)]
    max: Option<Most>,
}

impl Targets {
    /// Connects, finds the resources, and asks if there are several or they were selected. Several are tried first, and the
    /// client that is returned changes each only if it did not change since. Nothing is returned after a dry run.
    pub(crate) async fn find<T: Resource>(
        &self,
        doing: &str,
        verb: impl AsyncFn(&Client, &str) -> Result<(), client::Error>,
    ) -> anyhow::Result<Option<(Client, Vec<Target>)>> {
        let (client, targets) = self.look::<T>().await?;
        let Limits { dry_run, max } = &self.limits;
        let is_many = targets.len() > 1 || !self.selection.is_empty();
        if !dry_run && max.is_none() && !is_many {
            return Ok(Some((client, targets)));
        }
        let Err(client::Error::Unsent(unsent)) = verb(&client.rehearsal(), MEMBER).await else {
            return Err(failure(Code::Failed, "this verb cannot be tried before it is done"));
        };
        let preview = Preview::of(&client, *unsent, &targets).await?;
        if *dry_run {
            preview.show(T::KIND, &targets, max.as_ref())?;
            return Ok(None);
        }
        preview.check(T::KIND, max.as_ref())?;
        let least = if self.selection.is_empty() { targets.len() } else { targets.len().max(2) };
        let what = text::count(i64::try_from(targets.len())?, T::KIND.as_str());
        if self.consent.asks(least) {
            output::note(&preview.said(T::KIND));
        }
        self.consent.ask(&format!("{doing}: {what}"), least)?;
        Ok(Some((client.at_versions(preview.versions()), targets)))
    }

    /// Connects and finds the resources, for a command that changes nothing.
    pub(crate) async fn look<T: Resource>(&self) -> anyhow::Result<(Client, Vec<Target>)> {
        if !self.names.is_empty() && !self.selection.is_empty() {
            return Err(failure(Code::Usage, "give names or selectors, not both"));
        }
        self.selection.check::<T>()?;
        let client = self.connection.client()?;
        if self.selection.is_empty() {
            let targets = all::<T>(&client, &self.names).await?;
            return Ok((client, targets));
        }
        let found: Vec<T> = list(&client, &self.selection.query(), usize::MAX).await?;
        if found.is_empty() {
            return Err(not_found(T::KIND, format!("no {} matches the selection", T::KIND.as_str())));
        }
        Ok((client, selected(&found)))
    }
}

/// Returns the resources that are called so, each once. None is changed if one of several does not exist.
pub(crate) async fn all<T: Resource>(client: &Client, names: &[String]) -> anyhow::Result<Vec<Target>> {
    let mut targets: Vec<Target> = Vec::new();
    for name in names {
        let target = locate::<T>(client, name, Among::Living).await?;
        if targets.iter().all(|known| known.id != target.id) {
            targets.push(target);
        }
    }
    Ok(targets)
}

/// Returns the resources of a list under the names that people use; those of one name under their ids.
fn selected<T: Resource>(found: &[T]) -> Vec<Target> {
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for item in found {
        *uses.entry(item.title()).or_default() += 1;
    }
    let name = |item: &T| if uses[item.title()] == 1 { item.title() } else { item.id() }.to_owned();
    let targets = found.iter().map(|item| Target { id: item.id().to_owned(), name: name(item) });
    targets.inspect(|target| suggest::remember(&target.id, &target.name)).collect()
}

//! The resources that a verb acts on: named or selected.

use clap::{Args, builder::NonEmptyStringValueParser};
use wardroom_api::client::Client;

use crate::{
    command::get::list,
    connection::Connection,
    exit::{Code, failure, not_found},
    outcome::Consent,
    select::Selection,
    suggest, text,
    view::{Resource, called},
};

/// The resources that a verb acts on.
#[derive(Args)]
pub(crate) struct Targets {
    /// Ids; also MACs of nodes, hostnames of GPU nodes (for runs too), names of satellites.
    #[arg(value_name = "ID", required_unless_present_any = ["labels", "fields", "state"],
        value_parser = NonEmptyStringValueParser::new())]
    ids: Vec<String>,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    connection: Connection,
}

impl Targets {
    /// Connects, finds the resources, and asks if there are several or they were selected.
    pub(crate) async fn find<T: Resource>(&self, doing: &str) -> anyhow::Result<(Client, Vec<String>)> {
        let (client, ids) = self.look::<T>().await?;
        let least = if self.selection.is_empty() { ids.len() } else { ids.len().max(2) };
        let what = text::count(i64::try_from(ids.len())?, T::KIND.as_str());
        self.consent.ask(&format!("{doing}: {what}"), least)?;
        Ok((client, ids))
    }

    /// Connects and finds the resources, for a command that changes nothing.
    pub(crate) async fn look<T: Resource>(&self) -> anyhow::Result<(Client, Vec<String>)> {
        if !self.ids.is_empty() && !self.selection.is_empty() {
            return Err(failure(Code::Usage, "give ids or selectors, not both"));
        }
        self.selection.check::<T>()?;
        let client = self.connection.client()?;
        let mut ids = Vec::new();
        for id in &self.ids {
            let typed = id;
            let id = T::target(&client, typed).await?;
            suggest::remember(&id, typed);
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        if !self.selection.is_empty() {
            let found: Vec<T> = list(&client, &self.selection.query(), usize::MAX).await?;
            ids = found.iter().map(called).collect();
            if ids.is_empty() {
                return Err(not_found(T::KIND, format!("no {} matches the selection", T::KIND.as_str())));
            }
        }
        Ok((client, ids))
    }
}

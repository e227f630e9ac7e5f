//! Which nodes a verb is for: by name, or selected.

use clap::Args;
use wardroom_api::{client::Client, node::Node};

use crate::{
    command::get::list,
    connection::Connection,
    exit::{Code, failure},
    outcome::Consent,
    select::Selection,
    text,
    view::Resource as _,
};

/// Which nodes a verb is for.
#[derive(Args)]
pub(crate) struct Targets {
    /// Ids or MACs.
    #[arg(value_name = "ID", required_unless_present_any = ["labels", "fields", "state"])]
    ids: Vec<String>,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    connection: Connection,
}

impl Targets {
    /// Connects, finds the nodes, and asks when they are several or were selected.
    pub(crate) async fn find(&self, doing: &str) -> anyhow::Result<(Client, Vec<String>)> {
        if !self.ids.is_empty() && !self.selection.is_empty() {
            return Err(failure(Code::Usage, "give ids or selectors, not both"));
        }
        let client = self.connection.client()?;
        let mut ids = Vec::new();
        for id in &self.ids {
            let id = Node::id_of(&client, id).await?;
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        if !self.selection.is_empty() {
            let nodes: Vec<Node> = list(&client, &self.selection.query(), usize::MAX).await?;
            ids = nodes.into_iter().map(|node| node.id).collect();
            if ids.is_empty() {
                return Err(failure(Code::NotFound, "no node is selected by this"));
            }
        }
        let least = if self.selection.is_empty() { ids.len() } else { ids.len().max(2) };
        let what = text::count(i64::try_from(ids.len())?, "node");
        self.consent.ask(&format!("{doing}: {what}"), least)?;
        Ok((client, ids))
    }
}

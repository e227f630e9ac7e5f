//! `wardroom delete`.

use clap::Args;
use wardroom_api::client::Client;

use crate::{
    connection::Connection,
    exit::{Code, failure},
    kind::Kind,
    outcome::{Consent, Outcome},
    view::node,
};

/// Deletes resources. A node must be retired first; tokens are revoked instead. History stays.
#[derive(Args)]
pub(crate) struct Delete {
    /// The kind of the resources.
    #[arg(value_enum)]
    kind: Kind,
    /// Their ids; of nodes also their MACs, of satellites their names.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    connection: Connection,
}

impl Delete {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        if self.kind == Kind::Token {
            return Err(failure(Code::Usage, "tokens are revoked: `wardroom token revoke ID`"));
        }
        let kind = self.kind.as_str();
        self.consent.ask(&format!("delete {} {kind}s", self.ids.len()), self.ids.len())?;
        let client = self.connection.client()?;
        let mut outcome = Outcome::default();
        for id in &self.ids {
            outcome.add(
                &format!("{kind}/{id}"),
                delete(&client, self.kind, id).await.map(|()| "deleted".to_owned()),
            )?;
        }
        outcome.finish()
    }
}

async fn delete(client: &Client, kind: Kind, id: &str) -> anyhow::Result<()> {
    match kind {
        Kind::Node => {
            let id = node::id(client, id).await?;
            client.delete_node(&id).await?;
        }
        Kind::Satellite => drop(client.delete_satellite(id).await?),
        Kind::Workflow => drop(client.delete_workflow(id).await?),
        Kind::Group => drop(client.delete_group(id).await?),
        Kind::Token => drop(client.revoke_token(id).await?),
    }
    Ok(())
}

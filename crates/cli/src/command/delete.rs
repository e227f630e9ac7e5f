//! `wardroom delete`.

use clap::Args;
use wardroom_api::{client::Client, gpu_node::GpuNode, node::Node};

use crate::{
    connection::Connection,
    exit::{Code, failure},
    kind::Kind,
    outcome::{Consent, Outcome},
    view::Resource as _,
};

/// Deletes resources. A node must be retired first; of GPU nodes, only one that was registered by mistake is deleted; a
/// resource in use is refused. History stays.
#[derive(Args)]
pub(crate) struct Delete {
    /// The kind of the resources.
    #[arg(value_enum)]
    kind: Kind,
    /// Their ids; also MACs of nodes, names of satellites.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    connection: Connection,
}

impl Delete {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        if let Some(instead) = instead(self.kind) {
            return Err(failure(Code::Usage, instead));
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

/// Returns the next step for a kind that cannot be deleted.
fn instead(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Token => Some("tokens are revoked: `wardroom token revoke ID`"),
        Kind::Run => Some("runs are kept; cancel an open one: `wardroom run cancel ID`"),
        Kind::Incident => Some("incidents are kept; they end by themselves"),
        Kind::Node
        | Kind::GpuNode
        | Kind::Workflow
        | Kind::Group
        | Kind::Site
        | Kind::Satellite
        | Kind::SatelliteGroup
        | Kind::SatelliteConfig => None,
    }
}

async fn delete(client: &Client, kind: Kind, id: &str) -> anyhow::Result<()> {
    match kind {
        Kind::Node => drop(client.delete_node(&Node::id_of(client, id).await?).await?),
        Kind::GpuNode => drop(client.delete_gpu_node(&GpuNode::id_of(client, id).await?).await?),
        Kind::Satellite => drop(client.delete_satellite(id).await?),
        Kind::Workflow => drop(client.delete_workflow(id).await?),
        Kind::Group => drop(client.delete_group(id).await?),
        Kind::Site => drop(client.delete_site(id).await?),
        Kind::SatelliteGroup => drop(client.delete_satellite_group(id).await?),
        Kind::SatelliteConfig => drop(client.delete_satellite_config(id).await?),
        Kind::Run | Kind::Incident | Kind::Token => {}
    }
    Ok(())
}

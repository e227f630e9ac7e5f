//! `wardroom node delete`.

use clap::Args;
use wardroom_api::{client::Client, node::Node};

use crate::{locate::Target, outcome::Outcome, targets::Targets};

/// Deletes retired nodes; their history stays.
#[derive(Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    targets: Targets,
}

impl Delete {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let verb = async |client: &Client, id: &str| client.delete_node(id).await.map(drop);
        let Some((client, targets)) = self.targets.find::<Node>("delete", verb).await? else { return Ok(()) };
        let mut outcome = Outcome::default();
        for Target { id, name } in &targets {
            let deleted = client.delete_node(id).await;
            outcome
                .add(&format!("node/{name}"), deleted.map(|_| "deleted".to_owned()).map_err(Into::into))?;
        }
        outcome.finish()
    }
}

//! `wardroom node delete`.

use clap::Args;
use wardroom_api::node::Node;

use crate::{outcome::Outcome, targets::Targets};

/// Deletes retired nodes; their history stays.
#[derive(Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    targets: Targets,
}

impl Delete {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let (client, ids) = self.targets.find::<Node>("delete").await?;
        let mut outcome = Outcome::default();
        for id in &ids {
            let deleted = client.delete_node(id).await;
            outcome.add(&format!("node/{id}"), deleted.map(|_| "deleted".to_owned()).map_err(Into::into))?;
        }
        outcome.finish()
    }
}

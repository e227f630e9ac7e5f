//! `wardroom node delete`.

use clap::Args;

use super::targets::Targets;
use crate::outcome::Outcome;

/// Takes retired nodes out of the lists; their history stays.
#[derive(Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    targets: Targets,
}

impl Delete {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let (client, ids) = self.targets.find("delete").await?;
        let mut outcome = Outcome::default();
        for id in &ids {
            let deleted = client.delete_node(id).await;
            outcome.add(&format!("node/{id}"), deleted.map(|_| "deleted".to_owned()).map_err(Into::into))?;
        }
        outcome.finish()
    }
}

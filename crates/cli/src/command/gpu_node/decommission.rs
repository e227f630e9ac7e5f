//! `wardroom gpu-node decommission`.

use clap::{Args, builder::PossibleValuesParser};
use wardroom_api::{
    client::Client,
    gpu_node::{DecommissionCreate, GpuNode},
};
use wardroom_core::run::plan::Kind;

use super::skips;
use crate::{
    locate::Target,
    outcome::Outcome,
    progress::{Wait, Wish},
    targets::Targets,
    text,
};

/// How a node can be decommissioned.
const MODES: [&str; 4] = [
    Kind::SoftReset.as_str(),
    Kind::StorageCleanup.as_str(),
    Kind::Reimage.as_str(),
    Kind::FullDecommission.as_str(),
];

/// Starts a decommission in one of four modes.
#[derive(Args)]
pub(crate) struct Decommission {
    #[command(flatten)]
    targets: Targets,
    /// The mode.
    #[arg(long, value_parser = PossibleValuesParser::new(MODES))]
    mode: String,
    /// End running work on the node instead of waiting for it.
    #[arg(long)]
    force: bool,
    /// A stage to skip for a dead host, with a comment: drain_node="the board burnt". Can be repeated.
    #[arg(long, value_name = "STAGE=COMMENT", value_parser = text::skip)]
    skip: Vec<(String, String)>,
    /// The reason, kept in history.
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    #[command(flatten)]
    wait: Wait,
}

impl Decommission {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let (mode, skip) = (self.mode.clone(), skips(self.skip));
        let wanted = DecommissionCreate { mode, force: self.force, skip, comment: self.comment };
        let verb =
            async |client: &Client, id: &str| client.decommission_gpu_node(id, &wanted).await.map(drop);
        let found = self.targets.find::<GpuNode>(&self.mode, verb).await?;
        let Some((client, targets)) = found else { return Ok(()) };
        let (mut outcome, mut runs) = (Outcome::default(), Vec::new());
        for Target { id, name } in &targets {
            let begun = client.decommission_gpu_node(id, &wanted).await.map(|node| {
                runs.extend(node.run.map(|id| Target { id, name: name.clone() }));
                node.state
            });
            outcome.add(&format!("gpu-node/{name}"), begun.map_err(Into::into))?;
        }
        outcome.finish()?;
        self.wait.until_over(&client, &runs, Wish::Done).await
    }
}

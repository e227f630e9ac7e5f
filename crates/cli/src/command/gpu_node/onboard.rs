//! `wardroom gpu-node onboard`.

use clap::{Args, builder::NonEmptyStringValueParser};
use wardroom_api::gpu_node::{GpuNode, OnboardingCreate};
use wardroom_core::gpu_node::State;

use crate::{
    connection::Connection,
    locate::{Among, Target, locate},
    output,
    progress::{Wait, Wish},
    secret::SecretFile,
};

/// Starts an onboarding; without a site it issues a new token.
#[derive(Args)]
pub(crate) struct Onboard {
    /// Its hostname, its id or the start of its id.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    name: String,
    /// The site to onboard through; default: the node's own.
    #[arg(long, value_name = "NAME")]
    site: Option<String>,
    /// The reason, kept in history.
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    #[command(flatten)]
    secret: SecretFile,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    connection: Connection,
}

impl Onboard {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let wanted = OnboardingCreate { site: self.site, comment: self.comment };
        let client = self.connection.client()?;
        let Target { id, name } = locate::<GpuNode>(&client, &self.name, Among::Living).await?;
        let paper = self.secret.open()?;
        let begun = client.onboard_gpu_node(&id, &wanted).await?;
        if let Some(token) = &begun.token {
            paper.write(token)?;
        }
        let run: Option<Target> = begun.node.run.map(|id| Target { id, name: name.clone() });
        output::note(&format!("gpu-node/{name} {}", begun.node.state));
        if begun.node.state == State::Quarantined.as_str() {
            output::note("it stays quarantined after the onboarding, until `wardroom gpu-node recover`");
        }
        self.wait.until_over(&client, run.as_slice(), Wish::Done).await
    }
}

//! `wardroom gpu-node`: the verbs of GPU nodes.

use clap::{Args, Subcommand, builder::NonEmptyStringValueParser};
use wardroom_api::gpu_node::{GpuNode as Node, Skip};
use wardroom_core::gpu_node::action::Action;

use crate::{
    connection::Connection,
    locate::{Among, Target, locate},
    output,
    progress::{Patience, Wish},
    targets::Targets,
    verbs::Verb,
};

mod act;
pub(crate) mod create;
mod decommission;
mod onboard;
mod set;

/// Registers, onboards, decommissions and recovers GPU nodes.
#[derive(Subcommand)]
pub(crate) enum GpuNode {
    /// Registers a node. With a site it is onboarded through MAAS. Without one its token is written once, alone, to
    /// standard output or into a file.
    Create(create::Create),
    /// Corrects the name, MACs, BMC or labels of a node.
    Set(set::Set),
    /// Starts an onboarding; without a site it issues a new token.
    Onboard(onboard::Onboard),
    /// Starts a decommission in one of four modes.
    Decommission(decommission::Decommission),
    /// Shows the work behind a node's state, and the next step, as JSON.
    Lifecycle(Lifecycle),
    /// Waits until the newest runs of nodes end, and shows their progress; fails when one needs an operator.
    #[command(mut_arg("yes", |yes| yes.hide(true)), mut_arg("dry_run", |arg| arg.hide(true)), mut_arg("max", |arg| arg.hide(true)))]
    Wait(WaitFor),
    #[command(flatten)]
    Act(Verb<Action, act::Act>),
}

#[derive(Args)]
pub(crate) struct Lifecycle {
    /// Its hostname, its id or the start of its id.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    name: String,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args)]
pub(crate) struct WaitFor {
    #[command(flatten)]
    targets: Targets,
    #[command(flatten)]
    patience: Patience,
}

impl GpuNode {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Create(command) => command.run().await,
            Self::Set(command) => command.run().await,
            Self::Onboard(command) => command.run().await,
            Self::Decommission(command) => command.run().await,
            Self::Lifecycle(Lifecycle { name, connection }) => {
                let client = connection.client()?;
                let id = locate::<Node>(&client, &name, Among::Living).await?.id;
                output::json(&client.gpu_node_lifecycle(&id).await?)
            }
            Self::Wait(command) => command.run().await,
            Self::Act(Verb { action, arguments }) => arguments.run(action).await,
        }
    }
}

impl WaitFor {
    async fn run(self) -> anyhow::Result<()> {
        let (client, targets) = self.targets.look::<Node>().await?;
        let mut runs = Vec::new();
        for Target { id, name } in targets {
            let run = client.gpu_node(&id).await?.run;
            runs.extend(run.map(|id| Target { id, name }));
        }
        self.patience.until_over(&client, &runs, Wish::Done).await
    }
}

fn skips(asked: Vec<(String, String)>) -> Vec<Skip> {
    asked.into_iter().map(|(stage, comment)| Skip { stage, comment }).collect()
}

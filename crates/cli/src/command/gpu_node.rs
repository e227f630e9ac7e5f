//! `wardroom gpu-node`: the verbs of GPU nodes.

use std::{collections::BTreeMap, path::PathBuf};

use clap::{Args, Subcommand};
use wardroom_api::{
    client::Query,
    gpu_node::{ActionRequest, Bmc, DecommissionCreate, GpuNodeCreate, OnboardingCreate, Skip},
};

use super::token::private;
use crate::{connection::Connection, outcome::Outcome, output};

/// Registers, onboards, decommissions and recovers GPU nodes.
#[derive(Subcommand)]
pub(crate) enum GpuNode {
    /// Registers a node: with a site it is onboarded through MAAS, without one its token is written once, alone, to
    /// standard output or into a file.
    Create(Create),
    /// Lists nodes with their coarse states, one on a line.
    List(List),
    /// Shows the work behind a node's state, and what to do next, as JSON.
    Lifecycle(Lifecycle),
    /// Starts an onboarding.
    Onboard(Onboard),
    /// Starts a decommission: soft_reset, storage_cleanup, reimage or full_decommission.
    Decommission(Decommission),
    /// Asks something of nodes: quarantine, recover, retire, stop-drain, reactivate, remove, rollback-remove or resume.
    Act(Act),
}

#[derive(Args)]
pub(crate) struct Create {
    /// The name of the host.
    hostname: String,
    /// The site that manages the machine.
    #[arg(long, value_name = "NAME")]
    site: Option<String>,
    /// A MAC, the one it boots from first. Can be repeated.
    #[arg(long = "mac", value_name = "MAC")]
    macs: Vec<String>,
    /// The address of its BMC, such as https://10.0.0.7.
    #[arg(long, value_name = "URL", requires = "bmc_credential")]
    bmc: Option<String>,
    /// Where user and password of the BMC are on the server, as file:PATH or env:NAME.
    #[arg(long, value_name = "REFERENCE", requires = "bmc")]
    bmc_credential: Option<String>,
    /// Which system of the BMC.
    #[arg(long, value_name = "ID", requires = "bmc")]
    bmc_system: Option<String>,
    /// A label, such as rack=a1. Can be repeated.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Write the token into this new file, which only its owner can read.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args)]
pub(crate) struct List {
    /// Only in this state.
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// Fields, such as site=berlin.
    #[arg(long, value_name = "FIELDS")]
    field_selector: Option<String>,
    /// Labels, such as rack=a1.
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args)]
pub(crate) struct Lifecycle {
    /// Its id.
    id: String,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args)]
pub(crate) struct Onboard {
    /// Its id.
    id: String,
    /// The site to onboard through; the node's own when absent.
    #[arg(long, value_name = "NAME")]
    site: Option<String>,
    /// Why, for history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args)]
pub(crate) struct Decommission {
    /// Their ids.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// How: soft_reset, storage_cleanup, reimage or full_decommission.
    #[arg(long)]
    mode: String,
    /// End what runs on the node instead of waiting for it.
    #[arg(long)]
    force: bool,
    /// A stage to skip for a dead host, with a reason: drain_node="the board burnt". Can be repeated.
    #[arg(long, value_name = "STAGE=REASON", value_parser = label)]
    skip: Vec<(String, String)>,
    /// Why, for history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args)]
pub(crate) struct Act {
    /// What to do.
    action: String,
    /// Their ids.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// A stage to skip for a dead host, with a reason; for retire and remove. Can be repeated.
    #[arg(long, value_name = "STAGE=REASON", value_parser = label)]
    skip: Vec<(String, String)>,
    /// Why, for history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

impl GpuNode {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Create(command) => command.run().await,
            Self::List(command) => command.run().await,
            Self::Lifecycle(command) => {
                output::json(&command.connection.client()?.gpu_node_lifecycle(&command.id).await?)
            }
            Self::Onboard(command) => command.run().await,
            Self::Decommission(command) => command.run().await,
            Self::Act(command) => command.run().await,
        }
    }
}

impl Create {
    async fn run(self) -> anyhow::Result<()> {
        let bmc = self.bmc.zip(self.bmc_credential);
        let system = self.bmc_system;
        let create = GpuNodeCreate {
            hostname: self.hostname,
            site: self.site,
            macs: self.macs,
            bmc: bmc.map(|(address, credential)| Bmc { address, credential, system }),
            labels: BTreeMap::from_iter(self.labels),
            ..GpuNodeCreate::default()
        };
        let client = self.connection.client()?;
        // The file is made first: a token that cannot be written down is lost.
        let file = self.secret_file.as_deref().map(private).transpose()?;
        let made = client.create_gpu_node(&create).await;
        if let (Err(_), Some(path)) = (&made, &self.secret_file) {
            let _ = std::fs::remove_file(path);
        }
        let made = made?;
        if let Some(token) = &made.token {
            write(file, token)?;
        }
        output::note(&format!("gpu-node/{} {} ({})", made.node.id, made.node.state, made.node.hostname));
        Ok(())
    }
}

impl List {
    async fn run(self) -> anyhow::Result<()> {
        let client = self.connection.client()?;
        let mut query = Query {
            state: self.state,
            label_selector: self.selector,
            field_selector: self.field_selector,
            limit: Some(500),
            cursor: None,
        };
        loop {
            let page = client.gpu_nodes(&query).await?;
            for node in page.data {
                let site = node.site.as_deref().unwrap_or("-");
                output::line(&format!("{}\t{}\t{}\t{site}", node.id, node.hostname, node.state))?;
            }
            match page.next {
                Some(next) => query.cursor = Some(next),
                None => return Ok(()),
            }
        }
    }
}

impl Onboard {
    async fn run(self) -> anyhow::Result<()> {
        let wanted = OnboardingCreate { site: self.site, reason: self.reason };
        let node = self.connection.client()?.onboard_gpu_node(&self.id, &wanted).await?;
        if let Some(token) = &node.token {
            write(None, token)?;
        }
        output::note(&format!("gpu-node/{} {}", node.node.id, node.node.state));
        Ok(())
    }
}

impl Decommission {
    async fn run(self) -> anyhow::Result<()> {
        let wanted = DecommissionCreate {
            mode: self.mode,
            force: self.force,
            skip: skips(self.skip),
            reason: self.reason,
        };
        let client = self.connection.client()?;
        let mut outcome = Outcome::default();
        for id in &self.ids {
            let started = client.decommission_gpu_node(id, &wanted).await.map(|node| node.state);
            outcome.add(&format!("gpu-node/{id}"), started.map_err(Into::into))?;
        }
        outcome.finish()
    }
}

impl Act {
    async fn run(self) -> anyhow::Result<()> {
        let wanted = ActionRequest { reason: self.reason, skip: skips(self.skip) };
        let client = self.connection.client()?;
        let mut outcome = Outcome::default();
        for id in &self.ids {
            let acted = client.act_on_gpu_node(id, &self.action, &wanted).await;
            if let Ok(Some(token)) = acted.as_ref().map(|acted| acted.token.as_ref()) {
                write(None, token)?;
            }
            let told = acted.map(|acted| format!("{} ({})", acted.node.state, acted.did));
            outcome.add(&format!("gpu-node/{id}"), told.map_err(Into::into))?;
        }
        outcome.finish()
    }
}

fn skips(asked: Vec<(String, String)>) -> Vec<Skip> {
    asked.into_iter().map(|(stage, reason)| Skip { stage, reason }).collect()
}

fn label(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').ok_or_else(|| format!("{text:?} must be KEY=VALUE"))?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

/// A secret, alone: into a file, or to standard output.
fn write(file: Option<std::fs::File>, secret: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    match file {
        Some(mut file) => Ok(writeln!(file, "{secret}")?),
        None => output::line(secret),
    }
}

//! `wardroom satellite`: the verbs of satellites.

use std::collections::BTreeMap;

use clap::{Args, Subcommand, ValueEnum};
use wardroom_api::{
    Envelope,
    satellite::{JoinTokenCreate, Reenable as Wanted, Revoke as Reason, Satellite as Shown, SatelliteCreate},
};

use crate::{
    connection::Connection,
    outcome::Outcome,
    output::{self, Whole},
    secret::SecretFile,
    targets::Targets,
    text::pair,
};

mod assign;
mod set;

/// Creates, revokes and re-enables satellites.
#[derive(Subcommand)]
pub(crate) enum Satellite {
    /// Creates a satellite; its one-time token is written once, alone, to standard output or into a file.
    Create(Create),
    /// Creates a satellite that registers with a SPIFFE ID; writes what its agent needs as JSON.
    JoinToken(JoinToken),
    /// Changes labels of satellites, and the interval they are given.
    Set(set::Set),
    /// Puts satellites into groups, and says which config they read.
    Assign(assign::Assign),
    /// Takes satellites out of groups, and gives them the built-in config back.
    Unassign(assign::Unassign),
    /// Blocks satellites from their next request on.
    Revoke(Revoke),
    /// Lets a revoked satellite come back, or gives a pending one a new token.
    Reenable(Reenable),
    /// Deletes satellites for good; their history stays.
    Delete(Delete),
}

#[derive(Args)]
pub(crate) struct Create {
    /// The name: lower case letters and digits, with single '.', '_' or '-' between them.
    name: String,
    #[command(flatten)]
    about: About,
    #[command(flatten)]
    secret: SecretFile,
    /// Write everything, token included, as json or yaml.
    #[arg(short, long, value_enum, value_name = "FORMAT", conflicts_with = "secret_file")]
    output: Option<Whole>,
    #[command(flatten)]
    connection: Connection,
}

/// What is said of every new satellite.
#[derive(Args)]
struct About {
    /// A group that it replicates. Can be repeated.
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// Its config.
    #[arg(long, value_name = "NAME")]
    config: Option<String>,
    /// A label, such as zone=berlin. Can be repeated.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// How often it shall beat, such as "@every 30s".
    #[arg(long, value_name = "INTERVAL")]
    heartbeat_interval: Option<String>,
}

/// How nodes prove themselves to SPIRE.
const METHODS: [&str; 3] = ["join_token", "x509pop", "sshpop"];

#[derive(Args)]
pub(crate) struct JoinToken {
    /// The name of the satellite.
    name: String,
    /// What its workload is recognised by, such as unix:uid:1000. Can be repeated.
    #[arg(long = "selector", value_name = "SELECTOR", required = true)]
    selectors: Vec<String>,
    /// The region in its SPIFFE ID.
    #[arg(long, value_name = "NAME")]
    region: Option<String>,
    /// How its node proves itself.
    #[arg(long, value_name = "METHOD", value_parser = METHODS)]
    method: Option<String>,
    /// How long the join token is valid; ten minutes unless told, a day at most.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    ttl: Option<u64>,
    /// The agent that vouches for it.
    #[arg(long, value_name = "SPIFFE-ID")]
    parent: Option<String>,
    #[command(flatten)]
    about: About,
    #[command(flatten)]
    secret: SecretFile,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args)]
pub(crate) struct Revoke {
    #[command(flatten)]
    targets: Targets,
    /// Why, for history.
    #[arg(long, value_name = "TEXT", alias = "comment")]
    reason: Option<String>,
}

#[derive(Args)]
pub(crate) struct Reenable {
    /// Its name.
    name: String,
    /// How it comes back.
    #[arg(long, value_enum, default_value = "refresh")]
    mode: Mode,
    /// Why, for history.
    #[arg(long, value_name = "TEXT", visible_alias = "reason")]
    comment: Option<String>,
    #[command(flatten)]
    secret: SecretFile,
    #[command(flatten)]
    connection: Connection,
}

/// How a satellite comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// The old credential may be exchanged once, within a time limit.
    Refresh,
    /// A new token; the old credential is void.
    Reissue,
    /// The old credential stays, for clients that cannot refresh.
    Keep,
}

#[derive(Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    targets: Targets,
}

impl Satellite {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Create(command) => command.run().await,
            Self::JoinToken(command) => command.run().await,
            Self::Set(command) => command.run().await,
            Self::Assign(command) => command.run().await,
            Self::Unassign(command) => command.run().await,
            Self::Revoke(command) => command.run().await,
            Self::Reenable(command) => command.run().await,
            Self::Delete(command) => command.run().await,
        }
    }
}

impl Create {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let About { groups, config, labels, heartbeat_interval } = self.about;
        let create = SatelliteCreate {
            name: self.name,
            groups: (!groups.is_empty()).then_some(groups),
            config_name: config,
            labels: BTreeMap::from_iter(labels),
            heartbeat_interval,
        };
        let client = self.connection.client()?;
        let paper = self.secret.open()?;
        let made = client.create_satellite(&create).await?;
        match self.output {
            Some(whole) => whole.write(&made)?,
            None => paper.write(&made.token)?,
        }
        output::note(&format!("satellite/{} created; its token is not shown again", made.data.name));
        Ok(())
    }
}

impl JoinToken {
    async fn run(self) -> anyhow::Result<()> {
        let About { groups, config, labels, heartbeat_interval } = self.about;
        let create = JoinTokenCreate {
            satellite_name: self.name,
            region: self.region,
            selectors: self.selectors,
            attestation_method: self.method,
            ttl_seconds: self.ttl,
            parent_agent_id: self.parent,
            groups: (!groups.is_empty()).then_some(groups),
            config_name: config,
            labels: BTreeMap::from_iter(labels),
            heartbeat_interval,
        };
        let client = self.connection.client()?;
        let paper = self.secret.open()?;
        let mut made = client.create_join_token(&create).await?;
        if self.secret.is_given()
            && let Some(token) = made.join_token.take()
        {
            paper.write(&token)?;
        }
        output::json(&made)
    }
}

impl Revoke {
    async fn run(self) -> anyhow::Result<()> {
        let (client, names) = self.targets.find::<Shown>("revoke").await?;
        let (reason, mut outcome) = (Reason { reason: self.reason }, Outcome::default());
        for name in &names {
            let revoked = client.revoke_satellite(name, &reason).await;
            if let (Ok(Envelope { message: Some(message), .. }), [_]) = (&revoked, names.as_slice()) {
                output::note(message);
            }
            let state = revoked.map(|revoked| revoked.data.state);
            outcome.add(&format!("satellite/{name}"), state.map_err(Into::into))?;
        }
        outcome.finish()
    }
}

impl Reenable {
    async fn run(self) -> anyhow::Result<()> {
        let mode = match self.mode {
            Mode::Refresh => "refresh",
            Mode::Reissue => "reissue",
            Mode::Keep => "keep",
        };
        let wanted = Wanted { mode: Some(mode.to_owned()), comment: self.comment };
        let client = self.connection.client()?;
        let paper = self.secret.open()?;
        let reenabled = client.reenable_satellite(&self.name, &wanted).await?;
        if let Some(token) = reenabled.token.or(reenabled.join_token) {
            paper.write(&token)?;
        }
        let message = reenabled.message.unwrap_or_default();
        output::note(&format!("satellite/{} {}: {message}", self.name, reenabled.data.state));
        Ok(())
    }
}

impl Delete {
    async fn run(self) -> anyhow::Result<()> {
        let (client, names) = self.targets.find::<Shown>("delete").await?;
        let mut outcome = Outcome::default();
        for name in &names {
            let deleted = client.delete_satellite(name).await;
            let deleted = deleted.map(|_| "deleted".to_owned()).map_err(Into::into);
            outcome.add(&format!("satellite/{name}"), deleted)?;
        }
        outcome.finish()
    }
}

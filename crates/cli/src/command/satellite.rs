//! `wardroom satellite`: the verbs of satellites.

use std::collections::BTreeMap;

use clap::{Args, Subcommand, ValueEnum, builder::NonEmptyStringValueParser};
use wardroom_api::{
    Envelope,
    client::Client,
    satellite::{
        JoinTokenCreate, Reenable as Wanted, Revoke as Blocked, Satellite as Shown, SatelliteCreate,
    },
};

use crate::{
    connection::Connection,
    locate::{Among, Target, locate},
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
    /// Creates a satellite that registers with a SPIFFE ID; writes the data for its agent as JSON.
    JoinToken(JoinToken),
    /// Changes the labels and heartbeat interval of satellites.
    Set(set::Set),
    /// Adds satellites to groups, and assigns their config.
    Assign(assign::Assign),
    /// Removes satellites from groups, or returns them to the built-in config.
    Unassign(assign::Unassign),
    /// Revokes satellites; they are refused from their next request on.
    Revoke(Revoke),
    /// Lets a revoked satellite return, or issues a new token for a pending one.
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

/// Options that every new satellite takes.
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
    /// The interval of its heartbeats, such as "@every 30s".
    #[arg(long, value_name = "INTERVAL")]
    heartbeat_interval: Option<String>,
}

/// How nodes prove themselves to SPIRE.
const METHODS: [&str; 3] = ["join_token", "x509pop", "sshpop"];

#[derive(Args)]
pub(crate) struct JoinToken {
    /// The name of the satellite.
    name: String,
    /// A selector of its workload, such as unix:uid:1000. Can be repeated.
    #[arg(long = "selector", value_name = "SELECTOR", required = true)]
    selectors: Vec<String>,
    /// The region in its SPIFFE ID.
    #[arg(long, value_name = "NAME")]
    region: Option<String>,
    /// How its node proves its identity.
    #[arg(long, value_name = "METHOD", value_parser = METHODS)]
    method: Option<String>,
    /// How long the join token is valid, at most a day; default: ten minutes.
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
    /// The reason, kept in history.
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
}

#[derive(Args)]
pub(crate) struct Reenable {
    /// Its name, its id or the start of its id.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    name: String,
    /// How it returns.
    #[arg(long, value_enum, default_value = "refresh")]
    mode: Mode,
    /// The reason, kept in history.
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    #[command(flatten)]
    secret: SecretFile,
    #[command(flatten)]
    connection: Connection,
}

/// How a satellite returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// It may exchange the old credential once, within a time limit.
    Refresh,
    /// It gets a new token; the old credential is void.
    Reissue,
    /// It keeps the old credential; for clients that cannot refresh.
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
        let (wanted, mut outcome) = (Blocked { comment: self.comment }, Outcome::default());
        let verb = async |client: &Client, id: &str| client.revoke_satellite(id, &wanted).await.map(drop);
        let Some((client, targets)) = self.targets.find::<Shown>("revoke", verb).await? else {
            return Ok(());
        };
        for Target { id, name } in &targets {
            let revoked = client.revoke_satellite(id, &wanted).await;
            if let (Ok(Envelope { message: Some(message), .. }), [_]) = (&revoked, targets.as_slice()) {
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
        let Target { id, name } = locate::<Shown>(&client, &self.name, Among::Living).await?;
        let paper = self.secret.open()?;
        let reenabled = client.reenable_satellite(&id, &wanted).await?;
        if let Some(token) = reenabled.token.or(reenabled.join_token) {
            paper.write(&token)?;
        }
        let message = reenabled.message.unwrap_or_default();
        output::note(&format!("satellite/{name} {}: {message}", reenabled.data.state));
        Ok(())
    }
}

impl Delete {
    async fn run(self) -> anyhow::Result<()> {
        let verb = async |client: &Client, id: &str| client.delete_satellite(id).await.map(drop);
        let Some((client, targets)) = self.targets.find::<Shown>("delete", verb).await? else {
            return Ok(());
        };
        let mut outcome = Outcome::default();
        for Target { id, name } in &targets {
            let deleted = client.delete_satellite(id).await;
            let deleted = deleted.map(|_| "deleted".to_owned()).map_err(Into::into);
            outcome.add(&format!("satellite/{name}"), deleted)?;
        }
        outcome.finish()
    }
}

//! `wardroom satellite assign` and `unassign`.

use clap::{Args, builder::NonEmptyStringValueParser};
use wardroom_api::{
    client::{self, Client},
    satellite::Satellite,
    satellite_config::ConfigAssignment,
    satellite_group::{Member, Membership},
};

use crate::{
    connection::Connection,
    exit::{Code, failure},
    locate::Target,
    outcome::{Consent, Outcome},
    table::or_none,
    targets::all,
};

/// Adds satellites to groups, and assigns their config.
#[derive(Args)]
pub(crate) struct Assign {
    #[command(flatten)]
    who: Who,
    /// The config.
    #[arg(long, value_name = "NAME")]
    config: Option<String>,
}

/// Removes satellites from groups, or returns them to the built-in config.
#[derive(Args)]
pub(crate) struct Unassign {
    #[command(flatten)]
    who: Who,
    /// Return to the built-in config.
    #[arg(long)]
    config: bool,
}

#[derive(Args)]
struct Who {
    /// Their names, ids or the starts of ids.
    #[arg(required = true, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    names: Vec<String>,
    /// A group. Can be repeated.
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    connection: Connection,
}

impl Assign {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let config = self.config.map(Some);
        self.who.change(Change::Join, config).await
    }
}

impl Unassign {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let config = self.config.then_some(None);
        self.who.change(Change::Leave, config).await
    }
}

#[derive(Clone, Copy)]
enum Change {
    Join,
    Leave,
}

impl Who {
    async fn change(self, change: Change, config: Option<Option<String>>) -> anyhow::Result<()> {
        if self.groups.is_empty() && config.is_none() {
            return Err(failure(Code::Usage, "give --group or --config"));
        }
        self.consent.ask(&format!("change {} satellites", self.names.len()), self.names.len())?;
        let client = self.connection.client()?;
        let mut outcome = Outcome::default();
        for Target { id, name } in all::<Satellite>(&client, &self.names).await? {
            let changed = one(&client, &id, &self.groups, change, config.as_ref()).await;
            outcome.add(&format!("satellite/{name}"), changed.map(describe).map_err(Into::into))?;
        }
        outcome.finish()
    }
}

/// Each step is a change of its own, and can be repeated.
async fn one(
    client: &Client,
    id: &str,
    groups: &[String],
    change: Change,
    config: Option<&Option<String>>,
) -> Result<Option<Member>, client::Error> {
    // Groups know their satellites by name.
    let satellite = client.satellite(id).await?.name;
    let mut member = None;
    for group in groups {
        let membership = Membership { satellite: satellite.clone(), group: group.clone() };
        member = Some(match change {
            Change::Join => client.join_satellite_group(&membership).await?,
            Change::Leave => client.leave_satellite_group(&membership).await?,
        });
    }
    if let Some(config) = config {
        let wanted = ConfigAssignment { satellite, config_name: config.clone() };
        member = Some(client.give_satellite_config(&wanted).await?);
    }
    Ok(member)
}

fn describe(member: Option<Member>) -> String {
    let Some(Member { groups, config, .. }) = member else { return "unchanged".to_owned() };
    let config = config.as_deref().unwrap_or("<built-in>");
    format!("groups {}, config {config}", or_none(Some(&groups.join(","))))
}

//! `wardroom device`: the verbs of devices.

use std::time::Duration;

use clap::{Args, Subcommand, builder::NonEmptyStringValueParser};
use wardroom_api::{
    client::Client,
    device::{Decommission as Asked, Device as Shown, DeviceAction, EnrollmentApproval, EnrollmentRequest},
};
use wardroom_core::{
    Named,
    device::{applications, lifecycle, summary, updated},
};

use super::until::{self, Goal, Progress, Sketch};
use crate::{
    connection::Connection, locate::Target, outcome::Outcome, progress::length, targets::Targets, text::pair,
};

/// Approves, revokes, reboots and decommissions devices, and waits for them.
#[derive(Subcommand)]
pub(crate) enum Device {
    /// Approves enrolment requests: their devices get a certificate.
    Approve(Approve),
    /// Denies enrolment requests.
    Deny(Verb),
    /// Revokes the certificates of devices; they are refused from their next request on.
    Revoke(Verb),
    /// Asks the agents of devices to reboot them.
    Reboot(Verb),
    /// Takes devices out of service for good; their agents wipe keys and data.
    Decommission(Decommission),
    /// Deletes devices and their enrolment requests; their history stays.
    Delete(Delete),
    /// Waits until devices have a status.
    Wait(Wait),
}

#[derive(Args)]
pub(crate) struct Wait {
    /// The names of the devices.
    #[arg(required = true, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    names: Vec<String>,
    /// What to wait for: updated=STATUS, summary=STATUS, applications=STATUS or lifecycle=STATUS.
    #[arg(long = "for", value_name = "GOAL", default_value = "updated=UpToDate", value_parser = goal)]
    goal: (About, String),
    /// The longest time to wait for all of them, such as 90s or 2h; default: no limit.
    #[arg(long, value_name = "TIME", value_parser = length)]
    wait_timeout: Option<Duration>,
    #[command(flatten)]
    connection: Connection,
}

/// A derived status of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    Summary,
    Updated,
    Applications,
    Lifecycle,
}

/// Reads `status=value`; refuses a value that no device can have.
fn goal(text: &str) -> Result<(About, String), String> {
    fn among<T: Named>(about: About, value: &str) -> Result<(About, String), String> {
        let names: Vec<_> = T::ALL.iter().map(|name| name.as_str()).collect();
        match names.contains(&value) {
            true => Ok((about, value.to_owned())),
            false => Err(format!("must be one of: {}", names.join(", "))),
        }
    }
    match text.split_once('=') {
        Some(("summary" | "state", value)) => among::<summary::Status>(About::Summary, value),
        Some(("updated", value)) => among::<updated::Status>(About::Updated, value),
        Some(("applications", value)) => among::<applications::Status>(About::Applications, value),
        Some(("lifecycle", value)) => among::<lifecycle::Status>(About::Lifecycle, value),
        Some(_) | None => {
            Err("write updated=STATUS, summary=STATUS, applications=STATUS or lifecycle=STATUS".to_owned())
        }
    }
}

impl Wait {
    async fn run(self) -> anyhow::Result<()> {
        let Self { names, goal: (about, wanted), wait_timeout, connection } = self;
        let judge = |device: &Shown| judged(device, about, &wanted);
        let sketch = |device: &Shown| {
            let updated = &device.status.as_ref()?.updated;
            Some(Sketch { parts: None, words: format!("{}: {}", updated.status, updated.info) })
        };
        let goal = Goal { judge: &judge, sketch: &sketch };
        until::all::<Shown>(&connection.client()?, &names, wait_timeout, &goal).await
    }
}

/// Whether a device has a status; one that is out of service will not be up to date any more.
fn judged(device: &Shown, about: About, wanted: &str) -> Progress {
    let Some(status) = &device.status else { return Progress::NotYet };
    let found = match about {
        About::Summary => &status.summary,
        About::Updated => &status.updated,
        About::Applications => &status.application_summary,
        About::Lifecycle => &status.lifecycle,
    };
    if found.status == wanted {
        return Progress::There(format!("{}: {}", found.status, found.info));
    }
    let is_over = status.lifecycle.status == lifecycle::Status::Decommissioned.as_str();
    match is_over {
        true => Progress::Never(format!("it is {}: {}", status.lifecycle.status, status.lifecycle.info)),
        false => Progress::NotYet,
    }
}

#[derive(Args)]
pub(crate) struct Approve {
    /// A label of the devices, such as site=berlin. Can be repeated.
    #[arg(long = "set-label", value_name = "KEY=VALUE", value_parser = pair)]
    set_labels: Vec<(String, String)>,
    #[command(flatten)]
    verb: Verb,
}

#[derive(Args)]
pub(crate) struct Decommission {
    /// End it without the agents, for devices that will not be heard again.
    #[arg(long)]
    finish: bool,
    #[command(flatten)]
    verb: Verb,
}

#[derive(Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    targets: Targets,
}

#[derive(Args)]
pub(crate) struct Verb {
    #[command(flatten)]
    targets: Targets,
    /// Why, for history.
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
}

impl Device {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Approve(Approve { set_labels, verb }) => {
                verb.decide(true, set_labels.into_iter().collect()).await
            }
            Self::Deny(verb) => verb.decide(false, Default::default()).await,
            Self::Revoke(verb) => {
                let action = DeviceAction { comment: verb.comment };
                let asked =
                    async |client: &Client, id: &str| client.revoke_device(id, &action).await.map(drop);
                let found = verb.targets.find::<Shown>("revoke", asked).await?;
                let Some((client, targets)) = found else { return Ok(()) };
                let mut outcome = Outcome::default();
                for Target { id, name } in &targets {
                    let done = client.revoke_device(id, &action).await;
                    let done = done.map(|_| "revoked".to_owned()).map_err(Into::into);
                    outcome.add(&format!("device/{name}"), done)?;
                }
                outcome.finish()
            }
            Self::Reboot(verb) => {
                let action = DeviceAction { comment: verb.comment };
                let asked =
                    async |client: &Client, id: &str| client.reboot_device(id, &action).await.map(drop);
                let found = verb.targets.find::<Shown>("reboot", asked).await?;
                let Some((client, targets)) = found else { return Ok(()) };
                let mut outcome = Outcome::default();
                for Target { id, name } in &targets {
                    let done = client.reboot_device(id, &action).await;
                    let done = done.map(|_| "asked to reboot".to_owned()).map_err(Into::into);
                    outcome.add(&format!("device/{name}"), done)?;
                }
                outcome.finish()
            }
            Self::Wait(wait) => wait.run().await,
            Self::Decommission(command) => command.run().await,
            Self::Delete(Delete { targets }) => {
                let asked = async |client: &Client, id: &str| client.delete_device(id).await.map(drop);
                let found = targets.find::<Shown>("delete", asked).await?;
                let Some((client, targets)) = found else { return Ok(()) };
                let mut outcome = Outcome::default();
                for Target { id, name } in &targets {
                    let done = client.delete_device(id).await;
                    let done = done.map(|_| "deleted".to_owned()).map_err(Into::into);
                    outcome.add(&format!("device/{name}"), done)?;
                }
                outcome.finish()
            }
        }
    }
}

impl Verb {
    async fn decide(
        self,
        approved: bool,
        labels: std::collections::BTreeMap<String, String>,
    ) -> anyhow::Result<()> {
        let (doing, done) = if approved { ("approve", "approved") } else { ("deny", "denied") };
        let approval = EnrollmentApproval { approved, labels, comment: self.comment };
        let asked = async |client: &Client, id: &str| client.decide_enrollment(id, &approval).await.map(drop);
        let found = self.targets.find::<EnrollmentRequest>(doing, asked).await?;
        let Some((client, targets)) = found else { return Ok(()) };
        let mut outcome = Outcome::default();
        for Target { id, name } in &targets {
            let decided = client.decide_enrollment(id, &approval).await;
            let decided = decided.map(|_| done.to_owned()).map_err(Into::into);
            outcome.add(&format!("enrollmentrequest/{name}"), decided)?;
        }
        outcome.finish()
    }
}

impl Decommission {
    async fn run(self) -> anyhow::Result<()> {
        let asked = Asked { target: None, finish: self.finish, comment: self.verb.comment };
        let verb = async |client: &Client, id: &str| client.decommission_device(id, &asked).await.map(drop);
        let found = self.verb.targets.find::<Shown>("decommission", verb).await?;
        let Some((client, targets)) = found else { return Ok(()) };
        let mut outcome = Outcome::default();
        for Target { id, name } in &targets {
            let done = client.decommission_device(id, &asked).await;
            let done = done.map(|device| lifecycle(&device)).map_err(Into::into);
            outcome.add(&format!("device/{name}"), done)?;
        }
        outcome.finish()
    }
}

fn lifecycle(device: &Shown) -> String {
    device.status.as_ref().map(|status| status.lifecycle.status.to_lowercase()).unwrap_or_default()
}

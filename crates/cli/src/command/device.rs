//! `wardroom device`: the verbs of devices.

use clap::{Args, Subcommand};
use wardroom_api::device::{
    Decommission as Asked, Device as Shown, DeviceAction, EnrollmentApproval, EnrollmentRequest,
};

use crate::{locate::Target, outcome::Outcome, targets::Targets, text::pair};

/// Approves, revokes, reboots and decommissions devices.
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
                let (client, targets) = verb.targets.find::<Shown>("revoke").await?;
                let action = DeviceAction { comment: verb.comment };
                let mut outcome = Outcome::default();
                for Target { id, name } in &targets {
                    let done = client.revoke_device(id, &action).await;
                    let done = done.map(|_| "revoked".to_owned()).map_err(Into::into);
                    outcome.add(&format!("device/{name}"), done)?;
                }
                outcome.finish()
            }
            Self::Reboot(verb) => {
                let (client, targets) = verb.targets.find::<Shown>("reboot").await?;
                let action = DeviceAction { comment: verb.comment };
                let mut outcome = Outcome::default();
                for Target { id, name } in &targets {
                    let done = client.reboot_device(id, &action).await;
                    let done = done.map(|_| "asked to reboot".to_owned()).map_err(Into::into);
                    outcome.add(&format!("device/{name}"), done)?;
                }
                outcome.finish()
            }
            Self::Decommission(command) => command.run().await,
            Self::Delete(Delete { targets }) => {
                let (client, targets) = targets.find::<Shown>("delete").await?;
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
        let (client, targets) = self.targets.find::<EnrollmentRequest>(doing).await?;
        let approval = EnrollmentApproval { approved, labels, comment: self.comment };
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
        let (client, targets) = self.verb.targets.find::<Shown>("decommission").await?;
        let asked = Asked { target: None, finish: self.finish, comment: self.verb.comment };
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

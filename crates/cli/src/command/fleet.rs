//! `wardroom fleet`: the verbs of fleets.

use std::time::Duration;

use clap::{Args, Subcommand, builder::NonEmptyStringValueParser};
use wardroom_api::{
    client::Client,
    device::{DeviceAction, Fleet as Shown},
};

use super::until::{self, Goal, Progress, Sketch};
use crate::{connection::Connection, locate::Target, outcome::Outcome, progress::length, targets::Targets};

/// Pauses, resumes and rolls back the rollouts of fleets, and waits for them.
#[derive(Subcommand)]
pub(crate) enum Fleet {
    /// Pauses rollouts: no device is given the template until they are resumed.
    Pause(Verb),
    /// Resumes rollouts; those that stand because devices failed go on with the others.
    Resume(Verb),
    /// Brings back the templates that the fleets had before.
    Rollback(Verb),
    /// Waits until rollouts have ended; fails with code 4 as soon as one is paused or suspended.
    Wait(Wait),
}

#[derive(Args)]
pub(crate) struct Verb {
    #[command(flatten)]
    targets: Targets,
    /// Why, for history.
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
}

#[derive(Args)]
pub(crate) struct Wait {
    /// The names of the fleets.
    #[arg(required = true, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    names: Vec<String>,
    /// The longest time to wait for all of them, such as 90s or 2h; default: no limit.
    #[arg(long, value_name = "TIME", value_parser = length)]
    wait_timeout: Option<Duration>,
    #[command(flatten)]
    connection: Connection,
}

impl Fleet {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Pause(verb) => verb.run("pause").await,
            Self::Resume(verb) => verb.run("resume").await,
            Self::Rollback(verb) => verb.run("rollback").await,
            Self::Wait(Wait { names, wait_timeout, connection }) => {
                let goal = Goal { judge: &judged, sketch: &sketched };
                until::all::<Shown>(&connection.client()?, &names, wait_timeout, &goal).await
            }
        }
    }
}

impl Verb {
    async fn run(self, verb: &str) -> anyhow::Result<()> {
        let action = DeviceAction { comment: self.comment };
        let asked = async |client: &Client, id: &str| client.act_on_fleet(id, verb, &action).await.map(drop);
        let Some((client, targets)) = self.targets.find::<Shown>(verb, asked).await? else { return Ok(()) };
        let mut outcome = Outcome::default();
        for Target { id, name } in &targets {
            let done = client.act_on_fleet(id, verb, &action).await;
            outcome.add(&format!("fleet/{name}"), done.map(|fleet| said(&fleet)).map_err(Into::into))?;
        }
        outcome.finish()
    }
}

/// The state of a rollout, and the version that it brings.
fn said(fleet: &Shown) -> String {
    let Some(rollout) = fleet.status.as_ref().map(|status| &status.rollout) else { return String::new() };
    let version = &rollout.template_version;
    match &rollout.restores {
        Some(restored) => format!("{}: template version {version}, which is {restored} again", rollout.state),
        None => format!("{}: template version {version}", rollout.state),
    }
}

/// How many devices run the template.
fn sketched(fleet: &Shown) -> Option<Sketch> {
    let rollout = &fleet.status.as_ref()?.rollout;
    let all = rollout.updated + rollout.updating + rollout.failed + rollout.waiting;
    Some(Sketch {
        parts: Some((rollout.updated, all)),
        words: format!("{}: {}", rollout.state, rollout.info),
    })
}

/// Whether a rollout has ended, or stands until a person acts.
fn judged(fleet: &Shown) -> Progress {
    let Some(rollout) = fleet.status.as_ref().map(|status| &status.rollout) else { return Progress::NotYet };
    match &*rollout.state {
        "Inactive" => Progress::There(format!("Inactive: {}", rollout.info)),
        state @ ("Paused" | "Suspended") => {
            let causes = rollout.causes.iter().map(|cause| format!("\n  {cause}")).collect::<String>();
            let next = format!("\nnext: `wardroom why fleet {}`", fleet.metadata.name);
            Progress::Never(format!("it is {state}: {}{causes}{next}", rollout.info))
        }
        _ => Progress::NotYet,
    }
}

#[cfg(test)]
mod tests {
    use wardroom_api::device::{FleetStatus, RolloutStatus};

    use super::*;

    #[test]
    fn a_rollout_that_stands_is_not_waited_for() {
        let fleet = |state: &str| {
            let causes = vec!["device d1 failed: no room".to_owned()];
            let rollout = RolloutStatus { state: state.to_owned(), causes, ..RolloutStatus::default() };
            Shown { status: Some(FleetStatus { rollout, ..FleetStatus::default() }), ..Shown::default() }
        };
        assert!(matches!(judged(&fleet("Inactive")), Progress::There(_)));
        assert_eq!(judged(&fleet("Active")), Progress::NotYet);
        assert_eq!(judged(&fleet("Waiting")), Progress::NotYet);
        let Progress::Never(why) = judged(&fleet("Suspended")) else { panic!() };
        assert!(why.contains("d1 failed: no room") && why.contains("wardroom why fleet"), "{why}");
    }
}

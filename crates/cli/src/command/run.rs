//! `wardroom run`: the operator actions on runs, a verb each.

use clap::{Args, Subcommand};
use wardroom_api::{
    client::Client,
    run::{Run as Shown, RunAction},
};
use wardroom_core::run::action::Action;
use wardroom_server::platform::clock::Clock;

use crate::{
    exit::{Code, failure},
    locate::Target,
    outcome::Outcome,
    progress::{Patience, Wait, Wish, outlook},
    secret::SecretFile,
    targets::Targets,
    verbs::{self, Verb},
};

/// Acts on runs; repeating an action has no further effect.
#[derive(Subcommand)]
pub(crate) enum Run {
    /// Waits until runs end, and shows their progress; fails when one needs an operator.
    #[command(mut_arg("yes", |yes| yes.hide(true)), mut_arg("dry_run", |arg| arg.hide(true)), mut_arg("max", |arg| arg.hide(true)))]
    Wait(WaitFor),
    #[command(flatten)]
    Act(Verb<Action, Act>),
}

#[derive(Args)]
pub(crate) struct WaitFor {
    #[command(flatten)]
    targets: Targets,
    #[command(flatten)]
    patience: Patience,
}

#[derive(Args)]
pub(crate) struct Act {
    #[command(flatten)]
    targets: Targets,
    /// The reason, kept in history.
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Abandon the run without undoing anything; clean up by hand. Needs a comment and the role admin.
    #[arg(long, requires = "comment")]
    abandon: bool,
    /// The digest of the observation to adopt, as `wardroom describe run NAME` shows it.
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,
    #[command(flatten)]
    secret: SecretFile,
    #[command(flatten)]
    wait: Wait,
}

impl verbs::Action for Action {
    fn lacks(self) -> Vec<&'static str> {
        match self {
            Self::Cancel => vec!["digest", "secret_file"],
            Self::AdoptObservedState => vec!["abandon", "secret_file"],
            Self::RetryStage | Self::Resume => vec!["abandon", "digest"],
            Self::Rerun | Self::RestartClean => vec!["abandon", "digest", "secret_file"],
            Self::MarkManualInterventionRequired => {
                vec!["abandon", "digest", "secret_file", "wait", "wait_timeout"]
            }
        }
    }
}

impl Run {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Wait(WaitFor { targets, patience }) => {
                let (client, runs) = targets.look::<Shown>().await?;
                patience.until_over(&client, &runs, Wish::Done).await
            }
            Self::Act(Verb { action, arguments }) => arguments.run(action).await,
        }
    }
}

impl Act {
    async fn run(self, action: Action) -> anyhow::Result<()> {
        if action == Action::AdoptObservedState && self.digest.is_none() {
            let look = "give --digest: `wardroom describe run NAME` shows the observation and its digest";
            return Err(failure(Code::Usage, look));
        }
        let wanted = RunAction {
            comment: self.comment,
            abandon: self.abandon,
            expected_observation_digest: self.digest,
        };
        let verb =
            async |client: &Client, id: &str| client.act_on_run(id, action.as_str(), &wanted).await.map(drop);
        let found = self.targets.find::<Shown>(action.as_str(), verb).await?;
        let Some((client, targets)) = found else { return Ok(()) };
        if targets.len() > 1 && self.secret.is_given() {
            return Err(failure(Code::Usage, "--secret-file holds the token of one run: select one"));
        }
        let mut outcome = Outcome::default();
        for Target { id, name } in &targets {
            let (paper, name) = (self.secret.open()?, format!("run/{name}"));
            let acted = client.act_on_run(id, action.as_str(), &wanted).await;
            let told = acted.map(|acted| {
                let outlook = outlook(&acted.run, Clock.now());
                (format!("{} ({}){outlook}", acted.run.state, acted.result), acted.token)
            });
            match told {
                Ok((told, Some(token))) => {
                    paper.write(&token)?;
                    outcome.note(&name, &told);
                }
                Ok((told, None)) => outcome.add(&name, Ok(told))?,
                Err(error) => outcome.add(&name, Err(error.into()))?,
            }
        }
        outcome.finish()?;
        let wish = if action == Action::Cancel { Wish::Cancelled } else { Wish::Done };
        self.wait.until_over(&client, &targets, wish).await
    }
}

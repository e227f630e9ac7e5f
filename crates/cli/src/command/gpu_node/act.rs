//! The actions of operators on GPU nodes, a verb each.

use clap::Args;
use wardroom_api::{
    client::Client,
    gpu_node::{ActionRequest, GpuNode},
};
use wardroom_core::gpu_node::action::Action;

use super::skips;
use crate::{
    exit::{Code, failure},
    locate::Target,
    outcome::Outcome,
    progress::{Wait, Wish},
    secret::SecretFile,
    targets::Targets,
    text, verbs,
};

#[derive(Args)]
pub(crate) struct Act {
    #[command(flatten)]
    targets: Targets,
    /// A stage to skip for a dead host, with a comment: drain_node="the board burnt". Can be repeated.
    #[arg(long, value_name = "STAGE=COMMENT", value_parser = text::skip)]
    skip: Vec<(String, String)>,
    /// Use the node although its cleanup was not proven; needs a comment.
    #[arg(long, requires = "comment")]
    unproven: bool,
    /// The reason, kept in history.
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    #[command(flatten)]
    secret: SecretFile,
    #[command(flatten)]
    wait: Wait,
}

impl verbs::Action for Action {
    fn lacks(self) -> Vec<&'static str> {
        match self {
            Self::Retire | Self::Remove => vec!["secret_file", "unproven"],
            Self::Resume => vec!["skip", "unproven"],
            Self::StopDrain | Self::RollbackRemove => vec!["skip", "secret_file", "unproven"],
            Self::Recover => vec!["skip", "secret_file", "wait", "wait_timeout"],
            Self::Quarantine | Self::Reactivate => {
                vec!["skip", "secret_file", "wait", "wait_timeout", "unproven"]
            }
        }
    }
}

impl Act {
    pub(crate) async fn run(self, action: Action) -> anyhow::Result<()> {
        let wanted = ActionRequest { comment: self.comment, skip: skips(self.skip), unproven: self.unproven };
        let verb = async |client: &Client, id: &str| {
            client.act_on_gpu_node(id, action.as_str(), &wanted).await.map(drop)
        };
        let found = self.targets.find::<GpuNode>(action.as_str(), verb).await?;
        let Some((client, targets)) = found else { return Ok(()) };
        if targets.len() > 1 && self.secret.is_given() {
            return Err(failure(Code::Usage, "--secret-file holds the secret of one node: select one"));
        }
        let (mut outcome, mut runs) = (Outcome::default(), Vec::new());
        for Target { id, name: called } in &targets {
            let paper = self.secret.open()?;
            let name = format!("gpu-node/{called}");
            match client.act_on_gpu_node(id, action.as_str(), &wanted).await {
                Ok(acted) => {
                    let told = format!("{} ({})", acted.node.state, acted.did);
                    runs.extend(acted.owner.map(|id| Target { id, name: called.clone() }));
                    match &acted.token {
                        Some(token) => {
                            paper.write(token)?;
                            outcome.note(&name, &told);
                        }
                        None => outcome.add(&name, Ok(told))?,
                    }
                }
                Err(error) => outcome.add(&name, Err(error.into()))?,
            }
        }
        outcome.finish()?;
        let stops = matches!(action, Action::StopDrain | Action::RollbackRemove);
        let wish = if stops { Wish::Cancelled } else { Wish::Done };
        self.wait.until_over(&client, &runs, wish).await
    }
}

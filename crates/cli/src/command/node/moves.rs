//! `wardroom node move`, and the verbs that are moves: `approve` and `retire`.

use clap::Args;
use wardroom_api::{
    client::Client,
    node::{Node, StateTransition},
};

use crate::{locate::Target, outcome::Outcome, targets::Targets};

/// Nodes, and why.
#[derive(Args)]
pub(crate) struct Verb {
    #[command(flatten)]
    targets: Targets,
    /// The reason, kept in history.
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
}

/// Moves nodes to a state.
#[derive(Args)]
pub(crate) struct Move {
    /// The new state; `wardroom why node NAME` lists the possible ones.
    #[arg(long, value_name = "STATE")]
    to: String,
    /// Ignore the retry limit and clear the counters; allows no other move.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    verb: Verb,
}

impl Verb {
    pub(crate) async fn run(self, state: &str) -> anyhow::Result<()> {
        self.go(StateTransition { state: state.to_owned(), ..StateTransition::default() }).await
    }

    async fn go(self, wanted: StateTransition) -> anyhow::Result<()> {
        let wanted = StateTransition { comment: self.comment, ..wanted };
        let verb = async |client: &Client, id: &str| client.move_node(id, &wanted).await.map(drop);
        let found = self.targets.find::<Node>(&format!("move to {}", wanted.state), verb).await?;
        let Some((client, targets)) = found else { return Ok(()) };
        let mut outcome = Outcome::default();
        for Target { id, name } in &targets {
            let moved = client.move_node(id, &wanted).await;
            outcome.add(&format!("node/{name}"), moved.map(|node| node.state).map_err(Into::into))?;
        }
        outcome.finish()
    }
}

impl Move {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        self.verb.go(StateTransition { state: self.to, comment: None, force: self.force }).await
    }
}

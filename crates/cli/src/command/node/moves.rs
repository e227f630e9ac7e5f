//! `wardroom node move`, and the verbs that are moves: `approve` and `retire`.

use std::collections::HashMap;

use clap::Args;
use wardroom_api::{
    Problem,
    client::{self, Client},
    node::{BulkItem, BulkTransition, Node, StateTransition},
};

use crate::{locate::Target, outcome::Outcome, targets::Targets};

/// Most nodes in one request.
const MOST: usize = 1000;

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
        let (client, targets) = self.targets.find::<Node>(&format!("move to {}", wanted.state)).await?;
        let mut outcome = Outcome::default();
        if let [Target { id, name }] = targets.as_slice() {
            let moved = client.move_node(id, &wanted).await;
            outcome.add(&format!("node/{name}"), moved.map(|node| node.state).map_err(Into::into))?;
        } else {
            for targets in targets.chunks(MOST) {
                let StateTransition { state, comment, force } = wanted.clone();
                let node_ids = targets.iter().map(|target| target.id.clone()).collect();
                let wanted = BulkTransition { node_ids, state, comment, force };
                move_many(&client, &wanted, targets, &mut outcome).await?;
            }
        }
        outcome.finish()
    }
}

impl Move {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        self.verb.go(StateTransition { state: self.to, comment: None, force: self.force }).await
    }
}

async fn move_many(
    client: &Client,
    wanted: &BulkTransition,
    targets: &[Target],
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let names: HashMap<_, _> = targets.iter().map(|target| (&*target.id, &*target.name)).collect();
    for BulkItem { id, status, state, problem } in client.move_nodes(wanted).await?.items {
        let result = match (state, problem) {
            (_, Some(problem)) => {
                let asked = format!("/api/v1/nodes/{id}");
                Err(client::Error::Problem(Box::new(Problem { asked, ..problem })))
            }
            (Some(state), None) => Ok(state),
            (None, None) => {
                Err(client::Error::Unexpected { status, detail: "neither moved nor refused".to_owned() })
            }
        };
        let name = names.get(&*id).copied().unwrap_or(&id);
        outcome.add(&format!("node/{name}"), result.map_err(Into::into))?;
    }
    Ok(())
}

//! `wardroom node`: the verbs of nodes.

use clap::Subcommand;

mod assign;
pub(crate) mod create;
mod delete;
mod moves;

/// Registers, moves and changes nodes.
#[derive(Subcommand)]
pub(crate) enum Node {
    /// Registers a node.
    Create(create::Create),
    /// Approves discovered nodes: they install at their next boot.
    Approve(moves::Verb),
    /// Moves nodes to a state.
    Move(moves::Move),
    /// Sets the workflow, group, hostname and labels of nodes.
    Assign(assign::Assign),
    /// Takes nodes out of service for good.
    Retire(moves::Verb),
    /// Deletes retired nodes; their history stays.
    Delete(delete::Delete),
}

impl Node {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Create(command) => command.run().await,
            Self::Approve(verb) => verb.run("pending").await,
            Self::Move(command) => command.run().await,
            Self::Assign(command) => command.run().await,
            Self::Retire(verb) => verb.run("retired").await,
            Self::Delete(command) => command.run().await,
        }
    }
}

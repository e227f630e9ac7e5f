//! The kinds that commands take, by every name people use.

use clap::ValueEnum;

/// A kind of resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Machines that are installed over the network.
    #[value(name = "nodes", aliases = ["node", "no"])]
    Node,
    /// Install profiles.
    #[value(name = "workflows", aliases = ["workflow", "wf"])]
    Workflow,
    /// Groups of devices and of users.
    #[value(name = "groups", aliases = ["group", "gr"])]
    Group,
    /// Registries at the edge.
    #[value(name = "satellites", aliases = ["satellite", "sat"])]
    Satellite,
    /// API tokens.
    #[value(name = "tokens", aliases = ["token", "tok"])]
    Token,
}

impl Kind {
    /// The name on the wire.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Workflow => "workflow",
            Self::Group => "group",
            Self::Satellite => "satellite",
            Self::Token => "token",
        }
    }
}

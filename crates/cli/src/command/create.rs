//! `wardroom create`.

use clap::{Args, Subcommand, ValueEnum};
use wardroom_api::{
    group::{GroupSpec, GroupType},
    workflow::WorkflowSpec,
};

use super::{gpu_node, node, satellite, token};
use crate::{
    connection::Connection,
    view::{Made, print_made},
};

mod cluster;
mod enrollment_token;
mod fleet;
mod satellite_config;
mod satellite_group;
mod site;

/// Creates a resource.
#[derive(Subcommand)]
pub(crate) enum Create {
    /// Registers a node.
    Node(node::create::Create),
    /// Creates a workflow: an install profile.
    Workflow(Workflow),
    /// Creates a group of devices or of users.
    Group(Group),
    /// Registers a GPU node.
    GpuNode(gpu_node::create::Create),
    /// Creates a site: a MAAS that manages machines.
    Site(site::Site),
    /// Creates a satellite; its one-time token is written once.
    Satellite(satellite::Create),
    /// Creates a satellite group: artifacts that satellites replicate.
    SatelliteGroup(satellite_group::SatelliteGroup),
    /// Creates a satellite config: settings that satellites read.
    SatelliteConfig(satellite_config::SatelliteConfig),
    /// Creates a token with which devices ask to be enrolled; its secret is written once.
    EnrollmentToken(enrollment_token::EnrollmentToken),
    /// Creates a fleet: devices that get their spec from one template.
    Fleet(fleet::Fleet),
    /// Creates a cluster.
    Cluster(cluster::Cluster),
    /// Creates a node pool of a cluster.
    #[command(name = "nodepool", alias = "node-pool")]
    NodePool(cluster::NodePool),
    /// Creates an API token; its secret is written once.
    Token(token::Create),
}

#[derive(Args)]
pub(crate) struct Workflow {
    /// The name.
    name: String,
    /// The URL of the kernel.
    #[arg(long, value_name = "URL")]
    kernel: String,
    /// The URL of an initial RAM disk. Can be repeated.
    #[arg(long, value_name = "URL")]
    initrd: Vec<String>,
    /// The arguments of the kernel.
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    arguments: String,
    /// The URL of the image that the installer writes.
    #[arg(long, value_name = "URL")]
    image: Option<String>,
    /// Nodes become active when the install is complete.
    #[arg(long)]
    promote: bool,
    #[command(flatten)]
    made: Made,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args)]
pub(crate) struct Group {
    /// The name.
    name: String,
    /// What the group contains.
    #[arg(long = "type", value_enum, default_value = "device", value_name = "TYPE")]
    members: Members,
    /// The group above it, whose settings it inherits.
    #[arg(long, value_name = "NAME")]
    parent: Option<String>,
    /// Whether installed nodes become active without approval; default: inherited.
    #[arg(long, value_name = "true|false")]
    auto_promote: Option<bool>,
    #[command(flatten)]
    made: Made,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Members {
    /// Nodes.
    Device,
    /// Users, whose tokens name it.
    User,
}

impl Create {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Node(create) => create.run().await,
            Self::Workflow(workflow) => workflow.run().await,
            Self::Group(group) => group.run().await,
            Self::GpuNode(create) => create.run().await,
            Self::Site(site) => site.run().await,
            Self::Satellite(create) => create.run().await,
            Self::SatelliteGroup(group) => group.run().await,
            Self::SatelliteConfig(config) => config.run().await,
            Self::EnrollmentToken(token) => token.run().await,
            Self::Fleet(create) => create.run().await,
            Self::Cluster(create) => create.run().await,
            Self::NodePool(create) => create.run().await,
            Self::Token(create) => create.run().await,
        }
    }
}

impl Workflow {
    async fn run(self) -> anyhow::Result<()> {
        let Self { name, kernel, initrd, arguments, image, promote, made, connection } = self;
        let spec = WorkflowSpec { name, kernel, initrd, arguments, image, promote };
        print_made(&made, &connection.client()?.create_workflow(&spec).await?)
    }
}

impl Group {
    async fn run(self) -> anyhow::Result<()> {
        let type_ = match self.members {
            Members::Device => GroupType::Device,
            Members::User => GroupType::User,
        };
        let (name, parent_id, auto_promote) = (self.name, self.parent, self.auto_promote);
        let spec = GroupSpec { name, type_, parent_id, auto_promote };
        print_made(&self.made, &self.connection.client()?.create_group(&spec).await?)
    }
}

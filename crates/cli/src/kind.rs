//! The kinds that commands take, by every name people use, and the type behind each.
//!
//! A new kind is a variant here, its name in [`Kind::as_str`], its type in [`with_type!`], and `view/KIND.rs` with its columns
//! (`View`) and its calls (`Resource`: page, find, delete, the commands for its actions). `get`, `describe`, `why`, `history`,
//! `delete` and the lookup of names follow from these; its own verbs are `command/KIND.rs` and a line in `arguments.rs`.

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
    /// Bare-metal machines with GPUs.
    #[value(name = "gpu-nodes", aliases = ["gpu-node", "gpunodes", "gpunode", "gpu", "gn"])]
    GpuNode,
    /// Work on GPU nodes.
    #[value(name = "runs", aliases = ["run"])]
    Run,
    /// The MAAS servers that manage machines.
    #[value(name = "sites", aliases = ["site"])]
    Site,
    /// Registries at the edge.
    #[value(name = "satellites", aliases = ["satellite", "sat"])]
    Satellite,
    /// Artifacts that satellites replicate.
    #[value(name = "satellite-groups", aliases = ["satellite-group", "satellitegroups", "satellitegroup", "sg"])]
    SatelliteGroup,
    /// The settings that satellites read.
    #[value(name = "satellite-configs", aliases = ["satellite-config", "satelliteconfigs", "satelliteconfig", "sc"])]
    SatelliteConfig,
    /// What reports on clusters and node pools.
    #[value(name = "adapters", aliases = ["adapter", "ad"])]
    Adapter,
    /// Edge machines with an agent.
    #[value(name = "devices", aliases = ["device", "dev"])]
    Device,
    /// Devices that get their spec from one template.
    #[value(name = "fleets", aliases = ["fleet", "fl"])]
    Fleet,
    /// Requests of devices to be enrolled.
    #[value(name = "enrollmentrequests", aliases = ["enrollmentrequest", "enrollment-requests", "enrollment-request", "er"])]
    EnrollmentRequest,
    /// Tokens with which devices ask to be enrolled.
    #[value(name = "enrollmenttokens", aliases = ["enrollmenttoken", "enrollment-tokens", "enrollment-token", "et"])]
    EnrollmentToken,
    /// What people want adapters to bring about.
    #[value(name = "clusters", aliases = ["cluster", "cl"])]
    Cluster,
    /// Parts of clusters.
    #[value(name = "nodepools", aliases = ["nodepool", "node-pools", "node-pool", "np"])]
    NodePool,
    /// Many members that fell silent together.
    #[value(name = "incidents", aliases = ["incident", "inc"])]
    Incident,
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
            Self::GpuNode => "gpu-node",
            Self::Run => "run",
            Self::Site => "site",
            Self::Satellite => "satellite",
            Self::SatelliteGroup => "satellite-group",
            Self::SatelliteConfig => "satellite-config",
            Self::Adapter => "adapter",
            Self::Device => "device",
            Self::Fleet => "fleet",
            Self::EnrollmentRequest => "enrollmentrequest",
            Self::EnrollmentToken => "enrollmenttoken",
            Self::Cluster => "cluster",
            Self::NodePool => "nodepool",
            Self::Incident => "incident",
            Self::Token => "token",
        }
    }
}

/// Runs code with the type of a kind; the only mapping from kinds to types.
macro_rules! with_type {
    ($kind:expr, $T:ident => $do:expr) => {
        with_type!(@ $kind, $T => $do,
            Node => node::Node, Workflow => workflow::Workflow, Group => group::Group,
            GpuNode => gpu_node::GpuNode, Run => run::Run, Site => site::Site,
            Satellite => satellite::Satellite, SatelliteGroup => satellite_group::SatelliteGroup,
            SatelliteConfig => satellite_config::SatelliteConfig, Adapter => adapter::Adapter, Device => device::Device, Fleet => device::Fleet,
            EnrollmentRequest => device::EnrollmentRequest, EnrollmentToken => device::EnrollmentToken,
            Cluster => cluster::Cluster, NodePool => cluster::NodePool, Incident => liveness::Incident,
            Token => token::Token)
    };
    (@ $kind:expr, $T:ident => $do:expr, $($Kind:ident => $module:ident::$Type:ident),+) => {
        match $kind {
            $($crate::kind::Kind::$Kind => {
                type $T = wardroom_api::$module::$Type;
                $do
            })+
        }
    };
}
pub(crate) use with_type;

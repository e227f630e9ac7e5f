//! GPU nodes: bare-metal machines that a MAAS manages, or that people bootstrap by hand.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::action::Action;

pub mod agent;

/// A GPU node in the inventory: its coarse state, without the work on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuNode {
    /// Names the node for ever.
    pub id: String,
    /// The name of the host.
    pub hostname: String,
    /// The site that manages it; absent for a node that is bootstrapped by hand.
    pub site: Option<String>,
    /// Where it is in its life.
    #[serde(rename = "status")]
    pub state: String,
    /// Whether it was deleted: its record and its history stay.
    pub deleted: bool,
    /// Whether work may be scheduled on it now: it is active and its last checks passed.
    pub schedulable: bool,
    /// MACs, lower case with colons; the first is the one it boots from.
    pub macs: Vec<String>,
    /// Where its BMC is.
    pub bmc: Option<Bmc>,
    /// Which model it is.
    pub model: Option<String>,
    /// Its serial number.
    pub serial_number: Option<String>,
    /// Labels, for selectors.
    pub labels: BTreeMap<String, String>,
    /// Whether its agent has enrolled and may speak for it.
    pub enrolled: bool,
    /// Whether the identity on the host is still there: no uninstall has completed.
    pub identity_kept: bool,
    /// MAAS's id of the machine, once it is known.
    pub system_id: Option<String>,
    /// The newest run of the node.
    pub run: Option<String>,
    /// When its agent was last heard.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_seen: Option<Timestamp>,
    /// When it entered its state.
    #[schema(value_type = String, format = DateTime)]
    pub state_changed_at: Timestamp,
    /// When it was registered.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When anything about it last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// The board management controller of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Bmc {
    /// Its address, such as `https://10.0.0.7`.
    pub address: String,
    /// Where user and password are found: `file:…` or `env:…`; never the secret itself.
    pub credential: String,
    /// Which system of the BMC; its only one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
}

/// Corrects the data of a node. Absent fields keep their values, null clears one. The next attempt of a run uses it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuNodePatch {
    /// The name of the host, unique among the nodes there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// All its MACs, the one it boots from first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub macs: Option<Vec<String>>,
    /// Where its BMC is.
    #[serde(default, deserialize_with = "crate::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Bmc>)]
    pub bmc: Option<Option<Bmc>>,
    /// Which model it is.
    #[serde(default, deserialize_with = "crate::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub model: Option<Option<String>>,
    /// Its serial number.
    #[serde(default, deserialize_with = "crate::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub serial_number: Option<Option<String>>,
    /// Labels to set; a label that is null is removed, others stay.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, Option<String>>,
}

/// Registers a node. With a site it is onboarded through MAAS at once; without one a token for a bootstrap by hand is
/// issued.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuNodeCreate {
    /// The name of the host, unique among the nodes there are.
    pub hostname: String,
    /// The site that manages the machine.
    #[serde(default)]
    pub site: Option<String>,
    /// MACs with colons or hyphens; the first is the one it boots from. A site needs at least one.
    #[serde(default)]
    pub macs: Vec<String>,
    /// Where its BMC is.
    #[serde(default)]
    pub bmc: Option<Bmc>,
    /// Which model it is.
    #[serde(default)]
    pub model: Option<String>,
    /// Its serial number.
    #[serde(default)]
    pub serial_number: Option<String>,
    /// Labels, for selectors.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// A new node, or one with a new bootstrap token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewGpuNode {
    /// The node.
    #[serde(flatten)]
    pub node: GpuNode,
    /// The bootstrap token, shown only now; absent for a node that MAAS deploys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Until when the token can be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub token_expires_at: Option<Timestamp>,
}

/// The token stays out.
impl std::fmt::Debug for NewGpuNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewGpuNode").field("node", &self.node).finish_non_exhaustive()
    }
}

/// Starts an onboarding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OnboardingCreate {
    /// The site to onboard through; the node's own when absent.
    #[serde(default)]
    pub site: Option<String>,
    /// Why, for history.
    #[serde(default)]
    pub comment: Option<String>,
}

/// Starts a decommission.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecommissionCreate {
    /// `soft_reset`, `storage_cleanup`, `reimage` or `full_decommission`.
    pub mode: String,
    /// Ends running work on the node instead of waiting for it.
    #[serde(default)]
    pub force: bool,
    /// Stages to skip because the host is dead or never enrolled.
    #[serde(default)]
    pub skip: Vec<Skip>,
    /// Why, for history.
    #[serde(default)]
    pub comment: Option<String>,
}

/// A stage to skip.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Skip {
    /// `drain_node` or `remove_gpuaas_node_record`.
    pub stage: String,
    /// Why; recorded with the run.
    pub comment: String,
}

/// Asks for an action on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionRequest {
    /// Why, for history.
    #[serde(default)]
    pub comment: Option<String>,
    /// Stages to skip because the host is dead or never enrolled; for `retire` and `remove`.
    #[serde(default)]
    pub skip: Vec<Skip>,
    /// Use the node although its cleanup was begun and never proven; for `recover`, with a comment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unproven: bool,
}

/// The result of an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ActionResult {
    /// The node as it is now.
    #[serde(flatten)]
    pub node: GpuNode,
    /// What was done, in one word: `moved`, `already_there`, `run_created`, `run_resumed`, `run_cancelling`,
    /// `run_in_progress`, `stage_skipped`, `task_queued`, `task_live`, `task_requeued` or `token_issued`.
    pub did: String,
    /// The run that works on the node because of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// A new bootstrap token, shown only now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// The work behind a node's state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Lifecycle {
    /// The node.
    pub node: String,
    /// Its coarse state.
    #[serde(rename = "status")]
    pub state: String,
    /// Since when.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    /// The cause of the quarantine of a quarantined node.
    pub because: Option<String>,
    /// Its newest run.
    pub run: Option<RunSummary>,
    /// The last observation of the machine in MAAS.
    pub maas: Option<ObservedMachine>,
    /// Whether that fits the node's state; absent without an observation.
    pub fits: Option<bool>,
    /// The last report of its agent.
    pub health: Option<Health>,
    /// The open task of the agent.
    pub task: Option<agent::Task>,
    /// The recommended next step.
    pub recommended: Recommendation,
    /// The actions that an operator may take on the node now.
    pub allowed_actions: Vec<Action>,
    /// The modes in which it may be decommissioned now.
    pub allowed_decommissions: Vec<String>,
}

/// A run, as far as a node's page shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunSummary {
    /// Names the run.
    pub id: String,
    /// The kind of run.
    pub kind: String,
    /// Where it is.
    #[serde(rename = "status")]
    pub state: String,
    /// The stage it is at.
    pub stage: String,
    /// Attempts of the stage that were begun.
    pub attempt: u32,
    /// The class of its last failure.
    pub failure_class: Option<String>,
    /// The evidence of the failure.
    pub failure: Option<String>,
    /// The reason it waits.
    pub waiting_for: Option<String>,
    /// The time of the next attempt or check.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub due_at: Option<Timestamp>,
    /// The actions that an operator may take on the run now.
    pub allowed_actions: Vec<Action>,
}

/// An observation of a machine in MAAS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ObservedMachine {
    /// MAAS's id.
    pub system_id: String,
    /// Whether MAAS has it.
    pub present: bool,
    /// MAAS's integer for the status.
    pub status: Option<i64>,
    /// MAAS's label for it.
    pub status_name: Option<String>,
    /// `on`, `off`, `unknown` or `error`.
    pub power: Option<String>,
    /// Identifies the observation, for `adopt_observed_state`.
    pub digest: String,
    /// When it was observed to be so.
    #[schema(value_type = String, format = DateTime)]
    pub observed_at: Timestamp,
}

/// The report of an agent about its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
// Renamed, because the server's own health has a schema `Health` too.
#[schema(as = AgentHealth)]
pub struct Health {
    /// Whether every check passed.
    pub healthy: bool,
    /// The checks.
    pub checks: Vec<agent::Check>,
    /// When the report last changed, or arrived while its node did not have to beat.
    #[schema(value_type = String, format = DateTime)]
    pub received_at: Timestamp,
}

impl From<wardroom_core::action::Recommendation> for Recommendation {
    fn from(recommended: wardroom_core::action::Recommendation) -> Self {
        Self { action: recommended.action.map(Into::into), why: recommended.why }
    }
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Recommendation {
    /// The action; absent if waiting is best.
    pub action: Option<Action>,
    /// Why.
    pub why: String,
}

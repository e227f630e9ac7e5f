//! GPU nodes, and what their agents say.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Announces a node that is bootstrapped by hand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuNodeCreate {
    /// What people call it; unique among the nodes that are not deleted.
    pub name: String,
    /// Labels, found by selectors.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// A GPU node as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuNode {
    /// Names it.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Its coarse state.
    pub state: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// The run that works on it, or did so last.
    pub run_id: Option<String>,
    /// Until when its enrolment token can be used, if it has one.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub token_expires_at: Option<Timestamp>,
    /// When its agent enrolled.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub enrolled_at: Option<Timestamp>,
    /// What the agent last said about its health.
    pub healthy: Option<bool>,
    /// When the agent was last heard by this server.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_seen: Option<Timestamp>,
    /// When it entered its state.
    #[schema(value_type = String, format = DateTime)]
    pub state_changed_at: Timestamp,
    /// When it was announced.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// A node and what was done about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeActed {
    /// The node as it is now.
    pub node: GpuNode,
    /// What was done: the event by which the node or its run moved, or why nothing was left to do.
    pub result: String,
    /// A one-time enrolment token; it is in this answer and nowhere else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// Asks for an action on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeAction {
    /// Why; history keeps it.
    #[serde(default)]
    pub reason: Option<String>,
    /// For `retire` and `remove`: the host is dead or never enrolled, so its agent is not asked to drain or to
    /// uninstall. Needs a reason.
    #[serde(default)]
    pub skip_agent: bool,
}

/// Starts a decommission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Decommission {
    /// `soft_reset` or `storage_cleanup`.
    pub mode: String,
    /// Why; history keeps it.
    #[serde(default)]
    pub reason: Option<String>,
}

/// What an agent gets when it enrols.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Enrolled {
    /// Its node.
    pub id: String,
    /// What it shows from now on as `Authorization: Bearer`; it is in this answer and nowhere else.
    pub credential: String,
    /// When to beat.
    pub interval: String,
}

/// What an agent says when it beats.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeHeartbeat {
    /// Whether its checks pass.
    pub healthy: bool,
    /// What does not pass.
    #[serde(default)]
    pub problems: Vec<String>,
    /// How often it means to beat, such as `@every 00h00m30s`.
    #[serde(default)]
    pub interval: Option<String>,
}

/// What an agent is told when it beats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeBeat {
    /// When to beat next.
    pub interval: String,
    /// The time here.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Timestamp,
    /// The coarse state of the node.
    pub state: String,
}

/// A task for the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentTask {
    /// Names it.
    pub id: String,
    /// What to do: `node.drain`, `node.uninstall`, `node.cleanup_storage`, `node.scrub_gpu` or `node.validate_clean`.
    pub kind: String,
    /// Goes back with the result.
    pub epoch: i64,
    /// How long the task is the agent's; claiming again keeps it.
    pub lease_seconds: u64,
}

/// What came of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskResult {
    /// The epoch under which the task was claimed.
    pub epoch: i64,
    /// `succeeded`, `failed` or `refused`.
    pub outcome: String,
    /// What was seen.
    #[serde(default)]
    pub output: Option<String>,
}

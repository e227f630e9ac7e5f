//! Messages between the agent of a GPU node and the server.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Exchanges a bootstrap token for the credential of an agent.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Enroll {
    /// The token, which works once.
    pub token: String,
    /// The same for every repeat of this exchange, so that an answer that got lost can be asked for again.
    #[serde(default)]
    pub exchange: Option<String>,
    /// The hostname that the host reports.
    #[serde(default)]
    pub hostname: Option<String>,
    /// Its serial number.
    #[serde(default)]
    pub serial_number: Option<String>,
    /// Which model it is.
    #[serde(default)]
    pub model: Option<String>,
}

/// The token stays out.
impl fmt::Debug for Enroll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enroll").field("hostname", &self.hostname).finish_non_exhaustive()
    }
}

/// An agent that has enrolled.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Enrolled {
    /// The node it speaks for.
    pub node: String,
    /// Send this as `Authorization: Bearer …`; shown only now.
    pub credential: String,
    /// How often to beat, such as `@every 00h00m30s`.
    pub interval: String,
}

/// The credential stays out.
impl fmt::Debug for Enrolled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enrolled").field("node", &self.node).finish_non_exhaustive()
    }
}

/// A heartbeat.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Heartbeat {
    /// Health checks; an empty list means that the node is healthy.
    #[serde(default)]
    pub checks: Vec<Check>,
    /// How often the agent beats.
    #[serde(default)]
    pub interval: Option<String>,
    /// Tasks that it is executing: their leases are renewed.
    #[serde(default)]
    pub tasks: Vec<Holding>,
}

/// One health check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// The name of the check.
    pub name: String,
    /// Whether it passed.
    pub ok: bool,
    /// The output of the check.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "as_text")]
    pub message: Option<String>,
}

/// A number that a driver gave is as good a message as a text.
fn as_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Null => None,
        Value::String(text) => Some(text),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Some(other.to_string())
        }
    })
}

/// A task that an agent has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Holding {
    /// The task.
    pub task: String,
    /// The epoch in which it was claimed.
    pub epoch: i64,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Beat {
    /// The coarse state of the node.
    #[serde(rename = "status")]
    pub state: String,
    /// When to beat next.
    pub next: String,
    /// The time at the server.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Timestamp,
    /// Whether a task can be claimed: one without a holder, or one that this heartbeat does not name.
    pub has_tasks: bool,
    /// Tasks of the heartbeat that no longer belong to the agent: it stops executing them.
    pub lost: Vec<String>,
}

/// Asks for something to do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClaimRequest {
    /// Identifies this installation of the agent: after a restart it gets its own task back.
    pub holder: String,
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Claimed {
    /// The task, if there is one.
    pub task: Option<Task>,
}

/// Something that an agent is asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Task {
    /// Names the task.
    pub id: String,
    /// The kind of task, such as `node.drain`.
    pub kind: String,
    /// Where it is.
    pub state: String,
    /// The run that asks for it.
    pub run: String,
    /// The epoch of the lease; a result carries it.
    pub epoch: i64,
    /// How long it may take, in seconds.
    pub time_limit: u64,
    /// Ends running work on the node instead of waiting for it.
    pub force: bool,
}

/// How a task ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskResult {
    /// The epoch in which it was claimed.
    pub epoch: i64,
    /// `succeeded`, `failed` or `refused`.
    pub outcome: String,
    /// The exit code of the command.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// The end of its output.
    #[serde(default)]
    pub output: String,
    /// The details, such as each disk and how it was erased.
    #[serde(default)]
    pub details: Vec<Detail>,
}

/// The work done on one thing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Detail {
    /// The thing, such as a disk by its serial number.
    pub name: String,
    /// How.
    #[serde(default)]
    pub method: String,
    /// Whether it worked.
    pub ok: bool,
}

/// The answer to a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Recorded {
    /// Where the task is now.
    pub state: String,
    /// Whether the result was recorded before.
    pub repeated: bool,
}

//! What an agent reports of its device, and what the server derives from it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Metadata;

/// The body of `PUT …/devices/{name}/status`.
///
/// Only `status` counts; the rest of the object may be sent along and is ignored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceStatusReport {
    /// `wardroom/v1`.
    #[serde(default)]
    pub api_version: String,
    /// `Device`.
    #[serde(default)]
    pub kind: String,
    /// The name of the device.
    #[serde(default)]
    pub metadata: Metadata,
    /// What the agent says of its device: all of it, each time.
    pub status: DeviceReport,
}

/// What an agent says of its device. A report replaces the one before as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceReport {
    /// `Updating`, `Rebooting`, `DeviceDecommissioning` and others; at most one of each type.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Facts such as `architecture`, `bootID`, `operatingSystem`, `agentVersion`.
    #[serde(default)]
    pub system_info: BTreeMap<String, String>,
    /// The applications of the device.
    #[serde(default)]
    pub applications: Vec<ApplicationStatus>,
    /// The health of its hardware.
    #[serde(default)]
    pub resources: ResourcesStatus,
    /// The version that it runs.
    #[serde(default)]
    pub config: ConfigStatus,
    /// The operating system that it booted.
    #[serde(default)]
    pub os: OsStatus,
}

/// A condition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The type, such as `Updating`.
    #[serde(rename = "type")]
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// A word for why, or for how far it got, such as `Preparing`.
    #[serde(default)]
    pub reason: String,
    /// A text for people.
    #[serde(default)]
    pub message: String,
    /// When `status` last changed, by the clock of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_transition_time: Option<Timestamp>,
}

/// An application on a device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub struct ApplicationStatus {
    /// The name, unique on the device.
    pub name: String,
    /// `Preparing`, `Starting`, `Running`, `Completed` or `Error`.
    pub status: String,
    /// How many of its containers are ready, as `n/m`.
    #[serde(default)]
    pub ready: String,
    /// How often its containers were started again.
    #[serde(default)]
    pub restarts: u64,
    /// Why it is not in service, for people.
    #[serde(default)]
    pub message: String,
}

/// The health of the hardware: `Healthy`, `Degraded`, `Error`, `Critical` or `Unknown` each; absent when not watched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub struct ResourcesStatus {
    /// Processor time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Main memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// Storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
}

/// The version of the spec that a device runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigStatus {
    /// The `renderedVersion` of the spec in force; empty when none is.
    #[serde(default)]
    pub rendered_version: String,
}

/// The operating system that a device booted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OsStatus {
    /// The image; empty when there is none.
    #[serde(default)]
    pub image: String,
    /// Its digest.
    #[serde(default)]
    pub image_digest: String,
}

/// A derived status and its cause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StatusOf {
    /// The status.
    pub status: String,
    /// The cause of the status, and what the device waits for.
    pub info: String,
}

/// The status of a device: what its agent last reported, and what the server derives from that and the clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceStatus {
    /// What the agent last reported; empty before its first report.
    #[serde(flatten)]
    pub reported: DeviceReport,
    /// Whether the device can be heard, and is well: `Online`, `Degraded`, `Error`, `Rebooting` or `Offline`.
    pub summary: StatusOf,
    /// Whether it runs what it should: `UpToDate`, `Updating`, `OutOfDate` or `Unknown`.
    pub updated: StatusOf,
    /// Its applications together: `Healthy`, `Degraded`, `Error` or `Unknown`.
    pub application_summary: StatusOf,
    /// Where it is in its life: `Unknown`, `Enrolled`, `Decommissioning` or `Decommissioned`.
    pub lifecycle: StatusOf,
    /// When the server last received anything from the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_seen: Option<Timestamp>,
    /// Until when the certificate of the agent is valid; absent once it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub certificate_expires_at: Option<Timestamp>,
    /// Whether the certificate of the agent was revoked.
    #[serde(default)]
    pub revoked: bool,
}

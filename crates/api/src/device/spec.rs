//! What a device should run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a device should run. Everything that is absent is left as it is on the device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceSpec {
    /// The operating system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os: Option<OsSpec>,
    /// Files, by source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<ConfigSource>,
    /// Applications that run on the device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<ApplicationSpec>,
    /// Resources that the agent watches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceMonitor>,
    /// When the agent may download and update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_policy: Option<UpdatePolicy>,
    /// Set by the server once the device is being decommissioned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decommissioning: Option<Decommissioning>,
}

/// The operating system of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OsSpec {
    /// The image to boot, such as `registry.example/edge@sha256:…`.
    pub image: String,
}

/// A source of files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigSource {
    /// The name of the source, unique within a spec.
    #[serde(default)]
    pub name: String,
    /// The files themselves.
    #[serde(default)]
    pub inline: Vec<InlineFile>,
}

/// A file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InlineFile {
    /// Where the file is written: absolute, without `.` and `..`.
    pub path: String,
    /// Its content.
    #[serde(default)]
    pub content: String,
    /// How `content` is written: `plain`, the default, or `base64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_encoding: Option<String>,
    /// The permissions as a number, such as 420 for `0644`. Absent: those of the file that is replaced, else `0644`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// The user that owns the file, by name or number. Absent: the owner of the file that is replaced, else the agent's user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The group that owns the file, by name or number. Absent: that of the file that is replaced, else the agent's group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// An application.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSpec {
    /// The name, unique within a spec.
    pub name: String,
    /// `container` or `compose`.
    pub app_type: String,
    /// The image of a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The files of a compose application; paths are relative to its folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inline: Vec<InlineFile>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env_vars: BTreeMap<String, String>,
    /// Published ports of a container, as `host:container`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
}

/// A resource that the agent watches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceMonitor {
    /// `CPU`, `Memory` or `Disk`.
    pub monitor_type: String,
    /// How often the agent looks, such as `60s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling_interval: Option<String>,
    /// The file system, for `Disk`; `/` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// When the resource is no longer healthy; at most one rule for each severity.
    #[serde(default)]
    pub alert_rules: Vec<AlertRule>,
}

/// When a resource is no longer healthy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertRule {
    /// `Degraded`, `Error` or `Critical`; `Warning` means `Degraded`.
    pub severity: String,
    /// The rule holds while more than this is used.
    #[schema(minimum = 1, maximum = 100)]
    pub percentage: u8,
    /// How long more than that must be used, such as `10m`.
    pub duration: String,
    /// A text for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// When the agent may download and update.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdatePolicy {
    /// When it may download; always when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub download_schedule: Option<Schedule>,
    /// When it may update; always when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_schedule: Option<Schedule>,
}

/// A window of time that comes again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    /// When the window opens, as the five fields of cron: `0 2 * * *`.
    pub at: String,
    /// The time zone, such as `Europe/Berlin`; that of the device when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// How long the window stays open, such as `2h`.
    pub start_grace_duration: String,
}

/// The decommissioning of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Decommissioning {
    /// What the agent does: `Unenroll` wipes its keys and data.
    pub target: String,
}

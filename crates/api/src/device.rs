//! Devices: edge machines whose agent applies a spec and reports what it runs.
//!
//! Objects have the five parts `apiVersion`, `kind`, `metadata`, `spec` and `status`. Types that travel in both
//! directions are tolerant: an agent must be able to read the spec of a newer server. The server refuses unknown
//! fields where a person sends them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

mod enrollment;
mod fleet;
mod spec;
mod status;

pub use enrollment::{
    Approval, CertificateRequest, DeviceCertificate, EnrollmentApproval, EnrollmentRequest,
    EnrollmentRequestSpec, EnrollmentRequestStatus, EnrollmentToken, EnrollmentTokenCreate,
    NewEnrollmentToken,
};
pub use fleet::{
    Batch, DisruptionBudget, Fleet, FleetSpec, FleetStatus, LabelSelector, Limit, MatchExpression,
    RolloutPolicy, RolloutStatus, Template, TemplateMetadata, TemplateVersion, TemplateVersionSpec,
};
pub use spec::{
    AlertRule, ApplicationSpec, ConfigSource, Decommissioning, DeviceSpec, InlineFile, OsSpec,
    ResourceMonitor, Schedule, UpdatePolicy,
};
pub use status::{
    ApplicationStatus, Condition, ConfigStatus, DeviceReport, DeviceStatus, DeviceStatusReport, OsStatus,
    ResourcesStatus, StatusOf,
};

/// The version of these objects.
pub const API_VERSION: &str = "wardroom/v1";

/// The annotation with the version of the spec that the server rendered; a decimal number that only grows.
pub const RENDERED_VERSION: &str = "renderedVersion";

/// The annotation with the version of the fleet's template that the spec was made from.
pub const TEMPLATE_VERSION: &str = "templateVersion";

/// The annotation with the number of reboots that operators have requested; a decimal number that only grows.
///
/// The agent reboots when the number is greater than the one that it noted before its last requested reboot.
pub const REBOOTS_REQUESTED: &str = "rebootsRequested";

/// Names an object and says where it belongs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The name, unique within its kind.
    #[serde(default)]
    pub name: String,
    /// Labels, for selectors.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// What the server notes: `renderedVersion`, `templateVersion`, `rebootsRequested`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The fleet that owns the device, as `Fleet/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Grows with every change of the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// Grows with every change of the object; a `PUT` that sends it changes only this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// When the object was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub creation_timestamp: Option<Timestamp>,
    /// When the object was deleted; its record and its history stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub deletion_timestamp: Option<Timestamp>,
}

/// A device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// `wardroom/v1`.
    #[serde(default)]
    pub api_version: String,
    /// `Device`.
    #[serde(default)]
    pub kind: String,
    /// Its name and labels.
    #[serde(default)]
    pub metadata: Metadata,
    /// What the device should run.
    #[serde(default)]
    pub spec: DeviceSpec,
    /// What the agent reported, and what the server derives from that. Ignored where a person sends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<DeviceStatus>,
}

/// The spec that the agent of a device has to apply: the answer of `GET …/devices/{name}/rendered`.
///
/// `metadata.annotations` has `renderedVersion`, and the other annotations where they are set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RenderedDevice {
    /// `wardroom/v1`.
    #[serde(default)]
    pub api_version: String,
    /// `Device`.
    #[serde(default)]
    pub kind: String,
    /// The name, and the version in the annotations.
    pub metadata: Metadata,
    /// What the device should run.
    #[serde(default)]
    pub spec: DeviceSpec,
}

/// Where a list goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ListMetadata {
    /// Give this as `continue` to read the next page; absent on the last one. It never expires.
    #[serde(rename = "continue", default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// One page of a list of objects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectList<T> {
    /// `wardroom/v1`.
    pub api_version: String,
    /// The kind of the list, such as `DeviceList`.
    pub kind: String,
    /// Where the list goes on.
    pub metadata: ListMetadata,
    /// The objects, oldest first.
    pub items: Vec<T>,
}

/// An operator's request for an action on a device or a fleet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceAction {
    /// Why, for history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// Takes a device out of service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Decommission {
    /// What is left of the device: `Unenroll`, the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Ends the decommissioning of a device that will not be heard again, without its agent.
    #[serde(default)]
    pub finish: bool,
    /// Why, for history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

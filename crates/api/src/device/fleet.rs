//! Fleets: devices that are selected by labels and get their spec from one template.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Condition, DeviceSpec, Metadata};

/// A fleet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fleet {
    /// `wardroom/v1`.
    #[serde(default)]
    pub api_version: String,
    /// `Fleet`.
    #[serde(default)]
    pub kind: String,
    /// Its name and labels.
    #[serde(default)]
    pub metadata: Metadata,
    /// Which devices it owns, and what they should run.
    #[serde(default)]
    pub spec: FleetSpec,
    /// How far the rollout of its template is. Ignored where a person sends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<FleetStatus>,
}

/// Which devices a fleet owns, and what they should run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetSpec {
    /// The devices; an empty selector owns none.
    #[serde(default)]
    pub selector: LabelSelector,
    /// What the devices should run.
    #[serde(default)]
    pub template: Template,
    /// How a new template reaches them; all at once when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout_policy: Option<RolloutPolicy>,
    /// How long a device of this fleet may be silent, such as `10m`; the server's setting when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disconnection_timeout: Option<String>,
    /// The version of the template that devices should be at; the server sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_version: Option<String>,
}

/// Selects devices by their labels: all requirements must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels with these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Other requirements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<MatchExpression>,
}

/// A requirement on a label.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MatchExpression {
    /// The label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// The values, for `In` and `NotIn`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// What the devices of a fleet should run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Template {
    /// What agents see in the metadata of their device.
    #[serde(default, skip_serializing_if = "TemplateMetadata::is_empty")]
    pub metadata: TemplateMetadata,
    /// The spec of every device.
    #[serde(default)]
    pub spec: DeviceSpec,
}

/// What agents see in the metadata of their device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TemplateMetadata {
    /// Labels that agents see beside those of their device, which win. No selector sees them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl TemplateMetadata {
    fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }
}

/// How a new template reaches the devices of a fleet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutPolicy {
    /// Batches, one after the other; all devices that are left form the last one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub batches: Vec<Batch>,
    /// How many percent of a batch must be up to date before the next one begins; 90 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 100)]
    pub success_threshold: Option<u8>,
    /// How long a device may take before it counts as failed, such as `30m`; 24 hours when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_timeout: Option<String>,
    /// How many devices may be out of service at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disruption_budget: Option<DisruptionBudget>,
}

/// A batch of a rollout.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    /// Which devices of the fleet; all that are left when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// How many of them, as a number or as a percentage; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// As for the whole rollout, for this batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 100)]
    pub success_threshold: Option<u8>,
}

/// A number of devices, or a percentage such as `10%`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Limit {
    /// So many.
    Count(u32),
    /// So many percent, rounded up.
    Percent(String),
}

/// How many devices may be out of service at a time, in each group of devices with the same values of some labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DisruptionBudget {
    /// The labels that make a group; the whole fleet is one when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub group_by: Vec<String>,
    /// How many devices must stay in service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_available: Option<u32>,
    /// How many devices may be updating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<u32>,
}

/// How far a fleet is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetStatus {
    /// `OverlappingSelectors` and others.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// The rollout of the current template.
    #[serde(default)]
    pub rollout: RolloutStatus,
    /// How many devices the fleet owns.
    #[serde(default)]
    pub devices: u64,
}

/// How far a rollout is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// `Inactive`, `Active`, `Waiting`, `Paused` or `Suspended`.
    pub state: String,
    /// How far it is, for people.
    pub info: String,
    /// The version of the template that it brings to the devices.
    #[serde(default)]
    pub template_version: String,
    /// The batch it works on, counted from 1; 0 while there is none.
    pub current_batch: u32,
    /// How many batches there are, with the last one.
    pub batches: u32,
    /// How many devices of the fleet run the current template.
    pub updated: u64,
    /// How many devices were given it and have not finished.
    pub updating: u64,
    /// How many devices failed, or took too long.
    pub failed: u64,
    /// How many devices wait for their batch, for the disruption budget, or until they are heard.
    pub waiting: u64,
    /// What keeps it from going on, each cause by itself.
    #[serde(default)]
    pub causes: Vec<String>,
    /// The person who paused it; absent while it is not paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_by: Option<String>,
    /// The version of the template that a rollback brings back; absent for a template that a person gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restores: Option<String>,
}

/// A template as it was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateVersion {
    /// `wardroom/v1`.
    #[serde(default)]
    pub api_version: String,
    /// `TemplateVersion`.
    #[serde(default)]
    pub kind: String,
    /// The name of the version; the owner is its fleet.
    pub metadata: Metadata,
    /// The fleet and the template.
    pub spec: TemplateVersionSpec,
}

/// The template of a fleet at one version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateVersionSpec {
    /// The fleet.
    pub fleet: String,
    /// The template.
    pub template: Template,
    /// The version of the template that it brought back, when a rollback made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restores: Option<String>,
    /// When it became the fleet's template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<Timestamp>,
}

//! Nodes: machines that are installed over the network.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::present;

/// A node as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Names the node for ever.
    pub id: String,
    /// Lower case, with colons.
    pub mac_address: String,
    /// The name of the host.
    pub hostname: Option<String>,
    /// The address it last reported.
    pub ip_address: Option<String>,
    /// Where it is in its life; of a deleted node, where it was.
    pub state: String,
    /// Whether it was deleted: its record and its history stay.
    pub deleted: bool,
    /// The workflow it installs.
    pub workflow_id: Option<String>,
    /// The device group it belongs to.
    pub group_id: Option<String>,
    /// The manufacturer.
    pub vendor: Option<String>,
    /// Which model it is.
    pub model: Option<String>,
    /// Its serial number.
    pub serial_number: Option<String>,
    /// The UUID of its firmware.
    pub system_uuid: Option<String>,
    /// Labels, for selectors.
    pub labels: BTreeMap<String, String>,
    /// Failed attempts of the current installation.
    pub install_attempts: u32,
    /// How far the installation is, in percent.
    pub install_progress: Option<u8>,
    /// Why the last attempt failed.
    pub last_install_error: Option<String>,
    /// When it last asked for its boot script.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_boot_at: Option<Timestamp>,
    /// How many install scripts it was handed since it was last approved.
    #[serde(default)]
    pub boot_scripts: u32,
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

/// Registers a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeCreate {
    /// With colons or hyphens, in any case.
    pub mac_address: String,
    /// The name of the host.
    #[serde(default)]
    pub hostname: Option<String>,
    /// The device group it belongs to.
    #[serde(default)]
    pub group_id: Option<String>,
    /// The workflow to install.
    #[serde(default)]
    pub workflow_id: Option<String>,
    /// The manufacturer.
    #[serde(default)]
    pub vendor: Option<String>,
    /// Which model it is.
    #[serde(default)]
    pub model: Option<String>,
    /// Its serial number.
    #[serde(default)]
    pub serial_number: Option<String>,
    /// The UUID of its firmware.
    #[serde(default)]
    pub system_uuid: Option<String>,
    /// Labels, for selectors.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// Changes a node. Absent fields keep their values, null clears one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodePatch {
    /// The name of the host.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub hostname: Option<Option<String>>,
    /// The workflow to install.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub workflow_id: Option<Option<String>>,
    /// The device group it belongs to.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub group_id: Option<Option<String>>,
    /// Labels to set; a label that is null is removed, others stay.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, Option<String>>,
}

/// Moves a node to a state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StateTransition {
    /// The state to go to.
    pub state: String,
    /// Why, for history.
    #[serde(default)]
    pub comment: Option<String>,
    /// Lifts the retry limit and clears the counters; opens no move that does not exist.
    #[serde(default)]
    pub force: bool,
}

/// Moves many nodes to a state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkTransition {
    /// The nodes.
    #[schema(min_items = 1, max_items = 1000)]
    pub node_ids: Vec<String>,
    /// The state to go to.
    pub state: String,
    /// Why, for history.
    #[serde(default)]
    pub comment: Option<String>,
    /// As for one node.
    #[serde(default)]
    pub force: bool,
}

/// The result for one node of a bulk request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BulkItem {
    /// The node.
    pub id: String,
    /// The status code that the request for this node alone would have had.
    pub status: u16,
    /// Where the node is now, if it moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Why it did not move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<crate::Problem>,
}

/// The results of a bulk request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BulkResult {
    /// How many moved.
    pub moved: usize,
    /// How many did not.
    pub refused: usize,
    /// Each node, in the order of the request.
    pub items: Vec<BulkItem>,
}

/// A report of a node about itself; unknown fields are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeReport {
    /// With colons or hyphens, in any case.
    pub mac_address: String,
    /// Its address.
    #[serde(default)]
    pub ip_address: Option<String>,
    /// The name of the host.
    #[serde(default)]
    pub hostname: Option<String>,
    /// The manufacturer.
    #[serde(default)]
    pub vendor: Option<String>,
    /// Which model it is.
    #[serde(default)]
    pub model: Option<String>,
    /// Its serial number.
    #[serde(default)]
    pub serial_number: Option<String>,
    /// The UUID of its firmware.
    #[serde(default)]
    pub system_uuid: Option<String>,
    /// `started`, `progress`, `complete` or `failed`.
    #[serde(default)]
    pub installation_status: Option<String>,
    /// 0 to 100.
    #[serde(default)]
    pub installation_progress: Option<i64>,
    /// Why it failed.
    #[serde(default)]
    pub installation_error: Option<String>,
    /// Names the attempt; the same attempt counts once.
    #[serde(default)]
    pub attempt_id: Option<String>,
    /// The token of the boot script, for clients that cannot send a header.
    #[serde(default)]
    pub install_token: Option<String>,
}

/// A report of a node about its installation alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InstallationStatus {
    /// `started`, `progress`, `complete` or `failed`.
    pub status: String,
    /// 0 to 100.
    #[serde(default)]
    pub progress: Option<i64>,
    /// Why it failed.
    #[serde(default)]
    pub error: Option<String>,
    /// Names the attempt; the same attempt counts once.
    #[serde(default)]
    pub attempt_id: Option<String>,
    /// The token of the boot script, for clients that cannot send a header.
    #[serde(default)]
    pub install_token: Option<String>,
}

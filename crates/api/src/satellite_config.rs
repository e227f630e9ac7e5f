//! Satellite configs: the settings that satellites read.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A config as it shall be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigSpec {
    /// The name: lower case letters and digits, with single `.`, `_` or `-` between them.
    pub config_name: String,
    /// The registry that satellites replicate from, for display; the config decides.
    #[serde(default)]
    pub registry: Option<String>,
    /// The settings, an object.
    #[schema(value_type = Object)]
    pub config: serde_json::Value,
}

/// Changes a config. Absent fields keep their values; `config` is a JSON merge patch (RFC 7396).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigPatch {
    /// The registry; null clears it.
    #[serde(default, deserialize_with = "crate::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub registry: Option<Option<String>>,
    /// Settings to merge; null removes a setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub config: Option<serde_json::Value>,
}

/// A config as the API shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SatelliteConfig {
    /// The name; also its id.
    pub id: String,
    /// The name.
    pub config_name: String,
    /// The registry that satellites replicate from, for people.
    pub registry: Option<String>,
    /// The settings. Values of settings that are named like secrets are shown as `<hidden>`.
    #[schema(value_type = Object)]
    pub config: serde_json::Value,
    /// When it was created.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// A satellite and the config that it shall read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigAssignment {
    /// The name of the satellite.
    pub satellite: String,
    /// The name of the config; null for the built-in one.
    pub config_name: Option<String>,
}

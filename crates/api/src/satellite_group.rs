//! Satellite groups: which artifacts the satellites of a group replicate.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The wanted group; an existing one is replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupSync {
    /// The name: lower case letters and digits, with single `.`, `_` or `-` between them.
    pub group: String,
    /// The registry that the artifacts are in, such as `https://registry.example.com`.
    pub registry: String,
    /// The artifacts.
    #[serde(default)]
    pub artifacts: Vec<Artifact>,
}

/// One artifact that satellites replicate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// Project and repository, such as `library/nginx`.
    pub repository: String,
    /// Its tags; satellites pass over an artifact without one.
    #[serde(default, deserialize_with = "or_default")]
    pub tag: Vec<String>,
    /// The type, such as `IMAGE`.
    #[serde(default, rename = "type")]
    pub type_: String,
    /// Its digest, such as `sha256:…`.
    #[serde(default)]
    pub digest: String,
    /// Whether it was deleted at its source; then it is not part of a state.
    #[serde(default)]
    pub deleted: bool,
    /// Its labels.
    #[serde(default, deserialize_with = "or_default")]
    pub labels: Vec<String>,
}

/// A group as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SatelliteGroup {
    /// The name; also its id.
    pub id: String,
    /// The name.
    pub name: String,
    /// `ready`, or `removing` while satellites are taken out of a group that is deleted.
    pub state: String,
    /// The registry that the artifacts are in.
    pub registry: String,
    /// The projects that satellites of the group may read.
    pub projects: Vec<String>,
    /// The artifacts.
    pub artifacts: Vec<Artifact>,
    /// When it was created.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// A satellite and a group that it is put into or taken out of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Membership {
    /// The name of the satellite.
    pub satellite: String,
    /// The name of the group.
    pub group: String,
}

/// A satellite of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Member {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its state.
    #[serde(rename = "status")]
    pub state: String,
    /// All groups it is in.
    pub groups: Vec<String>,
    /// The config it reads.
    pub config: Option<String>,
}

/// Some programs write null for an empty list.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

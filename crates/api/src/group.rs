//! Groups: a tree of devices, and groups of users.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whether nodes or users are in a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GroupType {
    /// Nodes; settings are inherited from the parent.
    #[default]
    Device,
    /// Users: whose tokens name it.
    User,
}

/// Creates a group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupSpec {
    /// The name; also its id: lower case letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// Whether nodes or users are in it.
    #[serde(default, rename = "type")]
    pub type_: GroupType,
    /// The group above it, whose settings it inherits.
    #[serde(default)]
    pub parent_id: Option<String>,
    /// Whether installed nodes become active by themselves; null inherits, and the root inherits `false`.
    #[serde(default)]
    pub auto_promote: Option<bool>,
}

/// A group as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Group {
    /// The name; also its id.
    pub id: String,
    /// The name.
    pub name: String,
    /// Whether nodes or users are in it.
    #[serde(rename = "type")]
    pub type_: GroupType,
    /// The group above it.
    pub parent_id: Option<String>,
    /// The value set on this group.
    pub auto_promote: Option<bool>,
    /// The value in force, inherited or not.
    pub effective_auto_promote: bool,
    /// When it was created.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

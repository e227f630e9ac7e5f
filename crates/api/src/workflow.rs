//! Workflows: named install profiles.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An install profile, and whether nodes become active after it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkflowSpec {
    /// The name by which nodes refer to it: lower case letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// The URL of the kernel.
    pub kernel: String,
    /// The URLs of the initial RAM disks.
    #[serde(default)]
    pub initrd: Vec<String>,
    /// The kernel's arguments.
    #[serde(default)]
    pub arguments: String,
    /// The URL of the image that the installer writes, passed on to it.
    #[serde(default)]
    pub image: Option<String>,
    /// Whether the end of an install promotes the node to `active`.
    #[serde(default)]
    pub promote: bool,
}

/// A workflow as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Workflow {
    /// Its name; also its id.
    pub id: String,
    /// The name.
    pub name: String,
    /// The URL of the kernel.
    pub kernel: String,
    /// The URLs of the initial RAM disks.
    pub initrd: Vec<String>,
    /// The kernel's arguments.
    pub arguments: String,
    /// The URL of the image that the installer writes.
    pub image: Option<String>,
    /// Whether the end of an install promotes the node to `active`.
    pub promote: bool,
    /// When it was created.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

//! Resources found by what people call them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A resource that a name, an id or the start of an id leads to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Found {
    /// The kind.
    pub kind: String,
    /// The id, which names only this resource.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// The state.
    pub state: String,
    /// Whether it was deleted.
    pub deleted: bool,
}

//! What adapters are told: CloudEvents 1.0 that name a resource to reconcile.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::cluster::ObjectReference;

/// The version of CloudEvents that these events have.
pub const SPEC_VERSION: &str = "1.0";

/// Tells an adapter to look at a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReconcileEvent {
    /// `1.0`.
    pub specversion: String,
    /// Names the event. Of a change it is the cursor behind that change.
    pub id: String,
    /// `wardroom`.
    pub source: String,
    /// `com.wardroom.cluster.reconcile` or `com.wardroom.nodepool.reconcile`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The id of the resource.
    pub subject: String,
    /// When it changed, or came due.
    #[schema(value_type = String, format = DateTime)]
    pub time: Timestamp,
    /// `application/json`.
    pub datacontenttype: String,
    /// The resource.
    pub data: Reconcile,
}

/// The resource that an adapter looks at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reconcile {
    /// Its id.
    pub id: String,
    /// `Cluster` or `NodePool`.
    pub kind: String,
    /// Its path on the server.
    pub href: String,
    /// The generation it had then; the resource may have a later one by now.
    pub generation: i64,
    /// The resource that owns it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_references: Option<ObjectReference>,
}

/// One page of events for an adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReconcileEvents {
    /// Always true.
    pub success: bool,
    /// The events, oldest first.
    pub data: Vec<ReconcileEvent>,
    /// Give this as `continue` to go on. It never expires.
    #[serde(rename = "continue")]
    pub next: String,
}

//! History: each change with its actor, time and reason.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One transition of a node, in the shape its document gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Transition {
    /// Names the row.
    pub id: String,
    /// The state before.
    pub from_state: String,
    /// The state after.
    pub to_state: String,
    /// `admin`, `system` or `node_report`.
    pub triggered_by: String,
    /// The user.
    pub user_id: Option<String>,
    /// The comment.
    pub comment: Option<String>,
    /// Details.
    #[schema(value_type = Option<Object>)]
    pub metadata: serde_json::Value,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

/// The transitions of a node, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Transitions {
    /// One page of them.
    pub data: Vec<Transition>,
    /// How many there are in all.
    pub total: i64,
}

/// One row of history, of any resource and type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Row {
    /// Names the row.
    pub id: String,
    /// Its cursor in the feed; absent in the history of one resource.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cursor: String,
    /// The kind of the resource.
    pub kind: String,
    /// The resource.
    pub resource_id: String,
    /// 1 for the first row of a resource, then without gaps.
    pub sequence: i64,
    /// `registered`, `transition`, `attempt`, `changed`, …
    #[serde(rename = "type")]
    pub type_: String,
    /// The state before, unless the resource is new.
    pub from_state: Option<String>,
    /// The state after.
    pub to_state: String,
    /// The kind of actor that caused it.
    pub triggered_by: String,
    /// The user.
    pub user_id: Option<String>,
    /// The comment.
    pub comment: Option<String>,
    /// Details.
    #[schema(value_type = Option<Object>)]
    pub metadata: serde_json::Value,
    /// The request that caused it.
    pub request_id: Option<String>,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// The hash over this row and the one before.
    pub hash: String,
}

/// One page of history or of the feed.
pub type Rows = crate::Page<Row>;

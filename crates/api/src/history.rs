//! History: who moved what, when and why.

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
    /// Who, for people.
    pub user_id: Option<String>,
    /// What they said.
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
    /// Where it is in the feed; not told in the history of one resource.
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
    /// Who caused it.
    pub triggered_by: String,
    /// Who, for people.
    pub user_id: Option<String>,
    /// What they said.
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Rows {
    /// The rows.
    pub data: Vec<Row>,
    /// Give this as `continue` (history) or `after` (events) to read on.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none", default)]
    pub next: Option<String>,
}

//! Refusals and failures, as RFC 9457 describes them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::action::Action;

/// What went wrong, and what to do about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Names the kind of problem; documented under this name.
    #[serde(rename = "type")]
    pub type_: String,
    /// The kind of problem in words.
    pub title: String,
    /// The status code of the answer.
    pub status: u16,
    /// What is wrong here, and the next step.
    pub detail: String,
    /// A stable word for programs.
    pub code: String,
    /// Names the request in logs and history.
    pub request_id: String,
    /// Which fields are wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// What may be done instead, when the state does not allow what was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_actions: Option<Vec<Action>>,
    /// The path that was asked for, as a client knows it; it is not sent.
    #[serde(skip)]
    pub asked: String,
}

/// One field that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    /// The path of the field.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
    /// How to make what the field names and is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<Action>,
}

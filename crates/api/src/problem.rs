//! Refusals and failures, as RFC 9457 describes them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::action::Action;

/// An error, and the next step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Names the kind of problem; documented under this name.
    #[serde(rename = "type")]
    pub type_: String,
    /// The kind of problem in words.
    pub title: String,
    /// The status code of the answer.
    pub status: u16,
    /// The problem, and the next step.
    pub detail: String,
    /// A stable word for programs.
    pub code: String,
    /// Names the request in logs and history.
    pub request_id: String,
    /// Which fields are wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// The actions that are possible instead, when the state does not allow the requested one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_actions: Option<Vec<Action>>,
    /// The resource that does not exist; the path of the request may name another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<MissingResource>,
    /// The path that was asked for, as a client knows it; it is not sent.
    #[serde(skip)]
    pub asked: String,
}

/// A resource that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MissingResource {
    /// Its kind.
    pub kind: String,
    /// The name or id that was asked for.
    pub id: String,
}

/// One field that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    /// The path of the field.
    pub field: String,
    /// The mistake, and what is expected.
    pub message: String,
    /// The action that creates the missing object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<Action>,
}

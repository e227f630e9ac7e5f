//! What can be asked of a resource, as requests that are ready to be sent.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wardroom_core::action;

/// A request about one resource. It can be sent as it is, but for the fields that it needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Action {
    /// The action in one word, such as `revoke`.
    pub action: String,
    /// The kind of resource that it acts on.
    pub kind: String,
    /// The resource.
    pub id: String,
    /// The HTTP method.
    pub method: String,
    /// The path, with the resource filled in.
    pub path: String,
    /// The body; null where none is needed.
    #[schema(value_type = Option<Object>)]
    pub body: Option<serde_json::Value>,
    /// Fields of the body that only the caller can fill in.
    pub needs: Vec<String>,
    /// The least role that may make it.
    pub role: String,
    /// The condition for its success, or a step to take before it.
    pub precondition: Option<String>,
    /// Whether it would be accepted now, as far as the server knows.
    pub possible: bool,
    /// Why it would not.
    pub reason: Option<String>,
}

impl From<action::Action> for Action {
    fn from(action: action::Action) -> Self {
        // Texts, flags and lists of texts always have a form in JSON.
        let body = serde_json::to_value(&action.body).ok().filter(|_| !action.body.is_empty());
        Self {
            action: action.action.to_owned(),
            kind: action.kind.to_owned(),
            id: action.id,
            method: action.method.to_owned(),
            path: action.path,
            body,
            needs: action.needs.into_iter().map(str::to_owned).collect(),
            role: action.role.to_string(),
            precondition: action.precondition.map(Into::into),
            possible: action.possible,
            reason: action.reason.map(Into::into),
        }
    }
}

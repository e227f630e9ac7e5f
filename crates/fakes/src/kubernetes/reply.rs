//! Refusals of the API server: a `Status` with its reason and details.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::kinds::Kind;

#[derive(Debug, Clone)]
pub(super) struct Refusal {
    code: u16,
    body: Value,
}

impl Refusal {
    pub(super) fn new(code: u16, reason: &str, message: &str) -> Self {
        let mut body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "code": code});
        if !reason.is_empty() {
            body["reason"] = json!(reason);
        }
        Self { code, body }
    }

    fn about(mut self, details: Value) -> Self {
        self.body["details"] = details;
        self
    }

    pub(super) fn body(self) -> Value {
        self.body
    }

    pub(super) fn bad(message: &str) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(super) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// No such path or kind.
    pub(super) fn no_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource").about(json!({}))
    }

    pub(super) fn method() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).about(json!({}))
    }

    pub(super) fn media_type() -> Self {
        let message = "the body of the request was in an unknown format - accepted media types include: \
            application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(super) fn not_found(kind: &Kind, name: &str) -> Self {
        let message = format!("{} {name:?} not found", kind.qualified());
        Self::new(404, "NotFound", &message).about(details(kind, &kind.plural, name))
    }

    pub(super) fn exists(kind: &Kind, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", kind.qualified());
        Self::new(409, "AlreadyExists", &message).about(details(kind, &kind.plural, name))
    }

    pub(super) fn stale(kind: &Kind, name: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {name:?}: the object has been modified; please apply your changes to \
             the latest version and try again",
            kind.qualified()
        );
        Self::new(409, "Conflict", &message).about(details(kind, &kind.plural, name))
    }

    /// A precondition of a deletion does not hold.
    pub(super) fn precondition(kind: &Kind, name: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} {name:?}: Precondition failed", kind.qualified());
        Self::new(409, "Conflict", &message).about(details(kind, &kind.plural, name))
    }

    pub(super) fn ending(kind: &Kind, namespace: &str, name: &str) -> Self {
        let message = format!(
            "{} {name:?} is forbidden: unable to create new content in namespace {namespace} because it is being terminated",
            kind.qualified()
        );
        let mut about = details(kind, &kind.plural, name);
        about["causes"] = json!([{"reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"), "field": "metadata.namespace"}]);
        Self::new(403, "Forbidden", &message).about(about)
    }

    /// A value that the kind forbids; `message` such as `Invalid value: -1: must be …`.
    pub(super) fn invalid(kind: &Kind, name: &str, field: &str, message: &str) -> Self {
        let reason =
            if message.starts_with("Required value") { "FieldValueRequired" } else { "FieldValueInvalid" };
        let text = format!("{} {name:?} is invalid: {field}: {message}", kind.qualified_kind());
        let mut about = details(kind, &kind.kind, name);
        about["causes"] = json!([{"reason": reason, "message": message, "field": field}]);
        Self::new(422, "Invalid", &text).about(about)
    }

    pub(super) fn no_manager() -> Self {
        let message = "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
        Self::new(422, "Invalid", message).about(
            json!({"group": "meta.k8s.io", "kind": "PatchOptions", "causes": [
            {"reason": "FieldValueRequired", "message": "Required value: is required for apply patch",
             "field": "fieldManager"}]}),
        )
    }

    /// A configuration that the schema forbids.
    pub(super) fn untyped(kind: &Kind, namespace: &str, name: &str, error: &str) -> Self {
        let place = format!("{namespace}/{name}");
        let message = format!(
            "failed to create typed patch object ({place}; {}, Kind={}): {error}",
            kind.api_version(),
            kind.kind
        );
        Self::new(500, "", &message)
    }

    /// Conflicts of an apply: manager, API version and path of each.
    pub(super) fn conflicts(conflicts: &[(String, String, String)]) -> Self {
        let one = |(manager, version, _): &(String, String, String)| {
            format!("conflict with {manager:?} using {version}")
        };
        let causes: Vec<_> = conflicts
            .iter()
            .map(|conflict| json!({"reason": "FieldManagerConflict", "message": one(conflict), "field": conflict.2}))
            .collect();
        let message = match conflicts {
            [only] => format!("Apply failed with 1 conflict: {}: {}", one(only), only.2),
            _ => {
                let lines = conflicts.iter().map(|conflict| format!("{}: {}", one(conflict), conflict.2));
                format!(
                    "Apply failed with {} conflicts: {}",
                    conflicts.len(),
                    lines.collect::<Vec<_>>().join("\n")
                )
            }
        };
        Self::new(409, "Conflict", &message).about(json!({"causes": causes}))
    }

    /// The log of changes no longer reaches back to a version.
    pub(super) fn expired(asked: u64, oldest: u64) -> Self {
        Self::new(410, "Expired", &format!("too old resource version: {asked} ({oldest})"))
    }

    pub(super) fn bad_version(version: &str) -> Self {
        let message = format!(
            "resourceVersion: Invalid value: {version:?}: strconv.ParseUint: parsing {version:?}: invalid syntax"
        );
        Self::new(500, "", &message)
    }

    /// A refusal that a test asked for.
    pub(super) fn ordered(status: u16) -> Self {
        let reason = match status {
            429 => "TooManyRequests",
            410 => "Expired",
            503 => "ServiceUnavailable",
            _ => "InternalError",
        };
        Self::new(status, reason, "ordered by a test")
    }
}

fn details(kind: &Kind, word: &str, name: &str) -> Value {
    let mut details = json!({"name": name, "kind": word});
    if !kind.group.is_empty() {
        details["group"] = json!(kind.group);
    }
    details
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self.body)).into_response();
        if status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

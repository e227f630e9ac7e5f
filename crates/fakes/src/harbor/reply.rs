//! Harbor's refusals.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

/// A refusal: a status, and `{"errors":[{"code","message"}]}`.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Refusal {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BAD_REQUEST", message)
    }

    pub(super) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", "unauthorized")
    }

    pub(super) fn forbidden() -> Self {
        Self::new(StatusCode::FORBIDDEN, "FORBIDDEN", "forbidden")
    }

    pub(super) fn not_found(what: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", format!("{what} not found"))
    }

    pub(super) fn conflict(what: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::CONFLICT, "CONFLICT", format!("{what} already exists"))
    }

    /// A refusal that a test asked for.
    pub(super) fn ordered(status: u16) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self::new(status, "UNKNOWN", "ordered by a test")
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({"errors": [{"code": self.code, "message": self.message}]});
        let mut response = (self.status, Json(body)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = axum::http::HeaderValue::from_static("Basic realm=\"harbor\"");
            response.headers_mut().insert("www-authenticate", challenge);
        }
        response
    }
}

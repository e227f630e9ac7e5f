//! What a request can be answered with instead of a result: a short list, each with a status and a code.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use wardroom_api::{FieldError, Problem};

/// A refusal or failure.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Error {
    /// The input is wrong; every field that is, is named.
    #[error("the request is not valid: {}", names(.0))]
    Invalid(Vec<FieldError>),
    /// Not the content type that is understood here.
    #[error("the body must be JSON: send Content-Type: application/json")]
    ContentType,
    /// The body is too large.
    #[error("the body is larger than {0} bytes, which is the limit here")]
    TooLarge(usize),
    /// No credentials, or bad ones.
    #[error("{0}")]
    Unauthenticated(&'static str),
    /// The credentials do not suffice.
    #[error("{0}")]
    Forbidden(String),
    /// No such resource.
    #[error("there is no {kind} {id:?}")]
    NotFound { kind: &'static str, id: String },
    /// No such path.
    #[error("there is nothing at this path; /openapi.json lists what there is")]
    NoRoute,
    /// The path does not take this method.
    #[error("this path does not take this method; /openapi.json lists what it takes")]
    Method,
    /// The state does not allow it.
    #[error("{detail}")]
    Conflict { code: &'static str, detail: String, allowed: Vec<String> },
    /// Somebody changed the resource since the caller read it.
    #[error("the resource changed since it was read: read it again and look at the change")]
    Precondition,
    /// The idempotency key was used for something else.
    #[error("this Idempotency-Key was used for another request: use a new key")]
    KeyReused,
    /// Too many requests.
    #[error("too many requests: repeat after {0} s")]
    TooMany(u64),
    /// The server cannot answer now.
    #[error("{0}")]
    Unavailable(&'static str),
    /// A bug; what is wrong is in the log under the request id.
    #[error("something went wrong inside the server: the log has it under this request id")]
    Internal,
}

fn names(errors: &[FieldError]) -> String {
    errors.iter().map(|error| format!("{}: {}", error.field, error.message)).collect::<Vec<_>>().join("; ")
}

impl Error {
    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid(vec![FieldError { field: field.into(), message: message.into() }])
    }

    pub(crate) fn not_found(kind: &'static str, id: &str) -> Self {
        Self::NotFound { kind, id: id.chars().take(100).collect() }
    }

    /// Status, code and title.
    fn class(&self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::Invalid(_) => (StatusCode::BAD_REQUEST, "invalid", "The request is not valid"),
            Self::ContentType => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "content_type", "The content type is not understood")
            }
            Self::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "too_large", "The body is too large"),
            Self::Unauthenticated(_) => {
                (StatusCode::UNAUTHORIZED, "unauthenticated", "Credentials are needed")
            }
            Self::Forbidden(_) => (StatusCode::FORBIDDEN, "forbidden", "The credentials do not suffice"),
            Self::NotFound { .. } => (StatusCode::NOT_FOUND, "not_found", "There is no such resource"),
            Self::NoRoute => (StatusCode::NOT_FOUND, "no_route", "There is no such path"),
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "method", "The method is not allowed"),
            Self::Conflict { code, .. } => (StatusCode::CONFLICT, code, "The state does not allow it"),
            Self::Precondition => (StatusCode::PRECONDITION_FAILED, "changed", "The resource has changed"),
            Self::KeyReused => {
                (StatusCode::UNPROCESSABLE_ENTITY, "key_reused", "The idempotency key was used")
            }
            Self::TooMany(_) => (StatusCode::TOO_MANY_REQUESTS, "too_many_requests", "Too many requests"),
            Self::Unavailable(_) => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "The server cannot answer now")
            }
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal", "The server failed"),
        }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.class().0
    }

    /// The problem to send, as part of the request with this id.
    pub(crate) fn problem(&self, request_id: &str) -> Problem {
        let (status, code, title) = self.class();
        let errors = if let Self::Invalid(errors) = self { errors.clone() } else { Vec::new() };
        let allowed = if let Self::Conflict { allowed, .. } = self { Some(allowed.clone()) } else { None };
        Problem {
            type_: format!("urn:wardroom:problem:{code}"),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: self.to_string(),
            code: code.to_owned(),
            request_id: request_id.to_owned(),
            errors,
            allowed_actions: allowed,
        }
    }

    pub(crate) fn respond(&self, request_id: &str) -> Response {
        let body = serde_json::to_vec(&self.problem(request_id)).unwrap_or_default();
        let mut response = (self.status(), body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        let retry = match self {
            Self::TooMany(seconds) => Some(*seconds),
            Self::Unavailable(_) => Some(1),
            Self::Invalid(_)
            | Self::ContentType
            | Self::TooLarge(_)
            | Self::Unauthenticated(_)
            | Self::Forbidden(_)
            | Self::NotFound { .. }
            | Self::NoRoute
            | Self::Method
            | Self::Conflict { .. }
            | Self::Precondition
            | Self::KeyReused
            | Self::Internal => None,
        };
        if let Some(seconds) = retry {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if matches!(self, Self::Unauthenticated(_)) {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// The outermost layer knows the request id and writes the body.
impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<wardroom_core::Invalid> for Error {
    fn from(invalid: wardroom_core::Invalid) -> Self {
        Self::invalid(invalid.field, invalid.message)
    }
}

/// What the store could not do. A conflict that reaches this point was retried as often as is sensible.
impl From<wardroom_store::Error> for Error {
    fn from(error: wardroom_store::Error) -> Self {
        use wardroom_store::Error as Store;
        match error {
            Store::Invalid { field, reason } => Self::invalid(field, reason),
            Store::Conflict | Store::KeyTaken { .. } => {
                Self::Unavailable("the resource is changed by too many at once: repeat")
            }
            Store::Fenced { .. } => Self::Unavailable("another server took this work over: repeat"),
            Store::ForeignCursor => {
                Self::invalid("continue", "this cursor is not one of this feed: start again without it")
            }
            Store::Unavailable(detail) => {
                tracing::error!(detail, "the database is unavailable");
                Self::Unavailable("the database is unavailable: repeat")
            }
            Store::NewerSchema { .. }
            | Store::OlderSchema { .. }
            | Store::InUse(_)
            | Store::Unsafe(_)
            | Store::NotEmpty
            | Store::Damaged(_)
            | Store::File { .. }
            | Store::Bug(_) => {
                tracing::error!(%error, "the store failed");
                Self::Internal
            }
        }
    }
}

//! Errors of requests: a short list, each with a status and a code.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use wardroom_api::{FieldError, MissingResource, Problem};
use wardroom_core::action::Action;

use crate::platform::kind::Kind;

/// One kind of problem.
#[derive(Debug, Clone, Copy)]
pub struct Class {
    /// The stable word for programs.
    pub code: &'static str,
    /// The status of the answer.
    pub status: u16,
    /// Its meaning, in a few words.
    pub title: &'static str,
    /// Its meaning and the next step; published in `docs/errors.md`.
    pub advice: &'static str,
}

/// A kind of problem.
#[must_use]
pub const fn class(code: &'static str, status: u16, title: &'static str, advice: &'static str) -> Class {
    Class { code, status, title, advice }
}

const MOVE: Class = class(
    "no_such_move",
    409,
    "The state does not allow it",
    "The state does not allow this move; `allowed_actions` lists what it does allow.",
);
const BUG: Class =
    class("internal", 500, "The server failed", "A bug; the log has the details under the request id.");

/// The kinds of problems that every kind of members has.
#[rustfmt::skip]
const SHARED: &[Class] = &[
    class("invalid",           400, "The request is not valid", "A field is wrong; `errors` names each one and what would be right."),
    class("bad_head",          400, "The request cannot be read", "The first line or a header is not HTTP/1.1; the connection is closed."),
    class("token_unknown",     400, "The registration token is not valid", "The token is unknown or was used: each works once. An operator issues a new one: `why` of the member says with which call."),
    class("unauthenticated",   401, "Credentials are needed", "No token, or one that is unknown, revoked or expired. Send `Authorization: Bearer …`."),
    class("forbidden",         403, "The credentials do not suffice", "The token's role or kinds do not cover this; `detail` says which would."),
    class("revoked",           403, "The member is revoked", "An administrator has blocked this member. Back off. Once an administrator has brought it back, the answer to its next request says how to go on."),
    class("not_found",         404, "There is no such resource", "There is no such resource."),
    class("no_route",          404, "There is no such path", "There is nothing at this path; `/openapi.json` lists what there is."),
    class("method",            405, "The method is not allowed", "The path does not take this method."),
    class("head_late",         408, "The request came too slowly", "The head of the request did not come in time; the connection is closed."),
    class("body_late",         408, "The request came too slowly", "The body of the request did not come in time; nothing was done."),
    MOVE,
    class("name_taken",        409, "The name is taken", "The name is in use, or was."),
    class("last_admin",        409, "It is the last one", "Without this token no admin would be left to create tokens; make another admin token first."),
    class("in_use",            409, "It is in use", "Something still refers to it; `detail` says what."),
    class("in_flight",         409, "The request is being answered", "A request with this `Idempotency-Key` is being answered; retry in a moment."),
    class("shown_once",        409, "The secret was shown", "The request was done before, and its secret is not shown again."),
    class("answer_lost",       409, "The request was done", "The request was done before, but its answer was lost; `detail` names what it changed."),
    class("changed",           412, "The resource has changed", "The resource changed since it was read; read it again."),
    class("too_large",         413, "The body is too large", "The body is larger than the limit, which `detail` names."),
    class("uri_too_long",      414, "The path is too long", "The path and query are longer than the server reads; the connection is closed."),
    class("content_type",      415, "The content type is not understood", "Send `Content-Type: application/json`."),
    class("key_reused",        422, "The idempotency key was used", "The `Idempotency-Key` was used for another request."),
    class("too_many_requests", 429, "Too many requests", "Retry after `Retry-After` seconds."),
    class("too_many_streams",  429, "Too many streams of events", "The token has as many streams of events open on this server as it may (`limits.streams`): close one, share one, or use another token."),
    class("head_too_large",    431, "The headers are too large", "The headers are larger than the server reads, or too many; the connection is closed."),
    class("unavailable",       503, "The server cannot answer now", "The database or another part cannot answer now; retry after `Retry-After` seconds. If the change may have been made, `detail` says to read first."),
    class("read_only",         503, "The database is read-only", "The database takes no changes: an operator has to point the server at the primary, or let its role write. Reads are answered, except by a standby."),
    class("not_configured",    503, "The other system is not configured", "The server is not set up to work with the system that this needs; `detail` says which settings are missing."),
    class("http_version",      505, "The version of HTTP is not supported", "The connection spoke HTTP/2; use HTTP/1.1."),
    BUG,
];

/// Every kind of problem there is, with those of the kinds of members.
pub fn every(kinds: &[&'static Kind]) -> impl Iterator<Item = &'static Class> {
    SHARED.iter().chain(kinds.iter().flat_map(|kind| kind.problems))
}

/// A refusal or failure.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The input is wrong; names every wrong field.
    #[error("the request is not valid: {}", names(.0))]
    Invalid(Vec<FieldError>),
    /// The head of a request could not be read.
    #[error("{detail}")]
    Head {
        /// The code.
        code: &'static str,
        /// How it is wrong.
        detail: &'static str,
    },
    /// Not the content type that is understood here.
    #[error("the body must be JSON: send Content-Type: application/json")]
    ContentType,
    /// The body is too large.
    #[error("the body is larger than {0} bytes, which is the limit here")]
    TooLarge(usize),
    /// The body did not come in time.
    #[error("the body did not come in time, and nothing was done: send it again")]
    BodyLate,
    /// No credentials, or bad ones.
    #[error("{0}")]
    Unauthenticated(&'static str),
    /// No user and secret of a member, or wrong ones.
    #[error("{0}")]
    Basic(&'static str),
    /// The member was blocked by an administrator.
    #[error(
        "this member was revoked by an administrator: back off; once an administrator has brought it back, the answer to its next request says how to go on"
    )]
    Revoked,
    /// A registration token that is unknown or used.
    #[error(
        "the registration token is unknown or was used: each works once; ask an administrator for a new one"
    )]
    TokenUnknown,
    /// Another system is needed for this and not configured.
    #[error("{0}")]
    NotConfigured(&'static str),
    /// The credentials do not suffice.
    #[error("{0}")]
    Forbidden(String),
    /// No such resource.
    #[error("there is no {kind} {id:?}")]
    NotFound {
        /// The kind.
        kind: &'static str,
        /// The name or id that was asked for.
        id: String,
    },
    /// No such path.
    #[error("there is nothing at this path; /openapi.json lists what there is")]
    NoRoute,
    /// The path does not take this method.
    #[error("this path does not take this method; /openapi.json lists what it takes")]
    Method,
    /// The state does not allow it.
    #[error("{detail}")]
    Conflict {
        /// The code.
        code: &'static str,
        /// The obstacle.
        detail: String,
        /// The allowed actions.
        allowed: Vec<Action>,
    },
    /// The resource changed since the caller read it.
    #[error("the resource changed since it was read: read it again, check the change, then retry")]
    Precondition,
    /// The idempotency key was used for something else.
    #[error("this Idempotency-Key was used for another request: use a new key")]
    KeyReused,
    /// Too many requests.
    #[error("too many requests: retry after {0} s")]
    TooMany(u64),
    /// Too many streams of one token.
    #[error(
        "this token has {0} streams of events open on this server, which is the limit (limits.streams): close one, share one, or use another token"
    )]
    TooManyStreams(u32),
    /// The server cannot answer now.
    #[error("{0}")]
    Unavailable(&'static str),
    /// Too many concurrent changes of one resource; the database is fine.
    #[error("{0}")]
    Contended(&'static str),
    /// The database takes no changes.
    #[error("the database is read-only, nothing was changed: an operator has to act; the log says how")]
    ReadOnly,
    /// A bug; its cause is in the log under the request id.
    #[error("internal error: the log has the details under this request id")]
    Internal,
}

fn names(errors: &[FieldError]) -> String {
    errors.iter().map(|error| format!("{}: {}", error.field, error.message)).collect::<Vec<_>>().join("; ")
}

impl Error {
    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid(vec![FieldError { field: field.into(), message: message.into(), fix: None }])
    }

    /// Returns all mistakes of an input together. Any other error is returned instead of them.
    pub(crate) fn all(checks: impl IntoIterator<Item = Result<(), Self>>) -> Result<(), Self> {
        let mut wrong = Vec::new();
        for check in checks {
            match check {
                Ok(()) => {}
                Err(Self::Invalid(errors)) => wrong.extend(errors),
                Err(other) => return Err(other),
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(Self::Invalid(wrong)) }
    }

    /// A field names a missing resource, which this action creates.
    pub(crate) fn missing(field: &str, message: String, fix: Action) -> Self {
        Self::Invalid(vec![FieldError { field: field.to_owned(), message, fix: Some(fix.into()) }])
    }

    pub(crate) fn not_found(kind: &'static str, id: &str) -> Self {
        Self::NotFound { kind, id: id.chars().take(100).collect() }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid",
            Self::ContentType => "content_type",
            Self::TooLarge(_) => "too_large",
            Self::BodyLate => "body_late",
            Self::Unauthenticated(_) | Self::Basic(_) => "unauthenticated",
            Self::Revoked => "revoked",
            Self::TokenUnknown => "token_unknown",
            Self::NotConfigured(_) => "not_configured",
            Self::Forbidden(_) => "forbidden",
            Self::NotFound { .. } => "not_found",
            Self::NoRoute => "no_route",
            Self::Method => "method",
            Self::Conflict { code, .. } | Self::Head { code, .. } => code,
            Self::Precondition => "changed",
            Self::KeyReused => "key_reused",
            Self::TooMany(_) => "too_many_requests",
            Self::TooManyStreams(_) => "too_many_streams",
            Self::Unavailable(_) | Self::Contended(_) => "unavailable",
            Self::ReadOnly => "read_only",
            Self::Internal => "internal",
        }
    }

    fn class(&self, kinds: &[&'static Kind]) -> &'static Class {
        let code = self.code();
        let other = if matches!(self, Self::Conflict { .. }) { &MOVE } else { &BUG };
        every(kinds).find(|class| class.code == code).unwrap_or(other)
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.class(&[]).status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The problem to send, as part of the request with this id; its class may be one of these kinds.
    pub(crate) fn problem(&self, kinds: &[&'static Kind], request_id: &str) -> Problem {
        let Class { code, status, title, .. } = *self.class(kinds);
        let errors = if let Self::Invalid(errors) = self { errors.clone() } else { Vec::new() };
        let allowed = if let Self::Conflict { allowed, .. } = self {
            Some(allowed.iter().cloned().map(Into::into).collect())
        } else {
            None
        };
        let resource = if let Self::NotFound { kind, id } = self {
            Some(MissingResource { kind: (*kind).to_owned(), id: id.clone() })
        } else {
            None
        };
        Problem {
            type_: format!("urn:wardroom:problem:{code}"),
            title: title.to_owned(),
            status,
            detail: self.to_string(),
            code: code.to_owned(),
            request_id: request_id.to_owned(),
            errors,
            allowed_actions: allowed,
            resource,
            asked: String::new(),
        }
    }

    pub(crate) fn respond(&self, kinds: &[&'static Kind], request_id: &str) -> Response {
        let body = serde_json::to_vec(&self.problem(kinds, request_id)).unwrap_or_default();
        let mut response = (self.status(), body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        let retry = match self {
            Self::TooMany(seconds) => Some(*seconds),
            Self::Unavailable(_) | Self::Contended(_) => Some(1),
            // Streams stay open for long and operators take time: clients should not retry every second.
            Self::TooManyStreams(_) | Self::ReadOnly => Some(10),
            // Present clients ignore it; later ones may not.
            Self::Revoked => Some(60),
            Self::Invalid(_)
            | Self::Head { .. }
            | Self::ContentType
            | Self::TooLarge(_)
            | Self::BodyLate
            | Self::Unauthenticated(_)
            | Self::Basic(_)
            | Self::TokenUnknown
            | Self::NotConfigured(_)
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
        if matches!(self, Self::Basic(_)) {
            let challenge = HeaderValue::from_static("Basic realm=\"wardroom\"");
            headers.insert(header::WWW_AUTHENTICATE, challenge);
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

/// Turns errors of the store into answers. A conflict that reaches this point was retried often enough.
impl From<wardroom_store::Error> for Error {
    fn from(error: wardroom_store::Error) -> Self {
        use wardroom_store::{Error as Store, Wait};
        match error {
            Store::Invalid { field, reason } => Self::invalid(field, reason),
            Store::Conflict | Store::KeyTaken { .. } => {
                Self::Contended("too many requests change the resource at once: retry")
            }
            Store::Used { kind, id } => Self::Conflict {
                code: "in_use",
                detail: format!("{kind} {id} uses it: remove it from there first"),
                allowed: Vec::new(),
            },
            // A bulk request says so in its own words.
            Store::DryRun | Store::Moved => Self::Precondition,
            Store::Fenced { .. } => Self::Contended("another server took over this work: retry"),
            Store::ForeignCursor => crate::platform::http::list::foreign("continue"),
            Store::Unavailable(detail) => {
                tracing::error!(detail, "the database is unavailable");
                Self::Unavailable("the database is unavailable: retry")
            }
            Store::Unanswered(detail) => {
                tracing::error!(detail, "the database did not answer a change; its outcome is unknown");
                Self::Unavailable(
                    "the database did not answer: this may have been done; read before you retry",
                )
            }
            Store::CutShort(wait) => {
                tracing::error!(%error, "database statement cut short");
                Self::Unavailable(match wait {
                    Wait::Lock => {
                        "a session holds a lock in the database for too long, nothing was changed: retry; if it persists, an operator has to end that session"
                    }
                    Wait::Statement => {
                        "the database took too long and gave up, nothing was changed: retry; if it persists, an operator has to find what the statement waits for"
                    }
                })
            }
            Store::ReadOnly => {
                tracing::error!(%error, "change refused by the database");
                Self::ReadOnly
            }
            Store::NewerSchema { .. }
            | Store::OlderSchema { .. }
            | Store::InUse(_)
            | Store::Unsafe(_)
            | Store::NotEmpty
            | Store::Damaged(_)
            | Store::File { .. }
            | Store::Bug(_) => {
                tracing::error!(%error, "database call failed");
                Self::Internal
            }
        }
    }
}

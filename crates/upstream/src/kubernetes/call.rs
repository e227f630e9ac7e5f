//! One exchange with the API server: its time limit, its bounded body, and the class of its answer.

use std::{error::Error, time::Duration};

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use kube::{Client, client::Body, core::request};
use serde_json::Value;

use super::connect::causes;
use crate::{Failure, failure::fit};

/// The default time limit for an answer.
pub(super) const ANSWER: Duration = Duration::from_secs(30);

/// Longest answer that is read: a page of 500 objects.
const LONGEST: usize = 64 << 20;

/// The begin of the server's text when the schema of a kind forbids what is applied, which it answers with 500.
const UNTYPED: &str = "failed to create typed patch object";

/// A request as `kube` builds it.
pub(super) type HttpRequest = http::Request<Vec<u8>>;

#[derive(Debug)]
pub(super) struct Reply {
    status: u16,
    after: Option<Duration>,
    body: Vec<u8>,
}

/// Returns a request, unless a parameter cannot be sent.
pub(super) fn built(request: Result<HttpRequest, request::Error>) -> Result<HttpRequest, Failure> {
    request.map_err(|error| Failure::Setup(fit(&causes(&error), &[])))
}

/// Sends a request and reads the whole answer, of any status.
pub(super) async fn send(client: &Client, request: HttpRequest, timeout: Duration) -> Result<Reply, Failure> {
    let exchange = async {
        let response = open(client, request).await?;
        read(response).await
    };
    tokio::time::timeout(timeout, exchange).await.unwrap_or_else(|_| Err(late()))
}

/// Sends a request and returns as soon as the answer begins.
pub(super) async fn open(client: &Client, request: HttpRequest) -> Result<http::Response<Body>, Failure> {
    client.send(request.map(Body::from)).await.map_err(|error| lost(&error))
}

pub(super) async fn read(response: http::Response<Body>) -> Result<Reply, Failure> {
    let status = response.status().as_u16();
    let after = response.headers().get(http::header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let after = after.and_then(|seconds| seconds.parse().ok()).map(limited);
    let body = Limited::new(response.into_body(), LONGEST).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() {
            return Failure::Unexpected(format!("longer than {LONGEST} bytes"));
        }
        Failure::Ambiguous(fit(&causes(&*error), &[]))
    })?;
    Ok(Reply { status, after, body: body.to_bytes().to_vec() })
}

pub(super) fn late() -> Failure {
    Failure::Ambiguous("not in time".to_owned())
}

/// Returns a wait that a server asked for, at most ten minutes: a wrong number would stop everything for ever.
fn limited(seconds: u64) -> Duration {
    Duration::from_secs(seconds.min(600))
}

impl Reply {
    /// Returns a successful answer, otherwise the class of the refusal.
    pub(super) fn expect_success(self) -> Result<Self, Failure> {
        if (200..=299).contains(&self.status) { Ok(self) } else { Err(self.refusal()) }
    }

    /// Does the same for a call that names nothing that has to be there: a 404 concerns its namespace or its kind.
    pub(super) fn expect_parent(self) -> Result<Self, Failure> {
        let detail = self.detail();
        self.expect_success().map_err(|failure| {
            if failure == Failure::NotFound { Failure::Refused { status: 404, detail } } else { failure }
        })
    }

    /// Returns whether the server no longer has the version that was asked for.
    pub(super) fn is_expired(&self) -> bool {
        self.status == 410
    }

    /// Reads the answer as JSON. An unexpected answer is not shown, because it may contain a secret.
    pub(super) fn json(&self) -> Result<Value, Failure> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Failure::Unexpected(format!("not JSON, at {}:{}", error.line(), error.column())))
    }

    fn refusal(&self) -> Failure {
        let status: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let after = self.after.or_else(|| status["details"]["retryAfterSeconds"].as_u64().map(limited));
        class(self.status, after, self.detail())
    }

    /// Returns the message of a `Status`, or the begin of another answer.
    fn detail(&self) -> String {
        let status: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let text = status["message"].as_str().map(str::to_owned);
        let text = text.unwrap_or_else(|| String::from_utf8_lossy(&self.body).into_owned());
        let text = fit(&text, &[]);
        if text.is_empty() { "without an explanation".to_owned() } else { text }
    }
}

/// The class of a refusal.
pub(super) fn class(status: u16, after: Option<Duration>, detail: String) -> Failure {
    match status {
        300..=399 => Failure::Refused { status, detail: "it redirects to another server".to_owned() },
        401 => Failure::Refused { status, detail: "the credentials are not accepted".to_owned() },
        404 => Failure::NotFound,
        409 => Failure::Conflict(detail),
        429 => Failure::Busy { after },
        // Nothing was applied, and the same object is refused again.
        500 if detail.starts_with(UNTYPED) => Failure::Refused { status, detail },
        400..=499 => Failure::Refused { status, detail },
        500..=599 => Failure::Failed { status, detail },
        _ => Failure::Unexpected(format!("status {status}")),
    }
}

/// The class of an exchange without an answer: before anything was sent it is harmless.
fn lost(error: &kube::Error) -> Failure {
    let text = fit(&causes(error), &[]);
    if matches!(error, kube::Error::BuildRequest(_) | kube::Error::HttpError(_)) {
        return Failure::Setup(text);
    }
    let is_unsent = matches!(error, kube::Error::Auth(_)) || connecting(error);
    if is_unsent { Failure::Unreachable(text) } else { Failure::Ambiguous(text) }
}

/// Returns whether no connection was made.
fn connecting(error: &kube::Error) -> bool {
    let kube::Error::Service(service) = error else { return false };
    let mut cause: Option<&(dyn Error + 'static)> = Some(&**service);
    while let Some(error) = cause {
        let client = error.downcast_ref::<hyper_util::client::legacy::Error>();
        if client.is_some_and(hyper_util::client::legacy::Error::is_connect) {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Repeat;

    fn check(status: u16, detail: &str, repeat: Repeat) {
        assert_eq!(class(status, None, detail.to_owned()).repeat(), repeat, "{status} {detail}");
    }

    #[test]
    fn refusals_say_whether_to_ask_again() {
        check(401, "Unauthorized", Repeat::Useless);
        check(403, "deployments.apps \"c\" is forbidden", Repeat::Useless);
        check(422, "is invalid", Repeat::Useless);
        check(500, "failed to create typed patch object (t/c; apps/v1): field not declared", Repeat::Useless);
        check(500, "etcdserver: request timed out", Repeat::AfterLook);
        check(503, "apiserver is shutting down", Repeat::AfterLook);
        check(429, "too many requests", Repeat::Safe);
        check(307, "", Repeat::Useless);
    }
}

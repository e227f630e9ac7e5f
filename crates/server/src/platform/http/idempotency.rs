//! `Idempotency-Key`: the same POST again gets the same answer, not a second effect.

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http_body_util::BodyExt as _;
use jiff::SignedDuration;
use sha2::{Digest as _, Sha256};
use wardroom_store::{Answer, Claim, IdempotencyKey, Mark, Marker};

use crate::platform::{
    app::App,
    http::{
        access::{Class, Route},
        body,
        error::Error,
        etag,
    },
    identity::{
        auth::{self, Caller, Principal},
        secret::{self, Key},
    },
    kind::Repeat,
};

pub(crate) const KEY: HeaderName = HeaderName::from_static("idempotency-key");

const MEMORY: SignedDuration = SignedDuration::from_hours(24);

/// How long keys of callers without a token are kept; shorter, because any machine in the boot networks can
/// send many.
const MEMORY_OF_STRANGERS: SignedDuration = SignedDuration::from_mins(10);

/// How much longer than the request timeout a claim holds after its server died.
const CLAIM: SignedDuration = SignedDuration::from_mins(1);

/// Marks an answer that holds a secret: it is shown once, and not kept for repeats.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShownOnce;

/// Runs a request, or repeats the answer to an earlier request with the same key.
pub(crate) async fn run(app: &App, route: &Route, request: Request, next: Next) -> Response {
    if route.repeats || request.method() != Method::POST || !request.headers().contains_key(KEY) {
        return next.run(request).await;
    }
    // Boxed, so that futures of requests without a key stay small.
    Box::pin(remembered(app, route, request, next)).await.unwrap_or_else(IntoResponse::into_response)
}

async fn remembered(app: &App, route: &Route, request: Request, next: Next) -> Result<Response, Error> {
    let key = request.headers().get(KEY).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let key = key.filter(|key| (1..=255).contains(&key.len()));
    let key =
        key.ok_or_else(|| Error::invalid("Idempotency-Key", "must be 1 to 255 printable characters"))?;
    let caller = request.extensions().get::<Caller>().ok_or(Error::Internal)?;
    let (scope, memory) = scope(caller);
    let is_stranger = matches!(caller.principal, Principal::Anonymous);
    let (parts, body) = request.into_parts();
    let bytes = body::collect(body, body::MOST_BYTES).await?;
    let key = IdempotencyKey { scope, key, request_hash: hash(&app.key, &parts.uri.to_string(), &bytes) };
    let now = app.now();
    let limit = SignedDuration::try_from(app.config.request_timeout).unwrap_or(SignedDuration::MAX);
    let until = now.saturating_add(limit.saturating_add(CLAIM)).unwrap_or(jiff::Timestamp::MAX);
    match app.store.claim_key(&key, now, until).await? {
        Claim::Answered(answer) => return repeat(&answer),
        Claim::OtherRequest => return Err(Error::KeyReused),
        Claim::Done(marker) => return answer_again(app, is_stranger, route, &marker).await,
        Claim::InFlight => {
            return Err(Error::Conflict {
                code: "in_flight",
                detail: "the same request is being answered: retry in a moment".to_owned(),
                allowed: Vec::new(),
            });
        }
        Claim::Claimed => {}
    }
    let request = Request::from_parts(parts, Body::from(bytes));
    let running = Running { key, memory };
    let response = RUNNING.scope(Some(running.clone()), next.run(request)).await;
    let is_secret = route.shows_secret || response.extensions().get::<ShownOnce>().is_some();
    finish(app, &running, response, is_secret).await
}

/// Returns the scope of a key and how long it is kept. A caller with credentials is identified by them, from
/// any address.
fn scope(caller: &Caller) -> (String, SignedDuration) {
    match &caller.principal {
        Principal::Token(identity) => (identity.id.clone(), MEMORY),
        Principal::Anonymous => (format!("anonymous {}", caller.address), MEMORY_OF_STRANGERS),
        Principal::Member(member) => (member.scope(), MEMORY),
    }
}

/// A request whose key is carried by the changes that are made for it.
#[derive(Clone)]
struct Running {
    key: IdempotencyKey,
    memory: SignedDuration,
}

mod running {
    tokio::task_local! {
        pub(super) static RUNNING: Option<super::Running>;
    }
}
use running::RUNNING;

/// Returns the mark that ties a change to its request.
pub(crate) fn mark(app: &App) -> Option<Mark> {
    let Running { key, memory } = RUNNING.try_with(Clone::clone).ok().flatten()?;
    Some(Mark { key, until: app.now() + memory })
}

/// For requests that change many resources in separate commits: after an interruption the request runs again
/// for the rest.
pub(crate) async fn in_parts<T>(work: impl Future<Output = T>) -> T {
    RUNNING.scope(None, work).await
}

/// Answers a request that was carried out, but whose answer was lost with its server: it shows the changed resource as it
/// is now.
async fn answer_again(
    app: &App,
    is_stranger: bool,
    route: &Route,
    marker: &Marker,
) -> Result<Response, Error> {
    if marker.kind == auth::TOKEN || route.shows_secret {
        return Err(shown_once());
    }
    let again = app.stored(&marker.kind).and_then(|stored| stored.again);
    let (Some(again), Some(resource)) = (again, app.store.get(&marker.kind, &marker.id).await?) else {
        let detail = format!(
            "the request was done, as change {} of {} {}: read that resource",
            marker.sequence, marker.kind, marker.id
        );
        return Err(Error::Conflict { code: "answer_lost", detail, allowed: Vec::new() });
    };
    let mut response = again(app, &resource, Repeat { is_stranger, marker }).await?;
    // A report registers machines too, and does not answer 201.
    if marker.entry_type == "registered" && route.class != Class::Report {
        *response.status_mut() = StatusCode::CREATED;
    }
    response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    Ok(response)
}

/// Stores a successful answer; any other request may be retried with the same key.
async fn finish(
    app: &App,
    Running { key, memory }: &Running,
    response: Response,
    is_secret: bool,
) -> Result<Response, Error> {
    if !response.status().is_success() {
        app.store.release_key(key).await?;
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.map_err(|_| Error::Internal)?.to_bytes();
    // A secret is shown once and not kept: a caller that lost it makes another.
    let kept = if is_secret { String::new() } else { kept(&parts.headers, &bytes) };
    let answer = Answer { status: parts.status.as_u16(), body: kept };
    app.store.answer_key(key, &answer, app.now() + *memory).await?;
    Ok(Response::from_parts(parts, Body::from(bytes)))
}

/// Returns the kept text of an answer: its body, after a line with its ETag where it has one. A body begins
/// with a brace, a tag with a quotation mark.
fn kept(headers: &HeaderMap, body: &[u8]) -> String {
    let body = String::from_utf8_lossy(body);
    match headers.get(header::ETAG).and_then(|tag| tag.to_str().ok()) {
        Some(tag) => format!("{tag}\n{body}"),
        None => body.into_owned(),
    }
}

fn repeat(answer: &Answer) -> Result<Response, Error> {
    if answer.body.is_empty() {
        return Err(shown_once());
    }
    let status = StatusCode::from_u16(answer.status).map_err(|_| Error::Internal)?;
    let (tag, body) = match answer.body.split_once('\n') {
        Some((tag, body)) if tag.starts_with('"') => (Some(tag), body),
        _ => (None, &*answer.body),
    };
    let mut response = (status, body.to_owned()).into_response();
    if let Some(tag) = tag {
        etag::set(&mut response, tag);
    }
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    Ok(response)
}

fn shown_once() -> Error {
    Error::Conflict {
        code: "shown_once",
        detail: "this was done, and its secret was shown once: revoke what was made and make another with a new key"
            .to_owned(),
        allowed: Vec::new(),
    }
}

/// Hashes a request with the server's key, so that the stored hash does not help to guess its body.
fn hash(key: &Key, uri: &str, body: &[u8]) -> String {
    secret::encode(&key.sign("idempotency", &[uri, &secret::encode(&Sha256::digest(body))]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bodies may hold secrets that are short enough to be guessed.
    #[test]
    fn a_stored_hash_tells_nothing_without_the_key() {
        let dir = tempfile::tempdir().unwrap();
        let key = |name: &str| Key::create(&dir.path().join(name)).unwrap();
        let (one, two) = (key("one"), key("two"));
        assert_eq!(hash(&one, "/a", b"1234"), hash(&one, "/a", b"1234"));
        assert_ne!(hash(&one, "/a", b"1234"), hash(&two, "/a", b"1234"));
        assert_ne!(hash(&one, "/a", b"1234"), hash(&one, "/a1", b"234"));
    }
}

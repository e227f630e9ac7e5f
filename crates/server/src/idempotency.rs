//! `Idempotency-Key`: the same POST again gets the same answer, not a second effect.

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http_body_util::{BodyExt as _, Limited};
use jiff::SignedDuration;
use sha2::{Digest as _, Sha256};
use wardroom_store::{Answer, Claim, IdempotencyKey};

use crate::{app::App, auth::Caller, error::Error, secret};

const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// How long an answer is remembered.
const MEMORY: SignedDuration = SignedDuration::from_hours(24);

/// How much longer than a request a claim holds when its server dies over it.
const CLAIM: SignedDuration = SignedDuration::from_mins(1);

/// What is read of a body before the handler sees it; its own limit may be lower.
const MOST_BYTES: usize = 1 << 20;

/// Runs a request, unless its key says that it was run before.
pub(crate) async fn run(app: &App, request: Request, next: Next) -> Response {
    if request.method() != Method::POST || !request.headers().contains_key(KEY) {
        return next.run(request).await;
    }
    remembered(app, request, next).await.unwrap_or_else(IntoResponse::into_response)
}

async fn remembered(app: &App, request: Request, next: Next) -> Result<Response, Error> {
    let key = request.headers().get(KEY).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let key = key.filter(|key| (1..=255).contains(&key.len()));
    let key =
        key.ok_or_else(|| Error::invalid("Idempotency-Key", "must be 1 to 255 printable characters"))?;
    let caller = request.extensions().get::<Caller>().ok_or(Error::Internal)?;
    let scope = match caller.identity() {
        Some(identity) => identity.id.clone(),
        None => format!("anonymous {}", caller.address),
    };

    let (parts, body) = request.into_parts();
    let bytes = Limited::new(body, MOST_BYTES).collect().await;
    let bytes = bytes.map_err(|_| Error::TooLarge(MOST_BYTES))?.to_bytes();
    let key = IdempotencyKey { scope, key, request_hash: hash(&parts.uri.to_string(), &bytes) };
    let now = app.now();
    let limit = SignedDuration::try_from(app.config.request_timeout).unwrap_or(SignedDuration::MAX);
    let until = now.saturating_add(limit.saturating_add(CLAIM)).unwrap_or(jiff::Timestamp::MAX);
    match app.store.claim_key(&key, now, until).await? {
        Claim::Answered(answer) => return repeat(&answer),
        Claim::OtherRequest => return Err(Error::KeyReused),
        Claim::InFlight | Claim::Done(_) => {
            return Err(Error::Conflict {
                code: "in_flight",
                detail: "the same request is being answered: repeat it in a moment".to_owned(),
                allowed: Vec::new(),
            });
        }
        Claim::Claimed => {}
    }
    let is_secret = parts.uri.path() == "/api/v1/tokens";
    let response = next.run(Request::from_parts(parts, Body::from(bytes))).await;
    finish(app, &key, response, is_secret).await
}

/// Remembers a success; anything else may be tried again with the same key.
async fn finish(
    app: &App,
    key: &IdempotencyKey,
    response: Response,
    is_secret: bool,
) -> Result<Response, Error> {
    if !response.status().is_success() {
        app.store.release_key(key).await?;
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.map_err(|_| Error::Internal)?.to_bytes();
    // A secret is shown once and not kept: who lost it makes another.
    let kept = if is_secret { String::new() } else { String::from_utf8_lossy(&bytes).into_owned() };
    let answer = Answer { status: parts.status.as_u16(), body: kept };
    app.store.answer_key(key, &answer, app.now() + MEMORY).await?;
    Ok(Response::from_parts(parts, Body::from(bytes)))
}

fn repeat(answer: &Answer) -> Result<Response, Error> {
    if answer.body.is_empty() {
        return Err(Error::Conflict {
            code: "shown_once",
            detail: "this was done, and its secret was shown once: revoke what was made and make another with a new key".to_owned(),
            allowed: Vec::new(),
        });
    }
    let status = StatusCode::from_u16(answer.status).map_err(|_| Error::Internal)?;
    let mut response = (status, answer.body.clone()).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    Ok(response)
}

fn hash(uri: &str, body: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update((uri.len() as u64).to_be_bytes());
    hash.update(uri);
    hash.update(body);
    secret::encode(&hash.finalize())
}

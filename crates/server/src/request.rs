//! The layers around every handler: request id, time limit, caller, access, rate limit, idempotency; and the
//! body of every refusal.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{ConnectInfo, MatchedPath, Request, State},
    http::{HeaderMap, HeaderValue, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use uuid::Uuid;

use crate::{
    access,
    app::App,
    auth::{Caller, Who},
    error::Error,
    idempotency,
    listen::Peer,
};

const REQUEST_ID: &str = "x-request-id";

/// The outermost layer: names the request, limits its time, and writes the body of a refusal.
pub(crate) async fn answer(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    request.extensions_mut().insert(Arc::clone(&id));
    let method = request.method().clone();
    // Events are meant to be held open.
    let is_stream = request.uri().path() == "/api/v1/events";
    let answered = if is_stream {
        next.run(request).await
    } else {
        match tokio::time::timeout(app.config.request_timeout, next.run(request)).await {
            Ok(response) => response,
            Err(_) => Error::Unavailable("the request took too long: repeat").into_response(),
        }
    };
    let mut response = match answered.extensions().get::<Error>() {
        Some(error) => error.respond(&id),
        None => answered,
    };
    if response.status().is_server_error() {
        tracing::warn!(request_id = &*id, %method, status = response.status().as_u16(), "failed");
    }
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, value);
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The layer inside the router: knows the route, so it decides who may go on.
pub(crate) async fn admit(State(app): State<App>, mut request: Request, next: Next) -> Response {
    match admitted(&app, &mut request).await {
        Ok(()) => idempotency::run(&app, request, next).await,
        Err(error) => error.into_response(),
    }
}

async fn admitted(app: &App, request: &mut Request) -> Result<(), Error> {
    let matched = request.extensions().get::<MatchedPath>().ok_or(Error::NoRoute)?;
    let route = access::find(request.method().as_str(), matched.as_str()).ok_or(Error::Method)?;
    let token = bearer(request.headers()).map(|token| token.map(str::to_owned));
    let extensions = request.extensions();
    let request_id = extensions.get::<Arc<str>>().cloned().ok_or(Error::Internal)?;
    let peer = extensions.get::<ConnectInfo<Peer>>();
    let address = peer.map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.0.0.ip());

    let who = match token {
        Ok(token) => who(app, token.as_deref(), route).await,
        Err(error) => Err(error),
    };
    let (who, refused) = match who {
        Ok(who) => (who, None),
        Err(error) => (Who::Nobody, Some(error)),
    };
    let caller = Caller { who, address, request_id };
    // Who is refused counts as well, or guessing would be free.
    app.limiter.check(route, &caller)?;
    let checked = refused.map_or_else(|| access::check(route, &caller), Err);
    if let Err(error) = &checked {
        app.denials.count(caller.name(), route.path, error.status().as_u16());
    }
    checked?;
    request.extensions_mut().insert(caller);
    Ok(())
}

async fn who(app: &App, token: Option<&str>, route: &access::Route) -> Result<Who, Error> {
    match token {
        None => Ok(Who::Nobody),
        Some(token) if token.starts_with("wrt_") => Ok(Who::Token(app.tokens.find(app, token).await?)),
        // Only routes for machines take other tokens, and their handlers check them.
        Some(token) if matches!(route.allow, access::Allow::Machine(_)) => Ok(Who::Machine(token.into())),
        Some(_) => Err(Error::Unauthenticated("the token is not valid: it is unknown or was revoked")),
    }
}

fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Error> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let text = value.to_str().ok();
    let token = text
        .and_then(|text| text.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    match token {
        Some((_, token)) => Ok(Some(token.trim())),
        None => Err(Error::Unauthenticated("the header must be Authorization: Bearer …")),
    }
}

/// The caller's own id if it is a decent one, so that it can find its request in our log.
fn request_id(headers: &HeaderMap) -> Arc<str> {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let decent = |id: &&str| {
        (1..=128).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    given.filter(decent).map_or_else(|| Uuid::now_v7().to_string().into(), Arc::from)
}

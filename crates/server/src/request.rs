//! The layers around every handler: request id, time limit, caller, access, rate limit, idempotency; and the
//! body of every refusal.

use std::{
    net::IpAddr,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    extract::{ConnectInfo, MatchedPath, Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures_util::{FutureExt as _, future::BoxFuture};
use hyper::body::Body as _;
use tower::Service as _;
use uuid::Uuid;

use crate::{
    access::{self, Class},
    app::App,
    auth::{Caller, Who},
    body,
    error::Error,
    gpu_node, idempotency, list,
    listen::Peer,
    registry, router,
    satellite::{self, identity::Shown},
    spiffe::SpiffeId,
};

const REQUEST_ID: &str = "x-request-id";

/// How long an answer may be held back on request.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Around all routes: names the request, limits its time, and writes the body of a refusal.
pub(crate) async fn answer(app: App, mut request: Request, mut routes: Router) -> Response {
    let id = request_id(request.headers());
    request.extensions_mut().insert(Arc::clone(&id));
    let method = request.method().clone();
    // Who waits for events asks for it; a stream is answered at once, and goes on after its answer.
    let is_registry = registry::is_path(request.uri().path());
    let waits = request.uri().path() == "/api/v1/events";
    let limit = app.config.request_timeout + if waits { LONGEST_WAIT } else { Duration::ZERO };
    let answered = if has_host(&request) {
        let work = AssertUnwindSafe(routes.call(request)).catch_unwind();
        match tokio::time::timeout(limit, work).await {
            Ok(Ok(Ok(response))) => response,
            Ok(Err(_)) => panicked(),
            Err(_) => late(&method).into_response(),
        }
    } else {
        Error::invalid("Host", "is missing, which HTTP/1.1 asks for").into_response()
    };
    let allowed = answered.headers().get(header::ALLOW).cloned();
    let mut response = match answered.extensions().get::<Error>() {
        Some(error) if is_registry => registry::refuse(error, error.respond(&id)),
        Some(error) => error.respond(&id),
        None => answered,
    };
    if let Some(allowed) = allowed {
        response.headers_mut().insert(header::ALLOW, allowed);
    }
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

/// RFC 9112, section 3.2: nobody is answered who does not say whom it means.
fn has_host(request: &Request) -> bool {
    request.version() < Version::HTTP_11 || request.headers().contains_key(header::HOST)
}

/// What changes something is carried to its end, also when nobody waits for it any more.
fn late(method: &Method) -> Error {
    Error::Unavailable(if method.is_safe() {
        "the request took too long: repeat"
    } else {
        "the request took too long: it may have been done, or may yet be; read before you repeat"
    })
}

/// The layer inside the router: knows the route, so it decides who may go on.
pub(crate) async fn admit(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let began = app.clock.instant();
    let (route, caller) = match admitted(&app, &mut request).await {
        Ok(admitted) => admitted,
        Err(error) => {
            app.metrics.refused();
            return error.into_response();
        }
    };
    let response = if request.method().is_safe() && !access::changes(route) {
        next.run(request).await
    } else {
        // The body has a part of the time only, so that who is slow is told that, and not that the server is.
        let limit = app.config.request_timeout * 9 / 10;
        match tokio::time::timeout(limit, whole(request)).await.unwrap_or(Err(Error::BodyLate)) {
            Ok(request) => to_its_end(app.clone(), request, next).await,
            Err(error) => error.into_response(),
        }
    };
    let response = still_counts(&app, &caller.who, response).await;
    if response.status().is_server_error() && access::is_beat(route) {
        match &caller.who {
            Who::Satellite(satellite) => app.liveness.was_there(satellite::document::KIND, &satellite.id),
            Who::GpuAgent(node) => app.liveness.was_there(gpu_node::document::KIND, node),
            Who::Nobody | Who::Token(_) | Who::Machine(_) | Who::Svid(_) => {}
        }
    }
    if matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        app.denials.count(caller.name(), route.path, response.status().as_u16());
    }
    app.metrics.answered(route, response.status().as_u16(), began.elapsed());
    response
}

/// What was judged before may have been read from a slow database since, or the process may have stood still: no
/// satellite whose revocation was acknowledged meanwhile is told that all is well.
async fn still_counts(app: &App, who: &Who, response: Response) -> Response {
    if let Who::Satellite(identity) = who
        && response.status().is_success()
        && let Err(refused) = app.satellites.standing(app, identity).await
    {
        return refused.into_response();
    }
    response
}

/// The request with all of its body, which must come within the time limit: what is carried out to its end must not
/// wait for its caller.
async fn whole(request: Request) -> Result<Request, Error> {
    if request.body().is_end_stream() {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    let bytes = body::collect(body, body::MOST_BYTES).await?;
    Ok(Request::from_parts(parts, bytes.into()))
}

fn panicked() -> Response {
    tracing::error!("a request panicked");
    Error::Internal.into_response()
}

/// What changes something is carried out to its end, also when its caller hangs up in the middle: what follows
/// a commit must follow it. Only then it becomes a task of its own.
fn to_its_end(app: App, request: Request, next: Next) -> ToItsEnd {
    let work = {
        let app = app.clone();
        async move {
            let run = AssertUnwindSafe(idempotency::run(&app, request, next));
            run.catch_unwind().await.unwrap_or_else(|_| panicked())
        }
    };
    ToItsEnd(Some(Box::pin(work)), app)
}

struct ToItsEnd(Option<BoxFuture<'static, Response>>, App);

impl Future for ToItsEnd {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response> {
        let Some(work) = &mut self.0 else { return Poll::Pending };
        let answered = work.as_mut().poll(context);
        if answered.is_ready() {
            self.0 = None;
        }
        answered
    }
}

impl Drop for ToItsEnd {
    fn drop(&mut self) {
        // Without a runtime the server has ended, and nothing follows any more.
        if let (Some(rest), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            // The server's end waits for whoever listens here.
            let under_way = self.1.detached.subscribe();
            runtime.spawn(async move {
                rest.await;
                drop(under_way);
            });
        }
    }
}

async fn admitted(app: &App, request: &mut Request) -> Result<(&'static access::Route, Caller), Error> {
    let matched = request.extensions().get::<MatchedPath>().ok_or(Error::NoRoute)?;
    let route = access::find(request.method().as_str(), matched.as_str()).ok_or(Error::Method)?;
    let shown = once(request.headers()).and_then(|()| credentials(request.headers()));
    let extensions = request.extensions();
    let request_id = extensions.get::<Arc<str>>().cloned().ok_or(Error::Internal)?;
    let peer = extensions.get::<ConnectInfo<Peer>>();
    let address = peer.map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.0.0.ip());

    let svid = extensions.get::<SpiffeId>().cloned();
    // A client of a registry asks without credentials to be told that there must be some.
    let is_told = svid.is_none() && matches!(shown, Ok(None)) && route.allow == access::Allow::Satellite;
    let who = match shown {
        // Who needs no credentials is not asked for them, so that health depends on nothing.
        _ if access::is_open(app, route, address) => Ok(Who::Nobody),
        // Where certificates are asked for, nothing else counts.
        _ if svid.is_some() => by_svid(app, svid, route, address).await,
        Ok(shown) => who(app, shown, route, address).await,
        Err(error) => Err(error),
    };
    let (who, refused) = match who {
        Ok(who) => (who, None),
        Err(error) => (Who::Nobody, Some(error)),
    };
    let caller = Caller { who, address, request_id };
    match &refused {
        // It costs nothing, and a whole site may ask from one address.
        None if is_told => {}
        // Its credential was one: nobody guesses here, and its neighbours do not pay for each other.
        Some(Error::Revoked) => app.limiter.check_revoked(route, recognised(request).as_deref(), &caller)?,
        // Who is refused counts as well, or guessing would be free.
        Some(_) | None => app.limiter.check(route, &caller)?,
    }
    let checked = refused.map_or_else(|| access::check(app, route, &caller), Err);
    if let Err(error) = &checked {
        let known = matches!(error, Error::Revoked).then(|| recognised(request)).flatten();
        app.denials.count(known.as_deref().unwrap_or(caller.name()), route.path, error.status().as_u16());
    }
    checked?;
    // Machines and their programs send what they like; what people ask for in vain they are told.
    if matches!(route.class, Class::Read | Class::Write)
        && request.uri().query().is_some()
        && !router::reads_a_query(route)
    {
        list::refuse_query(request.uri())?;
    }
    request.extensions_mut().insert(caller.clone());
    Ok((route, caller))
}

/// Whom a caller shows to be who is refused although it was recognised.
fn recognised(request: &Request) -> Option<String> {
    match (request.extensions().get::<SpiffeId>(), credentials(request.headers())) {
        (Some(svid), _) => Some(svid.id.to_string()),
        (None, Ok(Some(Credentials::Basic(user, _)))) => Some(user),
        (None, Ok(Some(Credentials::Bearer(_)) | None) | Err(_)) => None,
    }
}

async fn who(
    app: &App,
    shown: Option<Credentials>,
    route: &access::Route,
    from: IpAddr,
) -> Result<Who, Error> {
    use access::Allow;
    match (shown, route.allow) {
        (None, _) => Ok(Who::Nobody),
        (Some(Credentials::Basic(user, secret)), Allow::Satellite) => {
            let shown = Shown::Secret(satellite::secret::hash(&secret));
            let identity = app.satellites.identify(app, &user, shown, from).await?;
            Ok(Who::Satellite(Arc::new(identity)))
        }
        (Some(Credentials::Basic(..)), _) => {
            Err(Error::Unauthenticated("the header must be Authorization: Bearer …"))
        }
        (Some(Credentials::Bearer(token)), _) if token.starts_with("wrt_") => {
            Ok(Who::Token(app.tokens.find(app, &token, from).await?))
        }
        (Some(Credentials::Bearer(token)), Allow::GpuAgent) if gpu_node::secret::is_credential(&token) => {
            Ok(Who::GpuAgent(gpu_node::identity::identify(app, &token, from).await?.into()))
        }
        // Only routes for machines take other tokens, and their handlers check them.
        (Some(Credentials::Bearer(token)), Allow::Machine(_)) => Ok(Who::Machine(token.into())),
        (Some(Credentials::Bearer(_)), _) => {
            Err(Error::Unauthenticated("the token is not valid: it is unknown or was revoked"))
        }
    }
}

/// Who a certificate makes of a caller. It was verified when the connection was opened; its end is looked at now.
async fn by_svid(
    app: &App,
    svid: Option<SpiffeId>,
    route: &access::Route,
    from: IpAddr,
) -> Result<Who, Error> {
    let Some(svid) = svid.filter(|svid| app.now() < svid.until) else {
        return Err(Error::Robot("the certificate has expired: connect again with a new one"));
    };
    if route.allow == access::Allow::Svid {
        return Ok(Who::Svid(Arc::new(svid)));
    }
    let identity = app.satellites.identify(app, &svid.id, Shown::Svid(svid.from), from).await?;
    Ok(Who::Satellite(Arc::new(identity)))
}

/// What a request shows; never printed.
enum Credentials {
    Bearer(String),
    /// User and secret; a secret may have colons, a user has none.
    Basic(String, String),
}

/// Refuses headers that are there twice and mean one thing: which of them was meant is anybody's guess.
fn once(headers: &HeaderMap) -> Result<(), Error> {
    const ONCE: &[&str] = &["Authorization", "Content-Type", "Host", "Idempotency-Key", "Last-Event-ID"];
    if headers.len() == headers.keys_len() {
        return Ok(());
    }
    let twice = ONCE.iter().find(|name| headers.get_all(**name).iter().nth(1).is_some());
    twice.map_or(Ok(()), |name| Err(Error::invalid(*name, "is there twice")))
}

fn credentials(headers: &HeaderMap) -> Result<Option<Credentials>, Error> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let (scheme, shown) = value.to_str().ok().and_then(|text| text.split_once(' ')).unwrap_or_default();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Ok(Some(Credentials::Bearer(shown.trim().to_owned())));
    }
    let basic = || {
        let bytes = BASE64_STANDARD.decode(shown.trim()).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        text.split_once(':').map(|(user, secret)| Credentials::Basic(user.to_owned(), secret.to_owned()))
    };
    match basic().filter(|_| scheme.eq_ignore_ascii_case("basic")) {
        Some(basic) => Ok(Some(basic)),
        None => Err(Error::Unauthenticated(
            "the header must be Authorization: Bearer …, or Basic … of a satellite",
        )),
    }
}

/// The caller's own id if it is a decent one, so that it can find its request in our log.
fn request_id(headers: &HeaderMap) -> Arc<str> {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let decent = |id: &&str| {
        (1..=128).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    let new = || Arc::from(&*Uuid::now_v7().hyphenated().encode_lower(&mut Uuid::encode_buffer()));
    given.filter(decent).map_or_else(new, Arc::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_means_one_thing_is_there_once() {
        let mut headers = HeaderMap::new();
        for name in ["accept", "accept", "authorization", "content-type"] {
            headers.append(name, HeaderValue::from_static("x"));
        }
        assert!(once(&headers).is_ok());
        headers.append("authorization", HeaderValue::from_static("x"));
        let Err(Error::Invalid(errors)) = once(&headers) else { panic!("was taken") };
        assert_eq!(errors[0].field, "Authorization");
    }

    /// C4: the user name of a robot has a dollar sign, and its secret may have colons.
    #[test]
    fn a_secret_may_have_colons() {
        let mut headers = HeaderMap::new();
        let shown = format!("Basic {}", BASE64_STANDARD.encode("robot$edge:a:b::c"));
        headers.insert(header::AUTHORIZATION, shown.parse().unwrap());
        let Ok(Some(Credentials::Basic(user, secret))) = credentials(&headers) else {
            panic!("no credentials")
        };
        assert_eq!((&*user, &*secret), ("robot$edge", "a:b::c"));
    }
}

//! The layers around every handler: request id, time limit, caller, access, rate limit, idempotency; and the
//! body of every refusal.

use std::{
    net::IpAddr,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    Router,
    extract::{ConnectInfo, MatchedPath, Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures_util::{FutureExt as _, future::BoxFuture};
use hyper::body::Body as _;
use tower::Service as _;
use uuid::Uuid;

use crate::platform::{
    app::App,
    console::{
        self,
        inside::{Conditional, Inside},
        session,
    },
    http::{
        access::{self, Allow, Class, Route},
        body,
        error::Error,
        host, idempotency, list,
        listen::Peer,
    },
    identity::{
        auth::{self, Caller, Principal},
        certificate::ClientCertificate,
        member::Shown,
    },
    kind::Dialect,
};

const REQUEST_ID: &str = "x-request-id";

/// Around all routes: names the request, limits its time, and writes the body of a refusal.
pub(crate) async fn answer(app: App, mut request: Request, mut routes: Router) -> Response {
    let id = request_id(request.headers());
    request.extensions_mut().insert(Arc::clone(&id));
    let method = request.method().clone();
    // A caller that waits for events sets its own time; a stream is answered at once, and continues after
    // its answer.
    let (dialect, kinds) = (app.dialect(request.uri().path()), app.kinds);
    let visitor = console::answer::visitor(&request);
    let limit = app.config.request_timeout + app.routes.wait(request.uri().path(), &app.config);
    let answered = match host::check(&request) {
        Err(refused) => refused.into_response(),
        Ok(()) => {
            let work = AssertUnwindSafe(routes.call(request)).catch_unwind();
            match tokio::time::timeout(limit, work).await {
                Ok(Ok(Ok(response))) => response,
                Ok(Err(_)) => panicked(),
                Err(_) => late(&method).into_response(),
            }
        }
    };
    let allowed = answered.headers().get(header::ALLOW).cloned();
    let mut response = match answered.extensions().get::<Error>() {
        Some(error) if let Some(visitor) = &visitor => visitor.refused(error, kinds, &id),
        Some(error) => {
            let refused = error.respond(kinds, &id);
            match dialect {
                Some(Dialect { refuse, .. }) => refuse(error, refused),
                None => refused,
            }
        }
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

/// Returns the error for a request that took too long. A change is carried out to its end, also without its
/// caller.
fn late(method: &Method) -> Error {
    Error::Unavailable(if method.is_safe() {
        "the request took too long: retry"
    } else {
        "the request took too long: it may have been done, or may still be done; read before you retry"
    })
}

/// The layer inside the router: it knows the route, so it decides whether the caller may use it.
pub(crate) async fn admit(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let began = app.clock.instant();
    let (route, caller) = match admitted(&app, &mut request).await {
        Ok(admitted) => admitted,
        Err(error) => {
            app.metrics.refused();
            return error.into_response();
        }
    };
    let response = if request.method().is_safe() && !route.changes {
        next.run(request).await
    } else {
        // The body gets only a part of the time limit, so that a slow caller gets 408 instead of 503.
        let limit = app.config.request_timeout * 9 / 10;
        match tokio::time::timeout(limit, whole(request)).await.unwrap_or(Err(Error::BodyLate)) {
            Ok(request) => to_its_end(app.clone(), route, request, next).await,
            Err(error) => error.into_response(),
        }
    };
    let response = still_counts(&app, &caller.principal, response).await;
    if response.status().is_server_error()
        && route.beats
        && let Principal::Member(member) = &caller.principal
    {
        app.liveness.was_there(member.kind(), member.id());
    }
    if matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        app.denials.count(caller.name(), route.path, response.status().as_u16());
    }
    app.metrics.answered(&app.routes, route, response.status().as_u16(), began.elapsed());
    response
}

/// Checks a member again before its answer is sent: a slow database or a pause may have delayed the answer,
/// and a member revoked meanwhile must not get 200.
async fn still_counts(app: &App, principal: &Principal, response: Response) -> Response {
    if let Principal::Member(member) = principal
        && response.status().is_success()
        && let Some(judged) = member.still_counts(app)
        && let Err(refused) = judged.await
    {
        return refused.into_response();
    }
    response
}

/// Returns the request with its whole body, read within the time limit: a change that runs to its end must
/// not wait for its caller.
async fn whole(request: Request) -> Result<Request, Error> {
    if request.body().is_end_stream() {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    let bytes = body::collect(body, body::MOST_BYTES).await?;
    Ok(Request::from_parts(parts, bytes.into()))
}

fn panicked() -> Response {
    tracing::error!("request panicked");
    Error::Internal.into_response()
}

/// Runs a change to its end, even if its caller hangs up: steps after the commit must follow it. Only then it
/// becomes a separate task.
fn to_its_end(app: App, route: &'static Route, request: Request, next: Next) -> ToItsEnd {
    let condition = request.extensions().get::<Conditional>().cloned();
    let work = {
        let app = app.clone();
        async move {
            let run = AssertUnwindSafe(idempotency::run(&app, route, request, next));
            run.catch_unwind().await.unwrap_or_else(|_| panicked())
        }
    };
    // The condition is inside, so that it also holds for the rest that runs without a caller.
    match condition {
        Some(Conditional(condition)) => ToItsEnd(Some(Box::pin(condition.around(work))), app),
        None => ToItsEnd(Some(Box::pin(work)), app),
    }
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
        // Without a runtime the server has ended.
        if let (Some(rest), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            // The shutdown waits for all receivers of this channel.
            let under_way = self.1.detached.subscribe();
            runtime.spawn(async move {
                rest.await;
                drop(under_way);
            });
        }
    }
}

async fn admitted(app: &App, request: &mut Request) -> Result<(&'static Route, Caller), Error> {
    let matched = request.extensions().get::<MatchedPath>().ok_or(Error::NoRoute)?;
    let route = app.routes.find(request.method().as_str(), matched.as_str()).ok_or(Error::Method)?;
    let shown = once(request.headers()).and_then(|()| credentials(request.headers()));
    let extensions = request.extensions();
    let request_id = extensions.get::<Arc<str>>().cloned().ok_or(Error::Internal)?;
    let peer = extensions.get::<ConnectInfo<Peer>>();
    let address = peer.map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.0.0.ip());

    let svid = extensions.get::<ClientCertificate>().cloned();
    let challenges = matches!(route.allow, Allow::Proven(proof, _) if proof.challenges);
    let inside = extensions.get::<Inside>().cloned();
    let is_told = challenges && svid.is_none() && matches!(shown, Ok(None));
    let mut session = None;
    let principal = match (shown, &svid) {
        // A page calls the API as the caller of its session, which was recognised for the page.
        _ if let Some(Inside(principal)) = inside => Ok(principal),
        // Open routes ignore credentials, so that health checks need no database.
        _ if access::is_open(app, route, address) => Ok(Principal::Anonymous),
        // Pages know their caller by its session alone.
        _ if matches!(route.allow, Allow::Session) => {
            session::of(app, request.headers(), address).await.map(|(principal, found)| {
                session = Some(found);
                principal
            })
        }
        // On a listener for certificates other credentials are ignored.
        (_, Some(svid)) => proven(app, route, Shown::Certificate(svid), address).await,
        (Ok(shown), None) => principal(app, shown.as_ref(), route, address).await,
        (Err(error), None) => Err(error),
    };
    let (principal, refused) = match principal {
        Ok(principal) => (principal, None),
        Err(error) => (Principal::Anonymous, Some(error)),
    };
    let caller = Caller { principal, address, request_id };
    match &refused {
        // It is a part of a request that was counted.
        None if extensions.get::<Conditional>().is_some() => {}
        // A challenge counts against no limit: a whole site may ask from one address.
        None if is_told => {}
        // The credential was valid once, so it is not counted as a guess against the address.
        Some(Error::Revoked) => app.limiter.check_revoked(route, recognised(request).as_deref(), &caller)?,
        // Refused callers count too; otherwise guessing would be free.
        Some(_) | None => app.limiter.check(route, &caller)?,
    }
    let checked = refused.map_or_else(|| access::check(app, route, &caller), Err);
    if let Err(error) = &checked {
        let known = matches!(error, Error::Revoked).then(|| recognised(request)).flatten();
        app.denials.count(known.as_deref().unwrap_or(caller.name()), route.path, error.status().as_u16());
    }
    checked?;
    // Machines and their programs send arbitrary headers; people get an error for headers that have no
    // effect.
    if !console::ACCESS.iter().any(|page| page.path == route.path)
        && matches!(route.class, Class::Read | Class::Write)
        && request.uri().query().is_some()
        && !app.reads_a_query(route)
    {
        list::refuse_query(request.uri())?;
    }
    request.extensions_mut().insert(caller.clone());
    if let Some(session) = session {
        request.extensions_mut().insert(session);
    }
    Ok((route, caller))
}

/// Returns the identity that a recognised but refused caller shows.
fn recognised(request: &Request) -> Option<String> {
    match (request.extensions().get::<ClientCertificate>(), credentials(request.headers())) {
        (Some(svid), _) => Some(svid.id.to_string()),
        (None, Ok(Some(Credentials::Basic(user, _)))) => Some(user),
        (None, Ok(Some(Credentials::Bearer(_)) | None) | Err(_)) => None,
    }
}

async fn principal(
    app: &App,
    shown: Option<&Credentials>,
    route: &Route,
    from: IpAddr,
) -> Result<Principal, Error> {
    let shown = match shown {
        None => return Ok(Principal::Anonymous),
        Some(Credentials::Bearer(token)) if token.starts_with("wrt_") => {
            let is_numbers = route.path == access::NUMBERS;
            return Ok(Principal::Token(match is_numbers {
                true => auth::by_token_in_outage(app, token, from).await?,
                false => auth::by_token(app, token, from).await?,
            }));
        }
        Some(Credentials::Bearer(token)) => Shown::Bearer(token),
        Some(Credentials::Basic(user, secret)) => Shown::Basic(user, secret),
    };
    proven(app, route, shown, from).await
}

/// Returns the member that a route's proof recognises by its credentials.
async fn proven(app: &App, route: &Route, shown: Shown<'_>, from: IpAddr) -> Result<Principal, Error> {
    let is_basic = matches!(shown, Shown::Basic(..));
    if let Allow::Proven(proof, _) = route.allow
        && let Some(member) = (proof.identify)(app, shown, from).await?
    {
        return Ok(Principal::Member(member));
    }
    Err(Error::Unauthenticated(if is_basic {
        "the header must be Authorization: Bearer …"
    } else {
        "the token is not valid: it is unknown or was revoked"
    }))
}

/// The credentials of a request; never printed.
enum Credentials {
    Bearer(String),
    /// User and secret; a secret may have colons, a user has none.
    Basic(String, String),
}

/// Refuses headers that appear more than once although they mean one thing.
fn once(headers: &HeaderMap) -> Result<(), Error> {
    const ONCE: &[&str] = &["Authorization", "Content-Type", "Host", "Idempotency-Key", "Last-Event-ID"];
    if headers.len() == headers.keys_len() {
        return Ok(());
    }
    let twice = ONCE.iter().find(|name| headers.get_all(**name).iter().nth(1).is_some());
    twice.map_or(Ok(()), |name| Err(Error::invalid(*name, "appears more than once")))
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
            "the header must be Authorization: Bearer …, or Basic … with the user and the secret of a member",
        )),
    }
}

/// Returns the caller's request id if it is well formed, or else a new one.
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

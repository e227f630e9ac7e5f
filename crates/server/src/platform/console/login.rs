//! Logging in and out, and the theme.

use std::time::Duration;

use axum::{
    Extension,
    extract::{Query, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use wardroom_console::{login, shell::Theme};

use super::{
    Console,
    answer::{self, own, see},
    session,
    visit::{self, Posted, Visit},
};
use crate::platform::{
    app::App,
    http::error::Error,
    identity::auth::{self, Caller},
};

/// How long a refused login takes, whatever was wrong with its token.
const REFUSED_AFTER: Duration = Duration::from_millis(400);

/// The root leads browsers to the console; for programs there is nothing.
pub(super) async fn root(headers: HeaderMap) -> Result<Response, Error> {
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepts.contains("text/html") { Ok(see("/console")) } else { Err(Error::NoRoute) }
}

/// What a login is asked with.
#[derive(serde::Deserialize)]
pub(super) struct Asked {
    #[serde(default)]
    next: String,
}

/// The page of the login.
pub(super) async fn page(
    State(console): State<Console>,
    headers: HeaderMap,
    asked: Result<Query<Asked>, axum::extract::rejection::QueryRejection>,
) -> Response {
    let next = asked.map(|query| own(&query.0.next).to_owned()).unwrap_or_default();
    shown(&console.app, &headers, next, None, StatusCode::OK)
}

fn shown(
    app: &App,
    headers: &HeaderMap,
    next: String,
    wrong: Option<String>,
    status: StatusCode,
) -> Response {
    let way = if app.config.tls.is_some() { "HTTPS" } else { "plain HTTP" };
    let about = format!("Wardroom {} · {way}", env!("CARGO_PKG_VERSION"));
    answer::page(status, &login::page(&login::Login { theme: answer::theme(headers), next, wrong, about }))
}

/// Opens a session for the token of the form, or for the secret of a login link. A refusal says and takes the same,
/// whatever is wrong with it.
pub(super) async fn log_in(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Error> {
    let app = &console.app;
    let began = app.clock.instant();
    let headers = request.headers().clone();
    let fields = visit::read(request, &console).await?;
    let field = |name: &str| fields.get(name).map_or("", |value| value.trim());
    let (token, next) = (field("token"), field("next"));
    let opened = match token {
        _ if token.starts_with("wrt_") => match auth::by_token(app, token, caller.address).await {
            Ok(identity) => session::open(app, token, &caller, &identity).await,
            Err(error) => Err(error),
        },
        _ if token.starts_with(session::LINK) => session::redeem(app, token, &caller).await,
        _ => Err(Error::Unauthenticated("it is no token")),
    };
    let cookie = match opened {
        Ok(cookie) => cookie,
        Err(Error::Unauthenticated(_)) => {
            let rest = REFUSED_AFTER.saturating_sub(began.elapsed());
            tokio::time::sleep(rest).await;
            app.denials.count(caller.name(), "/console/login", StatusCode::UNAUTHORIZED.as_u16());
            let wrong = "The token is not accepted: it is unknown, has expired, or was revoked. A login link works once.";
            return Ok(shown(
                app,
                &headers,
                own(next).to_owned(),
                Some(wrong.to_owned()),
                StatusCode::UNAUTHORIZED,
            ));
        }
        Err(error) => return Err(error),
    };
    let mut response = see(own(next));
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

/// Ends the session.
pub(super) async fn log_out(visit: Visit, _: Posted) -> Result<Response, Error> {
    let cookie = session::end(&visit.console.app, &visit.caller, &visit.session).await?;
    let mut response = see("/console/login");
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

/// Keeps the theme in a cookie, so that the first paint is right.
pub(super) async fn theme(_: Visit, Posted(fields): Posted) -> Result<Response, Error> {
    let field = |name: &str| fields.get(name).map_or("", String::as_str);
    let theme = Theme::of(field("theme")).as_str();
    let mut response = see(own(field("back")));
    let cookie =
        format!("{}={theme}; Path=/console; Max-Age=31536000; HttpOnly; SameSite=Lax", answer::THEME);
    response
        .headers_mut()
        .insert(header::SET_COOKIE, HeaderValue::from_str(&cookie).map_err(|_| Error::Internal)?);
    Ok(response)
}

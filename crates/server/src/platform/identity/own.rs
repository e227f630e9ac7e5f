//! What a token may ask about itself: who it is, and a link that logs a person in to the console.

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
};
use wardroom_api::{
    Envelope,
    token::{LoginLink, Whoami},
};

use crate::platform::{
    app::App,
    console::session,
    http::{error::Error, problems::Problems},
    identity::auth::{Caller, Identity},
};

const NO_TOKEN: Error = Error::Unauthenticated("send an API token as Authorization: Bearer …");

/// Shows the identity behind the token of this request.
#[utoipa::path(get, path = "/api/v1/whoami", responses((status = 200, body = Envelope<Whoami>), Problems))]
pub(crate) async fn whoami(Extension(caller): Extension<Caller>) -> Result<Json<Envelope<Whoami>>, Error> {
    let Identity { id, name, role, kinds, group_id, adapter, expires_at } =
        caller.identity().cloned().ok_or(NO_TOKEN)?;
    let role = role.to_string();
    Ok(Json(Envelope::new(Whoami { id, name, role, kinds, group_id, adapter, expires_at })))
}

/// Makes a link that logs a person in to the console as this token. It works once, and for ten minutes.
#[utoipa::path(
    post, path = "/api/v1/login-links",
    responses((status = 201, body = Envelope<LoginLink>), Problems)
)]
pub(crate) async fn login_link(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<(StatusCode, Json<Envelope<LoginLink>>), Error> {
    let identity = caller.identity().ok_or(NO_TOKEN)?;
    // A session of the console has no header: it cannot prolong itself.
    let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token =
        shown.and_then(|shown| shown.split_once(' ')).map(|(_, token)| token.trim()).ok_or(NO_TOKEN)?;
    let (secret, expires_at) = session::offer(&app, token, &caller, identity).await?;
    let link = LoginLink { path: format!("/console/login#{secret}"), expires_at };
    Ok((StatusCode::CREATED, Json(Envelope::said(link, "The link is shown only now, and works once."))))
}

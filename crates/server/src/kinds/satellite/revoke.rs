//! Blocking a satellite.
//!
//! What must stay true: from the answer on, no server answers this satellite with 200, even if effects fail.

use axum::{Extension, Json, extract::State};
use wardroom_api::{
    Envelope,
    satellite::{Revoke, Satellite},
};
use wardroom_core::satellite::{Event, State as SatelliteState};
use wardroom_store::TRANSITION;

use super::{
    beat,
    document::{Document, state},
    find, step, view,
};
use crate::kinds::satellite::identity::Identities;
use crate::platform::{
    app::{App, Decided, by_person},
    http::{body::Asked, error::Error, path::Path, problems::Problems, text},
    identity::auth::Caller,
};

const REVOKED: &str = "The satellite is refused from now on; `describe` shows which other systems know it.";
const ALREADY: &str = "The satellite was revoked already; its history has the comment of that revocation.";

/// Blocks a satellite from its next request on, and voids its tokens.
#[utoipa::path(
    post, path = "/api/satellites/{name}/revoke", operation_id = "revoke_satellite", request_body = Option<Revoke>,
    params(("name" = String, Path)), responses((status = 200, body = Envelope<Satellite>), Problems)
)]
pub(crate) async fn revoke(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Asked(asked): Asked<Revoke>,
) -> Result<Json<Envelope<Satellite>>, Error> {
    text::check_prose("comment", asked.comment.as_deref(), 2000)?;
    let id = find(&app, &name).await?.content.id;
    let (satellite, message) = super::change(&app, &id, Some("revoked"), |satellite| {
        let state = state(satellite)?;
        if state == SatelliteState::Revoked {
            return Ok(Decided::Nothing(ALREADY));
        }
        let mut document = Document::of(satellite)?;
        if !document.may_refresh(app.now()) {
            document.forget_previous();
        }
        document.close();
        let content =
            document.into_content_of(satellite, step(&satellite.content.name, state, Event::Revoke)?.to)?;
        let entry = by_person(&app, &caller, TRANSITION, asked.comment.clone());
        Ok(Decided::Commit(Box::new((content, entry)), REVOKED))
    })
    .await?;
    beat::rests(&app, &id);
    // A repeat waits too: the first request may have been interrupted before every server knew.
    Identities::of(&app).settle().await;
    Ok(Json(Envelope::said(view::whole(&app, &satellite).await?, message)))
}

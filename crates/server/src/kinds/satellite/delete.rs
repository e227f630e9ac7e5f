//! Deletes satellites: hidden from lists, kept for audit, never restored.
//!
//! What must stay true: its name is free for another satellite, but neither its credential nor its SPIFFE ID
//! ever comes back. Secrets are derived from the id, which is never reused.

use axum::{Extension, Json, extract::State, http::HeaderMap};
use wardroom_api::{Envelope, satellite::Satellite};
use wardroom_store::Content;

use super::{
    KIND, beat,
    document::{Document, state},
    find, view,
};
use crate::kinds::satellite::identity::Identities;
use crate::platform::{
    app::{App, Decided, by_person},
    http::{error::Error, etag, path::Path, problems::Problems},
    identity::auth::Caller,
    observed,
};

/// Deletes a satellite for good, in any state, with its assignments.
#[utoipa::path(
    delete, path = "/api/satellites/{name}", operation_id = "delete_satellite", params(("name" = String, Path)),
    responses((status = 200, body = Envelope<Satellite>), Problems)
)]
pub(crate) async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Envelope<Satellite>>, Error> {
    let id = find(&app, &name).await?.content.id;
    let (satellite, ()) = super::change(&app, &id, Some("deleted"), |satellite| {
        etag::check(&headers, || view::tag(satellite))?;
        let mut document = Document::of(satellite)?;
        document.close();
        document.credential = None;
        document.groups.clear();
        document.config = None;
        let content = Content { deleted: true, ..document.into_content_of(satellite, state(satellite)?)? };
        Ok(Decided::Commit(Box::new((content, by_person(&app, &caller, "deleted", None))), ()))
    })
    .await?;
    beat::rests(&app, &id);
    observed::forget(&app, KIND, &id).await?;
    Identities::of(&app).settle().await;
    let shown = view::whole(&app, &satellite).await?;
    Ok(Json(Envelope::said(shown, "The satellite is deleted; its history stays.")))
}

//! Changes the labels and the interval of a satellite.

use axum::{
    Extension, Json,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse as _, Response},
};
use wardroom_api::{
    Envelope,
    satellite::{Satellite, SatellitePatch},
};
use wardroom_store::Content;

use super::{
    create::interval,
    document::{Document, state},
    find, view,
};
use crate::platform::{
    app::{App, Decided, by_person},
    http::{body::Body, error::Error, etag, path::Path, problems::Problems, text},
    identity::auth::Caller,
};

/// Changes the labels of a satellite, and the interval it is given; it hears of that with its next beat.
#[utoipa::path(
    patch, path = "/api/satellites/{name}", operation_id = "patch_satellite", request_body = SatellitePatch,
    params(("name" = String, Path)), responses((status = 200, body = Envelope<Satellite>), Problems)
)]
pub(crate) async fn patch(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(patch): Body<SatellitePatch>,
) -> Result<Response, Error> {
    let id = find(&app, &name).await?.content.id;
    let (satellite, ()) = super::change(&app, &id, None, |satellite| {
        etag::check(&headers, || view::tag(satellite))?;
        let (mut document, mut labels) = (Document::of(satellite)?, satellite.content.labels.clone());
        if let Some(wanted) = &patch.heartbeat_interval {
            document.heartbeat_interval = interval(wanted.as_deref())?;
        }
        text::merge_labels(&mut labels, &patch.labels)?;
        let content = Content { labels, ..document.into_content_of(satellite, state(satellite)?)? };
        if content == satellite.content {
            return Ok(Decided::Nothing(()));
        }
        let mut entry = by_person(&app, &caller, "changed", None);
        entry.metadata = serde_json::to_value(&patch).map_err(|_| Error::Internal)?;
        Ok(Decided::Commit(Box::new((content, entry)), ()))
    })
    .await?;
    let mut response = Json(Envelope::new(view::whole(&app, &satellite).await?)).into_response();
    etag::set(&mut response, &view::tag(&satellite)?);
    Ok(response)
}

//! Explains the state of a resource.

use axum::{Extension, Json, extract::State};
use wardroom_api::{Envelope, client::Why as Explanation};
use wardroom_core::why::Why;

use super::events;
use crate::platform::{
    app::App,
    deleted,
    http::{error::Error, path::Path, problems::Problems},
    identity::auth::Caller,
};

/// Explains a resource: the condition to leave its state, the actor, since when, and the next step; for a
/// deleted member, who deleted it.
#[utoipa::path(
    get, path = "/api/v1/resources/{kind}/{id}/why", params(("kind" = String, Path), ("id" = String, Path)),
    responses((status = 200, description = "The explanations", body = Envelope<Vec<Explanation>>), Problems)
)]
pub(crate) async fn why(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((kind, id)): Path<(String, String)>,
) -> Result<Json<Envelope<Vec<Why>>>, Error> {
    let stored = app.stored(&kind);
    let Some((stored, explain)) = stored.and_then(|stored| Some((stored, stored.why?))) else {
        let stored = app.kinds.iter().flat_map(|row| row.stores);
        let known: Vec<_> = stored.filter(|stored| stored.why.is_some()).map(|stored| stored.kind).collect();
        return Err(Error::invalid("kind", format!("must be one of: {}", known.join(", "))));
    };
    if !events::may_see(&caller, &kind) {
        return Err(Error::Forbidden(format!("the token does not cover {kind}")));
    }
    let explained = match explain(&app, &id).await {
        Err(missing @ Error::NotFound { .. }) => {
            vec![deleted::why(&app, stored.kind, &id).await?.ok_or(missing)?]
        }
        explained => explained?,
    };
    Ok(Json(Envelope::new(explained)))
}

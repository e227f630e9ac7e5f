//! Explains the state of a resource.

use axum::{Extension, Json, extract::State};
use serde::Serialize;
use wardroom_api::client::Explained;
use wardroom_core::why::{Brief, Why, brief};

use super::events;
use crate::platform::{
    app::App,
    deleted,
    http::{error::Error, path::Path, problems::Problems},
    identity::auth::Caller,
    kind::Stored,
};

/// The explanations, and the same in ten lines.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    success: bool,
    data: Vec<Why>,
    brief: Brief,
}

/// Explains a resource: the condition to leave its state, the actor, since when, and the next step; for a
/// deleted member, who deleted it.
#[utoipa::path(
    get, path = "/api/v1/resources/{kind}/{id}/why", params(("kind" = String, Path), ("id" = String, Path)),
    responses((status = 200, description = "The explanations", body = Explained), Problems)
)]
pub(crate) async fn why(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((kind, id)): Path<(String, String)>,
) -> Result<Json<Answer>, Error> {
    let stored = app.stored(&kind);
    let Some((stored, explain)) = stored.and_then(|stored| Some((stored, stored.why?))) else {
        let stored = app.kinds.iter().flat_map(|row| row.stores);
        let known: Vec<_> = stored.filter(|stored| stored.why.is_some()).map(|stored| stored.kind).collect();
        return Err(Error::invalid("kind", format!("must be one of: {}", known.join(", "))));
    };
    if !events::may_see(&caller, &kind) {
        return Err(Error::Forbidden(format!("the token does not cover {kind}")));
    }
    let data = match explain(&app, &id).await {
        Err(missing @ Error::NotFound { .. }) => {
            vec![deleted::why(&app, stored.kind, &id).await?.ok_or(missing)?]
        }
        explained => explained?,
    };
    let name = called(&app, stored, &id).await?;
    // A kind that explains itself says at least one thing.
    let brief = brief(&name, &data, app.now()).ok_or(Error::Internal)?;
    Ok(Json(Answer { success: true, data, brief }))
}

/// What people call a resource; its name as it was asked for where the id is another.
async fn called(app: &App, stored: &Stored, id: &str) -> Result<String, Error> {
    match app.store.get(stored.kind, id).await? {
        Some(found) => stored.title(app, &found).await,
        None => Ok(id.to_owned()),
    }
}

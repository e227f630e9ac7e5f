//! Why a resource is where it is.

use axum::{Extension, Json, extract::State};
use wardroom_core::{
    node::{self, TABLE},
    why::{Stay, Why, explain},
};

use crate::{
    app::App,
    auth::Caller,
    error::Error,
    events, installs,
    liveness::view,
    node::{
        document::{self, Document, KIND},
        find, progress,
    },
    path::Path,
    problems::Problems,
    satellite,
};

/// What must hold to leave the state, who can act, since when, and what to do next.
#[utoipa::path(
    get, path = "/api/v1/resources/{kind}/{id}/why", params(("kind" = String, Path), ("id" = String, Path)),
    responses((status = 200, description = "The explanations", body = Vec<Object>), Problems)
)]
pub(crate) async fn why(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((kind, id)): Path<(String, String)>,
) -> Result<Json<Vec<Why>>, Error> {
    if ![KIND, satellite::KIND].contains(&&*kind) {
        return Err(Error::invalid("kind", "must be node or satellite"));
    }
    if !events::may_see(&caller, &kind) {
        return Err(Error::Forbidden(format!("the token does not cover {kind}")));
    }
    match &*kind {
        satellite::KIND => satellite::why::why(&app, &id).await.map(Json),
        _ => of_node(&app, &id).await.map(Json),
    }
}

async fn of_node(app: &App, id: &str) -> Result<Vec<Why>, Error> {
    let resource = find(app, id).await?;
    let (state, document) = (document::state(&resource)?, Document::of(&resource)?);
    let mut blockers = node::blockers(
        state,
        document.workflow_id.is_some(),
        document.install_attempts,
        document.last_install_error.as_deref(),
    );
    blockers.extend(view::blockers(app, KIND, id).await?);
    // An installation is overdue when it has been silent for too long, not when it is long.
    let mut stay = Stay::of(state, resource.state_changed_at);
    if state == node::State::Installing {
        let seen = progress::of(app, &resource).await?;
        stay.counted_from = installs::heard(app, &resource, seen.as_ref())?;
        stay.patience = Some(installs::patience(app));
    }
    Ok(vec![explain(TABLE, state, stay, app.now(), blockers)])
}

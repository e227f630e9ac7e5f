//! Counts of resources by kind and state.

use std::collections::BTreeMap;

use axum::{Extension, Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;
use wardroom_api::Envelope;

use crate::platform::{
    app::App,
    feed::events,
    http::{error::Error, problems::Problems},
    identity::auth::Caller,
};

/// Counts by kind and state.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Summary {
    /// For each kind, how many are in each state.
    kinds: BTreeMap<String, BTreeMap<String, i64>>,
}

/// Counts resources by kind and state.
#[utoipa::path(get, path = "/api/v1/summary", responses((status = 200, body = Envelope<Summary>), Problems))]
pub(crate) async fn summary(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Envelope<Summary>>, Error> {
    let mut kinds: BTreeMap<String, BTreeMap<String, i64>> = BTreeMap::new();
    for count in app.store.count_by_state().await? {
        if events::may_see(&caller, &count.kind) {
            kinds.entry(count.kind).or_default().insert(count.state, count.count);
        }
    }
    Ok(Json(Envelope::new(Summary { kinds })))
}

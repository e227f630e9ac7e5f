//! Whether the process lives, and whether it can do its work.

use std::time::Duration;

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use crate::platform::{
    app::App,
    http::{error::Error, problems::Problems},
};

/// How the server is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`.
    status: &'static str,
}

/// Whether the process is alive; checks nothing else.
#[utoipa::path(get, path = "/livez", security(()), responses((status = 200, body = Health), Problems))]
pub(crate) async fn live() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// How long the database may take to answer before the server counts as not ready: probes do not wait for longer.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Whether the server can answer requests: its database does.
#[utoipa::path(get, path = "/readyz", security(()), responses((status = 200, body = Health), Problems))]
pub(crate) async fn ready(State(app): State<App>) -> Result<Json<Health>, Error> {
    let silent = |_| Error::Unavailable("the database does not answer: retry");
    tokio::time::timeout(PATIENCE, app.store.ping()).await.map_err(silent)??;
    Ok(Json(Health { status: "ok" }))
}

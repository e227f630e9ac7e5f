//! Whether the process lives, and whether it can do its work.

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{app::App, error::Error, problems::Problems};

/// How the server is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`.
    status: &'static str,
}

/// Whether the process lives; depends on nothing else.
#[utoipa::path(get, path = "/livez", security(()), responses((status = 200, body = Health), Problems))]
pub(crate) async fn live() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Whether the server can answer requests: its database does.
#[utoipa::path(get, path = "/readyz", security(()), responses((status = 200, body = Health), Problems))]
pub(crate) async fn ready(State(app): State<App>) -> Result<Json<Health>, Error> {
    app.store.ping().await?;
    Ok(Json(Health { status: "ok" }))
}

//! The tables as data.

use axum::Json;
use wardroom_core::lifecycles::{self, Published};

use crate::problems::Problems;

/// Every lifecycle: its states, moves, owners and calls; the plans of runs; what goes together.
#[utoipa::path(
    get, path = "/api/v1/lifecycles",
    responses((status = 200, description = "The tables", body = Object), Problems)
)]
pub(crate) async fn list() -> Json<Published> {
    Json(lifecycles::published())
}

//! The tables as data.

use axum::Json;
use wardroom_api::Envelope;
use wardroom_core::lifecycles::{self, Published};

use crate::platform::http::problems::Problems;

/// Every lifecycle: its states, moves, owners and calls; the plans of runs; the combinations of node and run.
#[utoipa::path(
    get, path = "/api/v1/lifecycles", operation_id = "list_lifecycles",
    responses((status = 200, description = "The tables", body = Envelope<Object>), Problems)
)]
pub(crate) async fn list() -> Json<Envelope<Published>> {
    Json(Envelope::new(lifecycles::published()))
}

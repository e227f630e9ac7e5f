//! The page of liveness.

use axum::response::Response;
use wardroom_console::liveness;

use super::visit::Visit;
use crate::platform::http::error::Error;

/// How the server listens, judges and guards.
pub(super) async fn liveness(visit: Visit) -> Result<Response, Error> {
    let found = visit.api().one("/api/v1/liveness", &[]).await;
    let content = liveness::page(&found, visit.console.app.now());
    visit.page("liveness", "Liveness", &content).await
}

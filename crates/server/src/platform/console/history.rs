//! The page of history.

use axum::{http::StatusCode, response::Response};
use wardroom_api::history::Rows;
use wardroom_console::history::{self, FILTERS, History};

use super::{overview::named, visit::Visit};
use crate::platform::http::error::Error;

/// Rows on a page.
const PAGE: &str = "50";

/// Every change of every member, newest first.
pub(super) async fn history(visit: Visit) -> Result<Response, Error> {
    let given: Vec<_> = FILTERS
        .iter()
        .map(|(name, ..)| (*name, visit.asked(name).trim().to_owned()))
        .filter(|(_, value)| !value.is_empty())
        .collect();
    let query = given.iter().map(|(name, value)| (*name, value.as_str()));
    let query: Vec<_> = query.chain([("limit", PAGE), ("continue", visit.asked("after"))]).collect();
    let found: Result<Rows, _> = visit.api().read("/api/v1/history", &query).await;
    let status = found.as_ref().err().and_then(|problem| StatusCode::from_u16(problem.status).ok());
    let (rows, older, problem) = match found {
        Ok(rows) => (rows.data, rows.next, None),
        Err(problem) => (Vec::new(), None, Some(problem)),
    };
    let shown = History {
        rows: named(&visit, rows).await,
        given,
        older,
        problem,
        places: visit.places(),
        now: visit.console.app.now(),
    };
    let summary = visit.summary().await;
    let status = status.unwrap_or_default();
    visit.page_with(summary.as_ref(), status, "history", "History", &history::page(&shown))
}

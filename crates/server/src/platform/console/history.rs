//! The page of history.

use axum::{http::StatusCode, response::Response};
use wardroom_api::history::Rows;
use wardroom_console::history::{self, FILTERS, History};

use super::{overview::named, session, visit::Visit};
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
    // Logins are many, and change no member: they are shown to a person who asks for them.
    let asks = given.iter().any(|(name, _)| matches!(*name, "kind" | "who" | "request_id"));
    let without = if asks { "" } else { session::KIND };
    let page = [("limit", PAGE), ("continue", visit.asked("after")), ("without", without)];
    let query: Vec<_> = query.chain(page).collect();
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

//! The feed of changes: as a stream that can be resumed, or by long poll.

use std::{convert::Infallible, time::Duration};

use axum::{
    Extension, Json,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse as _, Response, Sse, sse},
};
use futures_util::{Stream, StreamExt as _, stream};
use serde::Deserialize;
use utoipa::IntoParams;
use wardroom_api::history::{Row, Rows};
use wardroom_store::{Cursor, FeedItem, HistoryRow};

use crate::{
    app::App,
    auth::{Caller, Identity, TOKEN},
    error::Error,
    list::{ListQuery, foreign, number},
    problems::Problems,
};

/// Silence on a stream is broken this often, so that nobody in between closes it.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Rows that are read at a time.
const PAGE: usize = 500;

/// Where to start, and how to be answered.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    /// The cursor of the last event that was seen; `start` for everything, absent for what comes from now on.
    after: Option<String>,
    /// Wait this many seconds, 0 to 60, for one page as JSON instead of a stream.
    #[param(minimum = 0, maximum = 60)]
    wait: Option<String>,
    /// How many at most in a page: 1 to 1000, 500 unless told.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<String>,
}

/// Every change, in order and without gaps. `Last-Event-ID` resumes a stream where it was cut.
#[utoipa::path(
    get, path = "/api/v1/events", params(EventsQuery),
    responses(
        (status = 200, description = "A stream of rows, or one page of them", content((String = "text/event-stream"), (Rows = "application/json"))),
        Problems
    )
)]
pub(crate) async fn events(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    ListQuery(query): ListQuery<EventsQuery>,
) -> Result<Response, Error> {
    let after = match (headers.get("last-event-id"), &query.after) {
        (Some(id), _) => start(&app, "Last-Event-ID", id.to_str().unwrap_or_default())?,
        (None, Some(after)) => start(&app, "after", after)?,
        (None, None) => app.store.feed_tail().await?,
    };
    match &query.wait {
        Some(_) => {
            let wait = number("wait", query.wait.as_deref(), 30, 0..=60)?;
            let limit = number("limit", query.limit.as_deref(), PAGE, 1..=1000)?;
            page(&app, &caller, after, limit, Duration::from_secs(wait as u64))
                .await
                .map(|rows| Json(rows).into_response())
        }
        None => {
            let keep_alive = sse::KeepAlive::new().interval(KEEP_ALIVE);
            Ok(Sse::new(follow(app, caller, after)).keep_alive(keep_alive).into_response())
        }
    }
}

fn start(app: &App, field: &str, text: &str) -> Result<Cursor, Error> {
    if text == "start" {
        return Ok(app.store.feed_start());
    }
    app.store.feed_at(text).map_err(|_| foreign(field))
}

/// One page, waiting for the first row if there is none.
async fn page(
    app: &App,
    caller: &Caller,
    mut after: Cursor,
    limit: usize,
    wait: Duration,
) -> Result<Rows, Error> {
    let mut hint = app.store.watch();
    let deadline = tokio::time::Instant::now() + wait;
    loop {
        hint.mark_unchanged();
        if !still_valid(app, caller).await {
            return Err(Error::Unauthenticated("the token is not valid any more"));
        }
        let items = app.store.feed_after(&after, limit).await?;
        if let Some(last) = items.last() {
            after = last.cursor.clone();
            let data: Vec<Row> = visible(caller, items).map(|(row, _)| row).collect();
            // Who may see little is not kept longer than it wanted to wait.
            if !data.is_empty() || deadline <= tokio::time::Instant::now() {
                return Ok(Rows { data, next: Some(after.to_string()) });
            }
            continue;
        }
        let mut stopping = app.stopping.subscribe();
        let news = tokio::select! {
            changed = tokio::time::timeout_at(deadline, hint.changed()) => changed.is_ok(),
            _ = stopping.wait_for(|stopping| *stopping) => false,
        };
        if !news {
            return Ok(Rows { data: Vec::new(), next: Some(after.to_string()) });
        }
    }
}

/// The stream: pages while there are any, then waiting for a hint.
fn follow(app: App, caller: Caller, after: Cursor) -> impl Stream<Item = Result<sse::Event, Infallible>> {
    let hint = app.store.watch();
    stream::unfold((app, caller, after, hint), |(app, caller, mut after, mut hint)| async move {
        loop {
            hint.mark_unchanged();
            // A token that was revoked or has expired sees nothing more, also on a stream that is open.
            if !still_valid(&app, &caller).await {
                return None;
            }
            let items = match app.store.feed_after(&after, PAGE).await {
                Ok(items) => items,
                // The client resumes with the id of the last event it has.
                Err(error) => {
                    tracing::warn!(%error, "a stream of events was cut");
                    return None;
                }
            };
            if let Some(last) = items.last() {
                after = last.cursor.clone();
                let events: Vec<_> =
                    visible(&caller, items).filter_map(|(row, id)| event(&row, &id)).collect();
                if events.is_empty() {
                    continue;
                }
                return Some((stream::iter(events), (app, caller, after, hint)));
            }
            let mut stopping = app.stopping.subscribe();
            let goes_on = tokio::select! {
                changed = tokio::time::timeout(KEEP_ALIVE, hint.changed()) => !matches!(changed, Ok(Err(_))),
                _ = stopping.wait_for(|stopping| *stopping) => false,
            };
            if !goes_on {
                return None;
            }
        }
    })
    .flatten()
    .map(Ok)
}

/// Whether the token behind a request still lets its holder in.
async fn still_valid(app: &App, caller: &Caller) -> bool {
    let Some(identity) = caller.identity() else { return false };
    match app.store.get(TOKEN, &identity.id).await {
        Ok(Some(token)) => Identity::of(&token).is_some_and(|identity| app.now() < identity.expires_at),
        Ok(None) | Err(_) => false,
    }
}

fn event(row: &Row, id: &str) -> Option<sse::Event> {
    sse::Event::default().id(id).event(&row.type_).json_data(row).ok()
}

fn visible(caller: &Caller, items: Vec<FeedItem>) -> impl Iterator<Item = (Row, String)> {
    items.into_iter().filter(|item| may_see(caller, &item.row.kind)).map(|FeedItem { cursor, row }| {
        let id = cursor.to_string();
        (shown(row, id.clone()), id)
    })
}

/// Whether a token's scope covers what a row is about.
pub(crate) fn may_see(caller: &Caller, kind: &str) -> bool {
    caller.identity().is_some_and(|identity| identity.covers(kind))
}

/// A row as the API shows it.
pub(crate) fn shown(row: HistoryRow, cursor: String) -> Row {
    Row {
        id: row.id(),
        cursor,
        kind: row.kind,
        resource_id: row.resource_id,
        sequence: row.sequence,
        type_: row.entry.entry_type,
        from_state: row.from_state,
        to_state: row.to_state,
        triggered_by: row.entry.triggered_by,
        user_id: row.entry.user_id,
        comment: row.entry.comment,
        metadata: row.entry.metadata,
        request_id: row.entry.request_id,
        created_at: row.entry.at,
        hash: row.hash,
    }
}

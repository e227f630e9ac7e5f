//! The feed of changes: as a stream that can be resumed, or by long poll.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Extension, Json,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse as _, Response, Sse, sse},
};
use futures_util::{Stream, StreamExt as _, stream};
use serde::Deserialize;
use utoipa::{
    IntoParams, PartialSchema, ToSchema,
    openapi::{Ref, RefOr, Schema, schema::AnyOfBuilder},
};
use wardroom_api::{
    history::{Row, Rows},
    reconcile::ReconcileEvents,
};
use wardroom_store::{Cursor, FeedItem, HistoryRow};

use crate::platform::{
    app::App,
    feed::reconcile::{self, Wanted},
    http::{
        error::Error,
        list::{ListQuery, foreign, number},
        problems::Problems,
    },
    identity::auth::Caller,
};

pub(in crate::platform) mod follower;
pub(crate) mod tail;
#[cfg(test)]
mod tests;

use follower::Follower;
use tail::Change;

/// A stream without events sends a comment this often, so that proxies do not close it.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Where to start, and how to be answered.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    /// The cursor of the last event that the client has; `start` for all events, absent for new events only.
    #[serde(rename = "continue")]
    cursor: Option<String>,
    /// Wait this many seconds, 0 to 60, for one page as JSON instead of a stream.
    #[param(minimum = 0, maximum = 60)]
    wait: Option<String>,
    /// The most events on a page, 1 to 1000; default 500.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<String>,
    /// Only what this adapter has to look at, as CloudEvents. Callers with role `adapter` name theirs.
    adapter: Option<String>,
}

/// One page, as the document describes it: of changes, or of what an adapter has to look at. An empty page is both.
struct EventsPage;

impl PartialSchema for EventsPage {
    fn schema() -> RefOr<Schema> {
        let page = |name: &str| Ref::from_schema_name(name);
        let either = AnyOfBuilder::new()
            .description(Some("One page: of changes, or of what an adapter has to look at."))
            .item(page(&Rows::name()))
            .item(page(&ReconcileEvents::name()));
        Schema::AnyOf(either.build()).into()
    }
}

impl ToSchema for EventsPage {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((Rows::name().into(), Rows::schema()));
        schemas.push((ReconcileEvents::name().into(), ReconcileEvents::schema()));
        Rows::schemas(schemas);
        ReconcileEvents::schemas(schemas);
    }
}

/// Every change, in order and without gaps. `Last-Event-ID` resumes a stream where it was cut.
///
/// A stream begins with a frame that has only an `id`, the cursor of the place where it starts, so that a
/// client that is disconnected before its first event can resume. Events have the default type; `type` in
/// their data says what changed.
///
/// With `adapter` the data are CloudEvents 1.0: a resource that this adapter is required for is new, has another
/// generation, is being deleted, or is due for a re-check. A re-check is no change: its `id` in the stream is the cursor of
/// the change before it.
#[utoipa::path(
    get, path = "/api/v1/events", params(EventsQuery),
    responses(
        (status = 200, description = "A stream of rows, or one page of them", content((String = "text/event-stream"), (EventsPage = "application/json"))),
        Problems
    )
)]
pub(crate) async fn events(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    ListQuery(query): ListQuery<EventsQuery>,
) -> Result<Response, Error> {
    let after = match (headers.get("last-event-id"), &query.cursor) {
        (Some(id), _) => start(&app, "Last-Event-ID", id.to_str().unwrap_or_default())?,
        (None, Some(cursor)) => start(&app, "continue", cursor)?,
        (None, None) => app.store.feed_tail().await?,
    };
    let wait = number("wait", query.wait.as_deref(), 30, 0..=60)?;
    let limit = number("limit", query.limit.as_deref(), tail::PAGE, 1..=1000)?;
    if let Some(adapter) = reconcile::followed(&caller, query.adapter.as_deref())? {
        let page = query.wait.is_some().then(|| (Duration::from_secs(wait as u64), limit));
        return reconcile::answer(&app, &caller, Wanted { adapter, after, page }).await;
    }
    match &query.wait {
        Some(_) => {
            let rows = match wait {
                0 => page(&app, &caller, after, limit).await?,
                _ => wait_for_page(&app, &caller, after, limit, Duration::from_secs(wait as u64)).await?,
            };
            Ok(Json(rows).into_response())
        }
        None => {
            let place = sse::Event::default().id(after.to_string());
            let follower = Follower::join(&app, &caller.principal, after).await?;
            let events = stream::once(async { Ok(place) }).chain(stream(&app, caller, follower));
            let keep_alive = sse::KeepAlive::new().interval(KEEP_ALIVE);
            Ok(Sse::new(events).keep_alive(keep_alive).into_response())
        }
    }
}

fn start(app: &App, field: &str, text: &str) -> Result<Cursor, Error> {
    if text == "start" {
        return Ok(app.store.feed_start());
    }
    app.store.feed_at(text).map_err(|_| foreign(field))
}

/// One page out of the database, as it is now.
async fn page(app: &App, caller: &Caller, after: Cursor, limit: usize) -> Result<Rows, Error> {
    let items = app.store.feed_after(&after, limit).await?;
    let next = items.last().map_or(after, |last| last.cursor.clone());
    let seen = items.into_iter().filter(|item| may_see(caller, &item.row.kind));
    let data = seen.map(|FeedItem { cursor, row }| shown(row, cursor.to_string())).collect();
    Ok(Rows { success: true, data, next: Some(next.to_string()) })
}

/// One page, waiting for the first row if there is none.
async fn wait_for_page(
    app: &App,
    caller: &Caller,
    after: Cursor,
    limit: usize,
    wait: Duration,
) -> Result<Rows, Error> {
    let deadline = tokio::time::Instant::now() + wait;
    let mut follower = Follower::join(app, &caller.principal, after).await?;
    let mut stopping = app.stopping.subscribe();
    loop {
        let found = follower.look(limit).await?;
        let data: Vec<Row> = visible(caller, &found).map(|change| change.row.clone()).collect();
        // Stops after the requested wait, also if the caller may see few of the changes.
        let is_over = !data.is_empty() || deadline <= tokio::time::Instant::now();
        let goes_on = !is_over
            && (!found.is_empty()
                || tokio::select! {
                    news = tokio::time::timeout_at(deadline, follower.news()) => news.unwrap_or(false),
                    _ = stopping.wait_for(|stopping| *stopping) => false,
                });
        if !goes_on {
            return Ok(Rows { success: true, data, next: Some(follower.place().to_string()) });
        }
    }
}

/// The stream: existing changes, then new ones as they come.
fn stream(
    app: &App,
    caller: Caller,
    follower: Follower,
) -> impl Stream<Item = Result<sse::Event, Infallible>> + use<> {
    let stopping = app.stopping.subscribe();
    stream::unfold((caller, follower, stopping), |(caller, mut follower, mut stopping)| async move {
        loop {
            let found = match follower.look(tail::PAGE).await {
                Ok(found) => found,
                // An open stream ends when its token is revoked or expires.
                Err(Error::Unauthenticated(_)) => return None,
                // The client resumes with the id of the last event it has.
                Err(error) => {
                    tracing::warn!(%error, "stream of events cut");
                    return None;
                }
            };
            let events: Vec<_> = visible(&caller, &found).map(|change| change.event.clone()).collect();
            if !events.is_empty() {
                return Some((stream::iter(events), (caller, follower, stopping)));
            }
            let goes_on = !found.is_empty()
                || tokio::select! {
                    goes_on = follower.news() => goes_on,
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

fn visible<'a>(caller: &'a Caller, found: &'a [Arc<Change>]) -> impl Iterator<Item = &'a Arc<Change>> {
    found.iter().filter(|change| may_see(caller, &change.row.kind))
}

/// Whether a token's scope covers the resource of a row.
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

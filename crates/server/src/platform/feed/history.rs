//! History of everything, newest first.

use axum::{Extension, Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;
use wardroom_api::history::{Row, Rows};
use wardroom_store::{FeedItem, Rows as Which, cursor};

use crate::platform::{
    app::App,
    feed::events,
    http::{
        error::Error,
        list::{ListQuery, foreign, number},
        problems::Problems,
    },
    identity::auth::Caller,
};

/// Which history, and which page of it.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryQuery {
    /// Only of this kind; needs `id`.
    kind: Option<String>,
    /// Only of this resource; needs `kind`. A deleted resource is also found by its name; the last one that
    /// had it counts.
    id: Option<String>,
    /// The most items on a page, 1 to 1000; default 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<String>,
    /// The cursor of the page before.
    #[serde(rename = "continue")]
    cursor: Option<String>,
}

/// Every row of every type, newest first; of one resource, or of all.
#[utoipa::path(get, path = "/api/v1/history", operation_id = "list_history", params(HistoryQuery), responses((status = 200, body = Rows), Problems))]
pub(crate) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    ListQuery(query): ListQuery<HistoryQuery>,
) -> Result<Json<Rows>, Error> {
    let limit = number("limit", query.limit.as_deref(), 100, 1..=1000)?;
    match (&query.kind, &query.id) {
        (Some(kind), Some(id)) => of_resource(&app, &caller, kind, id, limit, query.cursor.as_deref()).await,
        (None, None) => of_all(&app, &caller, limit, query.cursor.as_deref()).await,
        (Some(_), None) => Err(Error::invalid("id", "is missing: kind and id go together")),
        (None, Some(_)) => Err(Error::invalid("kind", "is missing: kind and id go together")),
    }
}

async fn of_resource(
    app: &App,
    caller: &Caller,
    kind: &str,
    id: &str,
    limit: usize,
    cursor: Option<&str>,
) -> Result<Json<Rows>, Error> {
    if !events::may_see(caller, kind) {
        return Err(Error::Forbidden(format!("the token does not cover {kind}")));
    }
    // A cursor is the sequence of the last row that was seen: rows that come later do not move it.
    let list = format!("history of {kind} {id}");
    let read = |text| cursor::place(&list, text).and_then(|place| place.parse().ok());
    let before: Option<i64> = cursor.map(|text| read(text).ok_or_else(|| foreign("continue"))).transpose()?;
    // A deleted resource is found by its name too: the last one that had it.
    let (_, mut total) = app.store.history(kind, id, Which::All, 1, 0).await?;
    let gone = if total == 0 { app.store.last_deleted(kind, id).await? } else { None };
    let id = gone.as_deref().unwrap_or(id);
    if gone.is_some() {
        (_, total) = app.store.history(kind, id, Which::All, 1, 0).await?;
    }
    let newer = before.map_or(0, |before| usize::try_from(total - before + 1).unwrap_or_default());
    let (rows, _) = app.store.history(kind, id, Which::All, limit, newer).await?;
    let rows = rows.into_iter().filter(|row| before.is_none_or(|before| row.sequence < before));
    let data: Vec<_> = rows.map(|row| events::shown(row, String::new())).collect();
    // A resource that ever existed has history.
    if data.is_empty() && before.is_none() {
        return Err(Error::not_found("resource", id));
    }
    let last = data.last().map(|last| last.sequence).filter(|last| *last > 1);
    let next = last.map(|last| cursor::at(&list, &last.to_string()));
    Ok(Json(Rows { success: true, data, next }))
}

async fn of_all(app: &App, caller: &Caller, limit: usize, cursor: Option<&str>) -> Result<Json<Rows>, Error> {
    let before = cursor.map(str::parse).transpose()?;
    let items = app.store.history_before(before.as_ref(), limit).await?;
    let next = items.last().filter(|_| items.len() == limit).map(|item| item.cursor.to_string());
    let data: Vec<Row> = items
        .into_iter()
        .filter(|item| events::may_see(caller, &item.row.kind))
        .map(|FeedItem { cursor, row }| events::shown(row, cursor.to_string()))
        .collect();
    Ok(Json(Rows { success: true, data, next }))
}

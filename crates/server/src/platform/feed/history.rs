//! History of everything, newest first.

use axum::{Extension, Json, extract::State};
use jiff::Timestamp;
use serde::Deserialize;
use utoipa::IntoParams;
use wardroom_api::history::{Row, Rows};
use wardroom_store::{FeedItem, HistoryRow, Rows as Which, cursor};

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
    /// Only of this kind.
    kind: Option<String>,
    /// Only of this resource; needs `kind`. A deleted resource is also found by its name; the last one that
    /// had it counts.
    id: Option<String>,
    /// Not of these kinds, separated by commas, such as `session`.
    without: Option<String>,
    /// Only of this type, such as `transition`.
    #[serde(rename = "type")]
    type_: Option<String>,
    /// Only by this user, or by this sort of actor, such as `workflow`.
    who: Option<String>,
    /// Only with a comment that has this text in it.
    text: Option<String>,
    /// Only by this request.
    request_id: Option<String>,
    /// Only from this time on.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<String>,
    /// The most items on a page, 1 to 1000; default 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<String>,
    /// The cursor of the page before.
    #[serde(rename = "continue")]
    cursor: Option<String>,
}

/// Every row of every type, newest first; of one resource, or of all. A page that is filtered may have fewer rows than
/// there is room for, and still not be the last.
#[utoipa::path(get, path = "/api/v1/history", operation_id = "list_history", params(HistoryQuery), responses((status = 200, body = Rows), Problems))]
pub(crate) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    ListQuery(query): ListQuery<HistoryQuery>,
) -> Result<Json<Rows>, Error> {
    let limit = number("limit", query.limit.as_deref(), 100, 1..=1000)?;
    let filter = Filter::of(&query)?;
    match (&query.kind, &query.id) {
        (Some(_), Some(_)) if !filter.is_empty() => Err(Error::invalid(
            "id",
            "the history of one resource is not filtered: leave out id, or the other filters",
        )),
        (Some(kind), Some(id)) => of_resource(&app, &caller, kind, id, limit, query.cursor.as_deref()).await,
        (kind, None) => {
            let filter = Filter { kind: kind.clone(), ..filter };
            of_all(&app, &caller, &filter, limit, query.cursor.as_deref()).await
        }
        (None, Some(_)) => Err(Error::invalid("kind", "is missing: id needs it")),
    }
}

/// Which rows of all.
#[derive(Debug, Default, PartialEq, Eq)]
struct Filter {
    kind: Option<String>,
    without: Vec<String>,
    type_: Option<String>,
    who: Option<String>,
    text: Option<String>,
    request_id: Option<String>,
    since: Option<Timestamp>,
}

impl Filter {
    fn of(query: &HistoryQuery) -> Result<Self, Error> {
        let time = |text: &String| {
            let wrong = |_| Error::invalid("since", "must be a time such as 2027-01-31T12:00:00Z");
            text.parse().map_err(wrong)
        };
        Ok(Self {
            kind: None,
            without: query.without.iter().flat_map(|kinds| kinds.split(',')).map(str::to_owned).collect(),
            type_: query.type_.clone(),
            who: query.who.clone(),
            text: query.text.as_ref().map(|text| text.to_lowercase()),
            request_id: query.request_id.clone(),
            since: query.since.as_ref().map(time).transpose()?,
        })
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn takes(&self, row: &HistoryRow) -> bool {
        let Self { kind, without, type_, who, text, request_id, since } = self;
        let entry = &row.entry;
        let is = |wanted: &Option<String>, value: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| value == Some(wanted))
        };
        is(kind, Some(&row.kind))
            && !without.contains(&row.kind)
            && is(type_, Some(&entry.entry_type))
            && (is(who, entry.user_id.as_deref()) || is(who, Some(&entry.triggered_by)))
            && is(request_id, entry.request_id.as_deref())
            && since.is_none_or(|since| since <= entry.at)
            && text.as_ref().is_none_or(|text| {
                entry.comment.as_ref().is_some_and(|comment| comment.to_lowercase().contains(text))
            })
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

/// How many rows are looked at for one page of filtered history, and at once.
const MOST_LOOKED_AT: usize = 10_000;
const AT_ONCE: usize = 1000;
/// How many rows are looked at first, beyond those that fill the page: most filters leave few rows out, or nearly all.
const AT_FIRST: usize = 50;

async fn of_all(
    app: &App,
    caller: &Caller,
    filter: &Filter,
    limit: usize,
    cursor: Option<&str>,
) -> Result<Json<Rows>, Error> {
    let mut before = cursor.map(str::parse).transpose()?;
    let is_whole = filter.is_empty() && filter.kind.is_none();
    let (most, mut batch) =
        if is_whole { (limit, limit) } else { (MOST_LOOKED_AT, AT_ONCE.min(limit + AT_FIRST)) };
    let mut data: Vec<Row> = Vec::new();
    let mut looked_at = 0;
    loop {
        let items = app.store.history_before(before.as_ref(), batch).await?;
        let is_last = items.len() < batch;
        looked_at += items.len();
        for FeedItem { cursor, row } in items {
            // Rows are in the order of their commits, which is about that of their times.
            let is_taken = filter.takes(&row) && events::may_see(caller, &row.kind);
            if is_taken {
                data.push(events::shown(row, cursor.to_string()));
            }
            before = Some(cursor);
            if data.len() == limit && !is_whole {
                return Ok(Json(Rows { success: true, data, next: before.map(|place| place.to_string()) }));
            }
        }
        if is_last || looked_at >= most {
            let next = before.filter(|_| !is_last).map(|place| place.to_string());
            return Ok(Json(Rows { success: true, data, next }));
        }
        batch = AT_ONCE;
    }
}

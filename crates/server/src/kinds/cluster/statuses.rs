//! `…/statuses`: what adapters report, and what is known of it.
//!
//! The same is served at the path of HyperFleet and at the one that the document of the contract prints.

use axum::{
    Extension, Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use wardroom_api::cluster::{AdapterStatus, Discarded, Items, ReportAnswer, StatusReport};

use super::{
    Place, id_of, is_id,
    list::{PageQuery, Pages},
    report::{Accepted, Incoming, accept},
};
use crate::platform::{
    app::App,
    http::{error::Error, list::ListQuery, path::Path, problems::Problems},
    identity::auth::Caller,
};

/// Lists what the adapters of a cluster said last, by their names.
#[utoipa::path(
    get, path = "/api/hyperfleet/v1/clusters/{id}/statuses", operation_id = "list_cluster_statuses",
    params(("id" = String, Path, description = "The cluster, by id or name"), PageQuery),
    responses((status = 200, body = Items<AdapterStatus>), Problems)
)]
pub(crate) async fn of_cluster(
    State(app): State<App>,
    Path(id): Path<String>,
    ListQuery(query): ListQuery<PageQuery>,
) -> Result<Json<Items<AdapterStatus>>, Error> {
    listed(&app, &Place::Cluster(&id), &query).await
}

/// Lists what the adapters of a node pool said last, by their names.
#[utoipa::path(
    get, path = "/api/hyperfleet/v1/clusters/{id}/nodepools/{pool}/statuses",
    operation_id = "list_nodepool_statuses",
    params(
        ("id" = String, Path, description = "The cluster, by id or name"),
        ("pool" = String, Path, description = "The node pool, by id or name"),
        PageQuery,
    ),
    responses((status = 200, body = Items<AdapterStatus>), Problems)
)]
pub(crate) async fn of_node_pool(
    State(app): State<App>,
    Path((id, pool)): Path<(String, String)>,
    ListQuery(query): ListQuery<PageQuery>,
) -> Result<Json<Items<AdapterStatus>>, Error> {
    listed(&app, &Place::Pool(&id, &pool), &query).await
}

/// Lists what the adapters of a cluster said last: the path that the contract prints.
#[utoipa::path(
    get, path = "/api/v1/clusters/{id}/statuses", operation_id = "list_cluster_statuses_v1",
    params(("id" = String, Path, description = "The cluster, by id or name"), PageQuery),
    responses((status = 200, body = Items<AdapterStatus>), Problems)
)]
pub(crate) async fn of_cluster_v1(
    State(app): State<App>,
    Path(id): Path<String>,
    ListQuery(query): ListQuery<PageQuery>,
) -> Result<Json<Items<AdapterStatus>>, Error> {
    listed(&app, &Place::Cluster(&id), &query).await
}

/// Takes the report of an adapter. It replaces what the adapter said before, unless it was overtaken.
#[utoipa::path(
    post, path = "/api/hyperfleet/v1/clusters/{id}/statuses", operation_id = "report_cluster_status",
    request_body = StatusReport, params(("id" = String, Path, description = "The cluster, by id or name")),
    responses((status = 200, body = ReportAnswer), Problems)
)]
pub(crate) async fn post_cluster(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    incoming: Incoming,
) -> Result<Response, Error> {
    posted(&app, &caller, &Place::Cluster(&id), &incoming).await
}

/// Takes the report of an adapter about a node pool.
#[utoipa::path(
    post, path = "/api/hyperfleet/v1/clusters/{id}/nodepools/{pool}/statuses",
    operation_id = "report_nodepool_status", request_body = StatusReport,
    params(
        ("id" = String, Path, description = "The cluster, by id or name"),
        ("pool" = String, Path, description = "The node pool, by id or name"),
    ),
    responses((status = 200, body = ReportAnswer), Problems)
)]
pub(crate) async fn post_node_pool(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((id, pool)): Path<(String, String)>,
    incoming: Incoming,
) -> Result<Response, Error> {
    posted(&app, &caller, &Place::Pool(&id, &pool), &incoming).await
}

/// Takes the report of an adapter: the path that the contract prints.
#[utoipa::path(
    post, path = "/api/v1/clusters/{id}/statuses", operation_id = "report_cluster_status_v1",
    request_body = StatusReport, params(("id" = String, Path, description = "The cluster, by id or name")),
    responses((status = 200, body = ReportAnswer), Problems)
)]
pub(crate) async fn post_cluster_v1(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    incoming: Incoming,
) -> Result<Response, Error> {
    posted(&app, &caller, &Place::Cluster(&id), &incoming).await
}

/// Takes the report of an adapter; a discarded one gets no body.
#[utoipa::path(
    put, path = "/api/hyperfleet/v1/clusters/{id}/statuses", operation_id = "put_cluster_status",
    request_body = StatusReport, params(("id" = String, Path, description = "The cluster, by id or name")),
    responses((status = 201, body = AdapterStatus), (status = 204, description = "Discarded: it was overtaken"), Problems)
)]
pub(crate) async fn put_cluster(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    incoming: Incoming,
) -> Result<Response, Error> {
    put(&app, &caller, &Place::Cluster(&id), &incoming).await
}

/// Takes the report of an adapter about a node pool; a discarded one gets no body.
#[utoipa::path(
    put, path = "/api/hyperfleet/v1/clusters/{id}/nodepools/{pool}/statuses", operation_id = "put_nodepool_status",
    request_body = StatusReport,
    params(
        ("id" = String, Path, description = "The cluster, by id or name"),
        ("pool" = String, Path, description = "The node pool, by id or name"),
    ),
    responses((status = 201, body = AdapterStatus), (status = 204, description = "Discarded: it was overtaken"), Problems)
)]
pub(crate) async fn put_node_pool(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((id, pool)): Path<(String, String)>,
    incoming: Incoming,
) -> Result<Response, Error> {
    put(&app, &caller, &Place::Pool(&id, &pool), &incoming).await
}

/// Takes the report of an adapter, at the path that the contract prints; a discarded one gets no body.
#[utoipa::path(
    put, path = "/api/v1/clusters/{id}/statuses", operation_id = "put_cluster_status_v1",
    request_body = StatusReport, params(("id" = String, Path, description = "The cluster, by id or name")),
    responses((status = 201, body = AdapterStatus), (status = 204, description = "Discarded: it was overtaken"), Problems)
)]
pub(crate) async fn put_cluster_v1(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    incoming: Incoming,
) -> Result<Response, Error> {
    put(&app, &caller, &Place::Cluster(&id), &incoming).await
}

async fn listed(
    app: &App,
    place: &Place<'_>,
    query: &PageQuery,
) -> Result<Json<Items<AdapterStatus>>, Error> {
    let pages = Pages::of(query.page.as_deref(), query.size.as_deref())?;
    let said = place.read(app).await?.statuses;
    let total = said.len();
    let items = said.into_iter().skip(pages.skipped()).take(pages.size).map(Into::into).collect();
    Ok(Json(pages.items(items, total)))
}

async fn take(app: &App, caller: &Caller, place: &Place<'_>, incoming: &Incoming) -> Result<Accepted, Error> {
    caller.identity().map_or(Ok(()), |identity| identity.acts_as(&incoming.report.adapter))?;
    let id = match place {
        // An id needs no look first: a report about nothing is refused.
        Place::Cluster(called) if is_id(called) => {
            match accept(app, caller, place.sort(), called, incoming).await {
                Err(Error::NotFound { .. }) => id_of(app, called).await?,
                accepted => return accepted,
            }
        }
        Place::Cluster(called) => id_of(app, called).await?,
        Place::Pool(..) => place.read(app).await?.id().to_owned(),
    };
    accept(app, caller, place.sort(), &id, incoming).await
}

async fn posted(
    app: &App,
    caller: &Caller,
    place: &Place<'_>,
    incoming: &Incoming,
) -> Result<Response, Error> {
    let answer = match take(app, caller, place, incoming).await? {
        Accepted::Stored(said) => ReportAnswer::Stored(said.into()),
        Accepted::Discarded { why, generation } => ReportAnswer::Discarded(Discarded {
            adapter: incoming.report.adapter.clone(),
            observed_generation: incoming.report.observed_generation,
            discarded: why.to_string(),
            generation,
        }),
    };
    let mut response = Json(answer).into_response();
    incoming.ignored.warn(&mut response);
    Ok(response)
}

async fn put(app: &App, caller: &Caller, place: &Place<'_>, incoming: &Incoming) -> Result<Response, Error> {
    let mut response = match take(app, caller, place, incoming).await? {
        Accepted::Stored(said) => (StatusCode::CREATED, Json(AdapterStatus::from(said))).into_response(),
        Accepted::Discarded { .. } => StatusCode::NO_CONTENT.into_response(),
    };
    incoming.ignored.warn(&mut response);
    Ok(response)
}

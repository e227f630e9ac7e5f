//! GPU nodes: announcing, reading and moving them.

use std::collections::BTreeMap;

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;
use wardroom_api::{
    Envelope, Page,
    gpu_node::{Decommission, GpuNode, GpuNodeCreate, NodeActed, NodeAction},
};
use wardroom_core::{
    gpu_node::State as NodeState,
    run::plan::{Kind, Stage},
};
use wardroom_store::{Change, Error as StoreError, List, Resource};
use wardroom_workflow::{NODE, Order};

use crate::{
    app::{App, by_person},
    auth::Caller,
    body::Body,
    error::Error,
    etag,
    list::{ListQuery, label_selector, number},
    path::Path,
    problems::Problems,
    run::data::Known,
    secret, text,
};

mod action;
pub(crate) mod agent;
pub(crate) mod document;
pub(crate) mod offline;
pub(crate) mod owner;
pub(crate) mod stages;

use document::{Document, Token};
use owner::Start;

/// How long an enrolment token lives.
const TOKEN_LIFE: SignedDuration = SignedDuration::from_hours(24);

/// Which nodes, and which page of them.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct GpuNodeQuery {
    /// Only in this state.
    state: Option<String>,
    /// Labels, e.g. `site=berlin,rack in (a,b),!spare`.
    #[serde(rename = "labelSelector")]
    label_selector: Option<String>,
    /// How many at most: 1 to 1000, 100 unless told.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<String>,
    /// The cursor of the page before.
    #[serde(rename = "continue")]
    cursor: Option<String>,
}

/// Lists GPU nodes, oldest first.
#[utoipa::path(get, path = "/api/v1/gpu-nodes", params(GpuNodeQuery), responses((status = 200, body = Page<GpuNode>), Problems))]
pub(crate) async fn list(
    State(app): State<App>,
    ListQuery(query): ListQuery<GpuNodeQuery>,
) -> Result<Json<Page<GpuNode>>, Error> {
    if let Some(state) = &query.state {
        let known = state.parse::<NodeState>();
        known.map_err(|error| Error::invalid("state", error.to_string()))?;
    }
    let labels = query.label_selector.as_deref().map_or_else(|| Ok(Vec::new()), label_selector)?;
    let list = List {
        kind: NODE.to_owned(),
        state: query.state,
        labels,
        after: crate::list::cursor(query.cursor.as_deref())?,
        limit: number("limit", query.limit.as_deref(), 100, 1..=1000)?,
        ..List::default()
    };
    let page = app.store.list(&list).await?;
    let mut data = Vec::with_capacity(page.items.len());
    for node in &page.items {
        data.push(document::view(&app, node).await?);
    }
    Ok(Json(Page { success: true, data, next: page.next }))
}

/// Announces a node that is bootstrapped by hand: `bootstrap_issued`, with a one-time token and the run that waits
/// for its agent.
#[utoipa::path(
    post, path = "/api/v1/gpu-nodes", request_body = GpuNodeCreate,
    responses((status = 201, body = Envelope<NodeActed>), Problems)
)]
pub(crate) async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(create): Body<GpuNodeCreate>,
) -> Result<Response, Error> {
    text::check_name("name", &create.name)?;
    create.labels.iter().try_for_each(|(key, value)| text::check_label(key, value))?;
    let (id, now) = (Uuid::now_v7().to_string(), app.now());
    let (secret, token) = new_token(now);
    let order = Order {
        id: Uuid::now_v7().to_string(),
        kind: Kind::Bootstrap,
        node: id.clone(),
        site: None,
        with: std::collections::BTreeSet::new(),
        skip: BTreeMap::new(),
        data: Known::default(),
    };
    let document = Document { run: Some(order.id.clone()), token: Some(token), agent: None };
    let node = document.into_content(id, create.name.clone(), NodeState::BootstrapIssued, create.labels)?;
    let changes = [node, order.accepted(now)?].map(|after| Change {
        before: None,
        after,
        entry: by_person(&app, &caller, "registered", None),
        effects: Vec::new(),
        fence: None,
        holds: Vec::new(),
    });
    let committed = match app.store.commit_together(changes.into()).await {
        Ok(committed) => committed,
        Err(StoreError::KeyTaken { holder, .. }) => {
            return Err(Error::Conflict {
                code: "name_taken",
                detail: format!("there is a GPU node {:?} already: {holder}", create.name),
                allowed: vec![format!("GET /api/v1/gpu-nodes/{holder}")],
            });
        }
        Err(error) => return Err(error.into()),
    };
    let node = &committed.first().ok_or(Error::Internal)?.resource;
    let mut response = acted(&app, node, "registered".to_owned(), Some(secret)).await?;
    *response.status_mut() = StatusCode::CREATED;
    Ok(response)
}

/// Reads one GPU node.
#[utoipa::path(get, path = "/api/v1/gpu-nodes/{id}", params(("id" = String, Path)), responses((status = 200, body = Envelope<GpuNode>), Problems))]
pub(crate) async fn get(State(app): State<App>, Path(id): Path<String>) -> Result<Response, Error> {
    let node = find(&app, &id).await?;
    let mut response = Json(Envelope::new(document::view(&app, &node).await?)).into_response();
    etag::set(&mut response, &tag(&node)?);
    Ok(response)
}

/// Has an operator act on a node. A repeat succeeds without effect, and says so.
#[utoipa::path(
    post, path = "/api/v1/gpu-nodes/{id}/actions/{action}", request_body = NodeAction,
    params(("id" = String, Path), ("action" = String, Path)),
    responses((status = 200, body = Envelope<NodeActed>), Problems)
)]
pub(crate) async fn act_on(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((id, action)): Path<(String, String)>,
    headers: HeaderMap,
    Body(wanted): Body<NodeAction>,
) -> Result<Response, Error> {
    text::check_prose("reason", wanted.reason.as_deref(), 2000)?;
    let node = find(&app, &id).await?;
    etag::check(&headers, || tag(&node))?;
    let (node, result, token) = action::carry_out(&app, &caller, &id, &action, wanted).await?;
    acted(&app, &node, result, token).await
}

/// Starts a decommission that ends with the node back in use.
#[utoipa::path(
    post, path = "/api/v1/gpu-nodes/{id}/decommissions", request_body = Decommission, params(("id" = String, Path)),
    responses((status = 202, body = Envelope<NodeActed>), Problems)
)]
pub(crate) async fn decommission(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Body(wanted): Body<Decommission>,
) -> Result<Response, Error> {
    text::check_prose("reason", wanted.reason.as_deref(), 2000)?;
    let kind = match wanted.mode.parse() {
        Ok(kind @ (Kind::SoftReset | Kind::StorageCleanup)) => kind,
        Ok(Kind::Reimage | Kind::FullDecommission) => {
            return Err(Error::invalid("mode", "needs MAAS, and the node belongs to no site"));
        }
        Ok(Kind::Onboarding | Kind::Bootstrap | Kind::Retire | Kind::Remove) | Err(_) => {
            return Err(Error::invalid("mode", "must be soft_reset or storage_cleanup"));
        }
    };
    let entry = by_person(&app, &caller, "changed", wanted.reason);
    let start = Start { kind, skip: BTreeMap::<Stage, String>::new(), event: None };
    let (node, _, new) = owner::start(&app, &id, &start, &entry).await?;
    let result = if new { "started" } else { "already_started" };
    let mut response = acted(&app, &node, result.to_owned(), None).await?;
    *response.status_mut() = StatusCode::ACCEPTED;
    Ok(response)
}

/// A node that is not deleted.
pub(crate) async fn find(app: &App, id: &str) -> Result<Resource, Error> {
    let found = app.store.get(NODE, id).await?.filter(|found| !found.content.deleted);
    found.ok_or_else(|| Error::not_found(NODE, id))
}

/// A token to show, and what is stored of it.
fn new_token(now: Timestamp) -> (String, Token) {
    let secret = secret::new_credential();
    let expires_at = now.saturating_add(TOKEN_LIFE).unwrap_or(Timestamp::MAX);
    let token = Token { hash: secret::hash_token(&secret), expires_at };
    (secret, token)
}

/// Over what people decide: an agent that enrols or beats does not invalidate it.
fn tag(node: &Resource) -> Result<String, Error> {
    let run = Document::of(node)?.run;
    etag::of(&(&node.content.id, &node.content.state, &node.content.labels, run))
}

async fn acted(app: &App, node: &Resource, result: String, token: Option<String>) -> Result<Response, Error> {
    let shown = document::view(app, node).await?;
    let mut response = Json(Envelope::new(NodeActed { node: shown, result, token })).into_response();
    etag::set(&mut response, &tag(node)?);
    Ok(response)
}

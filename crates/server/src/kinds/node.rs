//! Nodes: registering, reading, changing and moving them.

use std::time::Duration;

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;
use utoipa::IntoParams;
use wardroom_api::{
    Envelope, Page,
    history::{Transition, Transitions},
    node::{Node, NodeCreate, NodePatch, StateTransition},
};
use wardroom_core::{
    node::{
        Event, READ, State as NodeState,
        transition::{self as moves, Granted, Refusal, Request},
    },
    table::Role,
};
use wardroom_store::{Content, Held, HistoryRow, List, Resource, Rows, TRANSITION};

use crate::platform::{
    app::{App, Decided, by_person},
    change::changing::{Made, Step},
    deleted,
    http::{
        body::Body,
        error::Error,
        etag,
        list::{ListQuery, field_selector, label_selector, number},
        path::Path,
        problems::Problems,
        text,
    },
    identity::auth::Caller,
    observed,
    work::schedule::Job,
};

pub(crate) mod boot;
pub(crate) mod boots;
pub(crate) mod bulk;
pub(crate) mod discovery;
pub(crate) mod document;
mod face;
pub(crate) mod group;
mod install_token;
pub(crate) mod installs;
mod problems;
pub(crate) mod progress;
pub(crate) mod promote;
mod proof;
pub(crate) mod report;
pub(crate) mod routes;
pub(crate) mod row;
pub mod settings;
mod why;
pub(crate) mod workflow;

use document::{Document, KIND};

/// How often installs are timed out and promotions carried out.
const PERIOD: Duration = Duration::from_secs(5);

pub(crate) fn jobs() -> Vec<Job> {
    vec![
        Job::every("installs", PERIOD, |app| Box::pin(installs::time_out(app))),
        Job::every("promotions", PERIOD, |app| Box::pin(promote::carry_out_all(app))),
    ]
}

/// Fields that nodes can be selected by.
const FIELDS: &[&str] = &["state", "mac_address", "workflow_id", "group_id", "hostname"];

/// Which nodes, and which page of them.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeQuery {
    /// Only in this state.
    state: Option<String>,
    /// Only of this device group.
    group_id: Option<String>,
    /// Labels, e.g. `site=berlin,rack in (a,b),!spare`.
    #[serde(rename = "labelSelector")]
    label_selector: Option<String>,
    /// Fields, e.g. `state=active,workflow_id=debian`.
    #[serde(rename = "fieldSelector")]
    field_selector: Option<String>,
    /// `true` for the deleted instead of the living.
    deleted: Option<bool>,
    /// The most items on a page, 1 to 1000; default 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<String>,
    /// The cursor of the page before.
    #[serde(rename = "continue")]
    cursor: Option<String>,
}

impl NodeQuery {
    fn list(&self) -> Result<List, Error> {
        let mut fields = match &self.field_selector {
            Some(selector) => field_selector(selector, FIELDS)?,
            None => Default::default(),
        };
        if let Some(group) = &self.group_id {
            let selected = fields.insert("group_id".to_owned(), group.clone());
            if selected.is_some_and(|selected| selected != *group) {
                return Err(Error::invalid(
                    "group_id",
                    "differs from the group_id in fieldSelector: a node is in one group",
                ));
            }
        }
        let selected = fields.remove("state");
        if self.state.is_some() && selected.is_some() && self.state != selected {
            return Err(Error::invalid(
                "state",
                "differs from the state in fieldSelector: a node has one state",
            ));
        }
        let state = match self.state.clone().or(selected) {
            Some(state) => Some(document::parse_state("state", &state)?.to_string()),
            None => None,
        };
        let labels = self.label_selector.as_deref().map_or_else(|| Ok(Vec::new()), label_selector)?;
        Ok(List {
            kind: KIND.to_owned(),
            state,
            fields,
            labels,
            after: self.cursor.clone(),
            limit: number("limit", self.limit.as_deref(), 100, 1..=1000)?,
            ..List::default()
        })
    }
}

/// Lists nodes, oldest first; the deleted ones only on request.
#[utoipa::path(get, path = "/api/v1/nodes", params(NodeQuery), responses((status = 200, body = Page<Node>), Problems))]
pub(crate) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    ListQuery(query): ListQuery<NodeQuery>,
) -> Result<Json<Page<Node>>, Error> {
    let list = deleted::list(query.list()?, query.deleted, &caller)?;
    let page = crate::platform::http::list::page(&app, list).await?;
    let seen = progress::of_all(&app, &page.items).await?;
    let mut data = page.items.iter().map(document::view).collect::<Result<Vec<Node>, _>>()?;
    for node in &mut data {
        node.install_progress = seen.get(&node.id).and_then(|seen| seen.percent).or(node.install_progress);
    }
    boots::show(&app, &page.items, &mut data).await?;
    Ok(Json(Page { success: true, data, next: page.next }))
}

/// Registers a node as `discovered`.
#[utoipa::path(
    post, path = "/api/v1/nodes", request_body = NodeCreate,
    responses((status = 201, body = Envelope<Node>), Problems)
)]
pub(crate) async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(create): Body<NodeCreate>,
) -> Result<Response, Error> {
    let document = Document::new(create)?;
    document.check()?;
    let (workflow, group) = (document.workflow_id.clone(), document.group_id.clone());
    let holds = || references(&app, workflow.as_deref(), group.as_deref());
    holds().await?;
    let content = document.into_content(NodeState::Discovered, None)?;
    let mac = content.name.clone();
    let entry = by_person(&app, &caller, "registered", None);
    match app.make(Step { content, entry, effects: Vec::new() }, holds).await? {
        Made::New(resource) => {
            let mut response = answer(&app, &resource, Some("The node is registered.")).await?;
            *response.status_mut() = StatusCode::CREATED;
            Ok(response)
        }
        Made::Taken(holder) => Err(taken(&mac, &holder)),
    }
}

/// Returns the objects that a node refers to as preconditions; refuses missing ones.
async fn references(app: &App, workflow: Option<&str>, group: Option<&str>) -> Result<Vec<Held>, Error> {
    let mut holds = Vec::new();
    if let Some(id) = workflow {
        holds.push(workflow::require(app, id).await?);
    }
    if let Some(id) = group {
        holds.push(group::require_device_group(app, id).await?);
    }
    Ok(holds)
}

fn taken(mac: &str, holder: &str) -> Error {
    Error::Conflict {
        code: "mac_taken",
        detail: format!("{mac} is registered already, as node {holder}"),
        allowed: vec![READ.of(holder)],
    }
}

/// Reads one node, living or deleted; the record and history of a deleted one stay.
#[utoipa::path(get, path = "/api/v1/nodes/{id}", params(("id" = String, Path)), responses((status = 200, body = Envelope<Node>), Problems))]
pub(crate) async fn get(State(app): State<App>, Path(id): Path<String>) -> Result<Response, Error> {
    answer(&app, &deleted::read(&app, KIND, &id).await?, None).await
}

/// Changes a node's workflow, group, name and labels.
#[utoipa::path(
    patch, path = "/api/v1/nodes/{id}", request_body = NodePatch, params(("id" = String, Path)),
    responses((status = 200, body = Envelope<Node>), Problems)
)]
pub(crate) async fn patch(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(patch): Body<NodePatch>,
) -> Result<Response, Error> {
    let given = |wanted: &Option<Option<String>>| wanted.clone().flatten();
    let (workflow, group) = (given(&patch.workflow_id), given(&patch.group_id));
    let holds = || references(&app, workflow.as_deref(), group.as_deref());
    let (resource, ()) = app
        .changing(KIND, &id)
        .holding(holds)
        .decide(|node| {
            etag::check(&headers, || document::etag(node))?;
            let mut document = Document::of(node)?;
            let mut labels = node.content.labels.clone();
            document.apply(&patch, &mut labels)?;
            let content = document.content_of(node, &node.content.state, labels)?;
            if content == node.content {
                return Ok(Decided::Nothing(()));
            }
            let mut entry = by_person(&app, &caller, "changed", None);
            entry.metadata = serde_json::to_value(&patch).map_err(|_| Error::Internal)?;
            Ok(Decided::Commit(Box::new((content, entry)), ()))
        })
        .await?;
    answer(&app, &resource, None).await
}

/// Takes a node out of the lists for good. Only a retired one: retire it first.
#[utoipa::path(delete, path = "/api/v1/nodes/{id}", params(("id" = String, Path)), responses((status = 200, body = Envelope<Node>), Problems))]
pub(crate) async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let (resource, ()) = app
        .change(KIND, &id, |node| {
            etag::check(&headers, || document::etag(node))?;
            if node.content.state != NodeState::Retired.as_str() {
                return Err(Error::Conflict {
                    code: "not_retired",
                    detail: format!(
                        "the node is {}; only a retired node can be deleted: retire it first",
                        node.content.state
                    ),
                    allowed: moves::calls(document::state(node)?)
                        .map(|call| call.of(&id))
                        .filter(|action| action.action == Event::Retire.as_str())
                        .collect(),
                });
            }
            let content = Content { deleted: true, ..node.content.clone() };
            Ok(Decided::Commit(Box::new((content, by_person(&app, &caller, "deleted", None))), ()))
        })
        .await?;
    observed::forget(&app, KIND, &id).await?;
    answer(&app, &resource, Some("The node is deleted; its history stays.")).await
}

/// Moves a node to a state.
#[utoipa::path(
    patch, path = "/api/v1/nodes/{id}/state", request_body = StateTransition, params(("id" = String, Path)),
    responses((status = 200, body = Envelope<Node>), Problems)
)]
pub(crate) async fn transition(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(wanted): Body<StateTransition>,
) -> Result<Response, Error> {
    let (resource, document) = move_node(&app, &caller, &id, Some(&headers), &wanted).await?;
    answer_with(&app, &resource, document, None).await
}

/// Moves one node on request; shared with bulk requests.
pub(crate) async fn move_node(
    app: &App,
    caller: &Caller,
    id: &str,
    headers: Option<&HeaderMap>,
    wanted: &StateTransition,
) -> Result<(Resource, Document), Error> {
    let to = document::parse_state("state", &wanted.state)?;
    text::check_prose("comment", wanted.comment.as_deref(), 2000)?;
    let request = Request { to, force: wanted.force };
    let group = caller.identity().and_then(|identity| identity.group_id.clone());
    let moved = app
        .change(KIND, id, |node| {
            if let Some(headers) = headers {
                etag::check(headers, || document::etag(node))?;
            }
            let mut document = Document::of(node)?;
            let from = document::state(node)?;
            let granted = moves::judge(from, document.install_attempts, request)
                .map_err(|refusal| refused(id, &refusal))?;
            only_approve(caller, &granted, wanted.force)?;
            document.enter(to, granted.clears_counters, group.as_deref());
            let content = document.content_of(node, to.as_str(), node.content.labels.clone())?;
            let mut entry = by_person(app, caller, TRANSITION, wanted.comment.clone());
            if wanted.force {
                entry.metadata = serde_json::json!({"force": true});
            }
            Ok(Decided::Commit(Box::new((content, entry)), document))
        })
        .await?;
    Ok(moved)
}

fn refused(id: &str, refusal: &Refusal) -> Error {
    let (code, from) = match refusal {
        Refusal::AlreadyThere(state) => ("already_there", *state),
        Refusal::NoSuchMove { from, .. } => ("no_such_move", *from),
        Refusal::RetryLimit { .. } => ("retry_limit", NodeState::InstallFailed),
    };
    let allowed = moves::calls(from).map(|call| call.of(id)).collect();
    Error::Conflict { code, detail: refusal.to_string(), allowed }
}

/// The role installer may only approve.
fn only_approve(caller: &Caller, granted: &Granted, force: bool) -> Result<(), Error> {
    let installer = caller.identity().is_some_and(|identity| identity.role == Role::Installer);
    if installer && (force || granted.row.on != wardroom_core::node::Event::Approve) {
        return Err(Error::Forbidden(
            "the role installer may only approve: discovered to pending, without force".to_owned(),
        ));
    }
    Ok(())
}

/// Which transitions of a node.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryQuery {
    /// The most rows, 1 to 1000; default 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<String>,
    /// How many to skip.
    #[param(minimum = 0)]
    offset: Option<String>,
}

/// The transitions of a node, newest first.
#[utoipa::path(
    get, path = "/api/v1/nodes/{id}/history", params(("id" = String, Path), HistoryQuery),
    responses((status = 200, body = Transitions), Problems)
)]
pub(crate) async fn transitions(
    State(app): State<App>,
    Path(id): Path<String>,
    ListQuery(query): ListQuery<HistoryQuery>,
) -> Result<Json<Transitions>, Error> {
    let limit = number("limit", query.limit.as_deref(), 50, 1..=1000)?;
    let offset = number("offset", query.offset.as_deref(), 0, 0..=1_000_000_000)?;
    // History outlives its node, so a deleted one still has it.
    deleted::read(&app, KIND, &id).await?;
    let (rows, total) = app.store.history(KIND, &id, Rows::Transitions, limit, offset).await?;
    Ok(Json(Transitions { data: rows.into_iter().map(shown).collect(), total }))
}

fn shown(row: HistoryRow) -> Transition {
    Transition {
        id: row.id(),
        from_state: row.from_state.unwrap_or_default(),
        to_state: row.to_state,
        triggered_by: row.entry.triggered_by,
        user_id: row.entry.user_id,
        comment: row.entry.comment,
        metadata: row.entry.metadata,
        created_at: row.entry.at,
    }
}

/// A living node.
pub(crate) async fn find(app: &App, id: &str) -> Result<Resource, Error> {
    let found = app.store.get(KIND, id).await?.filter(|found| !found.content.deleted);
    found.ok_or_else(|| Error::not_found(KIND, id))
}

/// Finds the node with a MAC. A retired node no longer owns its MAC, but is still found while no other has
/// it, so that reports of its machine create no new node.
pub(crate) async fn find_by_mac(app: &App, mac: &str) -> Result<Option<Resource>, Error> {
    if let Some(node) = app.store.get_by_key(KIND, mac).await? {
        return Ok(Some(node));
    }
    let fields = [("mac_address".to_owned(), mac.to_owned())].into();
    let retired = List { kind: KIND.to_owned(), fields, limit: 1, ..List::default() };
    Ok(app.store.list(&retired).await?.items.pop())
}

/// A node in its envelope, with its ETag.
pub(crate) async fn answer(app: &App, resource: &Resource, message: Option<&str>) -> Result<Response, Error> {
    answer_with(app, resource, Document::of(resource)?, message).await
}

/// The same for a node whose document is already read.
async fn answer_with(
    app: &App,
    resource: &Resource,
    document: Document,
    message: Option<&str>,
) -> Result<Response, Error> {
    let (mut data, tag) = document::view_and_etag(resource, document)?;
    if let Some(seen) = progress::of(app, resource).await? {
        data.install_progress = seen.percent.or(data.install_progress);
    }
    boots::show(app, std::slice::from_ref(resource), std::slice::from_mut(&mut data)).await?;
    let envelope = Envelope { success: true, data, message: message.map(str::to_owned) };
    let mut response = Json(envelope).into_response();
    etag::set(&mut response, &tag);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_of_one_group_and_one_state() {
        let list = |group: &str, selector: &str| {
            let (group_id, field_selector) = (Some(group.to_owned()), Some(selector.to_owned()));
            NodeQuery { group_id, field_selector, ..NodeQuery::default() }.list()
        };
        assert_eq!(list("a", "group_id=a").unwrap().fields["group_id"], "a");
        assert_eq!(list("a", "hostname=h").unwrap().fields.len(), 2);
        let Err(Error::Invalid(errors)) = list("a", "group_id=b") else { panic!("was taken") };
        assert_eq!(errors[0].field, "group_id");
        assert!(list("a", "state=active,state=discovered").is_err());
    }
}

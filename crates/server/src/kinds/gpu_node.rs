//! GPU nodes: the inventory, and how work on a node is started.
//!
//! Three layers that are never collapsed: the node's coarse state, the run that works on it, and what was observed.
//! What must stay true: a node in a state of work in progress has an open run, committed together with the state.

use axum::{
    Extension, Json,
    extract::State as Shared,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;
use wardroom_api::{
    Envelope, Page,
    gpu_node::{DecommissionCreate, GpuNode, GpuNodeCreate, NewGpuNode, OnboardingCreate},
};
use wardroom_core::{
    gpu_node::{Event, READ, State, TABLE},
    run::plan::{Kind, Stage},
};
use wardroom_store::{Change, Error as StoreError, List, Resource, attempts};

use crate::{
    kinds::gpu_node::sites::SITES,
    platform::{
        app::{App, by_person},
        deleted,
        http::{
            body::Body,
            error::Error,
            etag,
            idempotency::ShownOnce,
            list::{ListQuery, field_selector, label_selector, number},
            path::Path,
            problems::Problems,
            text,
        },
        identity::auth::Caller,
        liveness::{self, NewSeat, Seat, kinds::LastHeard},
    },
};

pub(crate) mod action;
pub(crate) mod begin;
pub(crate) mod cache;
pub(crate) mod data;
pub(crate) mod delete;
pub(crate) mod document;
pub(crate) mod drift;
pub(crate) mod enroll;
mod face;
pub(crate) mod facts;
mod gather;
pub(crate) mod heartbeat;
pub(crate) mod identity;
pub(crate) mod lifecycle;
mod listing;
pub(crate) mod offline;
pub(crate) mod owners;
pub(crate) mod patch;
mod problems;
pub(crate) mod proof;
mod reach;
pub(crate) mod resume;
pub(crate) mod routes;
pub(crate) mod row;
pub(crate) mod run;
pub(crate) mod secret;
pub(crate) mod set_aside;
pub mod settings;
pub(crate) mod silence;
pub(crate) mod site;
pub(crate) mod sites;
mod skip;
pub(crate) mod stages;
mod subject;
pub(crate) mod task;
#[cfg(test)]
mod tests;
pub(crate) mod upstream;
pub(crate) mod why;
pub(crate) mod work;

use begin::Plan;
use document::{Document, KIND};

/// Fields that nodes can be selected by.
const FIELDS: &[&str] = &["status", "hostname", "site", "model", "serial_number"];

/// Which nodes, and which page of them.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct GpuNodeQuery {
    /// Only in this state.
    #[serde(rename = "status")]
    state: Option<String>,
    /// Labels, e.g. `rack in (a,b),!spare`.
    #[serde(rename = "labelSelector")]
    label_selector: Option<String>,
    /// Fields, e.g. `site=berlin,status=active`.
    #[serde(rename = "fieldSelector")]
    field_selector: Option<String>,
    /// `true` for the deleted instead of the living; `status=deleted` means the same.
    deleted: Option<bool>,
    /// The most items on a page, 1 to 1000; default 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<String>,
    /// The cursor of the page before.
    #[serde(rename = "continue")]
    cursor: Option<String>,
}

impl GpuNodeQuery {
    fn list(&self, caller: &Caller) -> Result<List, Error> {
        let mut fields = match &self.field_selector {
            Some(selector) => field_selector(selector, FIELDS)?,
            None => Default::default(),
        };
        let state = self.state.clone().or_else(|| fields.remove("status"));
        let parsed = state.as_deref().map(str::parse::<State>).transpose();
        let parsed = parsed.map_err(|error| Error::invalid("status", error.to_string()))?;
        let labels = self.label_selector.as_deref().map_or_else(|| Ok(Vec::new()), label_selector)?;
        let asked = self.deleted.or_else(|| (parsed? == State::Deleted).then_some(true));
        let list = List {
            kind: KIND.to_owned(),
            state,
            fields,
            labels,
            after: self.cursor.clone(),
            limit: number("limit", self.limit.as_deref(), 100, 1..=1000)?,
            ..List::default()
        };
        deleted::list(list, asked, caller)
    }
}

/// Lists GPU nodes, oldest first: their coarse states only. The deleted ones are listed on request.
#[utoipa::path(get, path = "/api/v1/gpu-nodes", params(GpuNodeQuery), responses((status = 200, body = Page<GpuNode>), Problems))]
pub(crate) async fn list(
    Shared(app): Shared<App>,
    Extension(caller): Extension<Caller>,
    ListQuery(query): ListQuery<GpuNodeQuery>,
) -> Result<Json<Page<GpuNode>>, Error> {
    let page = crate::platform::http::list::page(&app, query.list(&caller)?).await?;
    liveness::view::refresh(&app, KIND, &page.items).await?;
    let data = page.items.iter().map(|node| known(&app, node)).collect::<Result<_, _>>()?;
    Ok(Json(Page { success: true, data, next: page.next }))
}

/// Registers a node: with a site it is onboarded through MAAS, without one a bootstrap token is issued.
#[utoipa::path(
    post, path = "/api/v1/gpu-nodes", request_body = GpuNodeCreate,
    responses((status = 201, body = Envelope<NewGpuNode>), Problems)
)]
pub(crate) async fn create(
    Shared(app): Shared<App>,
    Extension(caller): Extension<Caller>,
    Body(create): Body<GpuNodeCreate>,
) -> Result<Response, Error> {
    let labels = create.labels.clone();
    let mut document = Document::new(create, &app.config.secrets)?;
    let site = document.site.clone();
    if let Some(name) = &site {
        site::check_bmc(&app, name, &document).await?;
    }
    let (id, run) = (Uuid::now_v7().to_string(), Uuid::now_v7().to_string());
    let (kind, state) = match &document.site {
        Some(_) => (Kind::Onboarding, State::Enrolling),
        None => (Kind::Bootstrap, State::BootstrapIssued),
    };
    let mut entry = by_person(&app, &caller, "registered", None);
    let budgets = site::budgets(&app, site.as_deref()).await?;
    let order = Plan { budgets, ..Plan::of(kind) }.order(&run, &id, &document, &entry);
    document.run = Some(run.clone());
    let expires_at = enroll::expiry(&app);
    let token = (kind == Kind::Bootstrap)
        .then(|| enroll::issue(&app.key, &mut document, &id, enroll::Issue { run, round: 1, expires_at }));
    entry.metadata = serde_json::json!({"run": order.id, "kind": kind});
    let accepted = begin::accepted(order, entry.clone(), app.now())?;
    let after = document.into_content(id, state, labels)?;
    let node = Change { before: None, after, entry, effects: Vec::new(), fence: None, holds: Vec::new() };
    let node = view(&app, &made(&app, site.as_deref(), node, accepted).await?).await?;
    let shown_once = token.is_some();
    let token_expires_at = token.is_some().then_some(expires_at);
    let answer = Envelope::new(NewGpuNode { node, token, token_expires_at });
    let mut response = shown(Json(answer), shown_once);
    *response.status_mut() = StatusCode::CREATED;
    Ok(response)
}

/// Commits a node and its run, as long as its site is there.
async fn made(app: &App, site: Option<&str>, node: Change, run: Change) -> Result<Resource, Error> {
    attempts(async || {
        let mut node = node.clone();
        if let Some(site) = site {
            node.holds.push(SITES.held(app, "site", site).await?);
        }
        match app.commit_together(vec![node, run.clone()]).await {
            Ok(committed) => committed.into_iter().next().ok_or(Error::Internal).map(Some),
            Err(StoreError::Conflict) => Ok(None),
            Err(StoreError::KeyTaken { key, holder }) => Err(taken(&key, &holder)),
            Err(error) => Err(error.into()),
        }
    })
    .await
}

fn taken(key: &str, holder: &str) -> Error {
    let (what, value) = key.split_once('/').unwrap_or(("key", key));
    Error::Conflict {
        code: "name_taken",
        detail: format!("the {what} {value} belongs to GPU node {holder} already"),
        allowed: vec![READ.of(holder)],
    }
}

/// Reads one node, living or deleted; the record and history of a deleted one stay.
#[utoipa::path(get, path = "/api/v1/gpu-nodes/{id}", params(("id" = String, Path)), responses((status = 200, body = Envelope<GpuNode>), Problems))]
pub(crate) async fn get(Shared(app): Shared<App>, Path(id): Path<String>) -> Result<Response, Error> {
    let node = begin::read(&app, &id).await?;
    let mut response = Json(Envelope::new(view(&app, &node).await?)).into_response();
    etag::set(&mut response, &document::etag(&node)?);
    Ok(response)
}

/// Starts an onboarding: through the site that is named, or by hand for a node without one.
#[utoipa::path(
    post, path = "/api/v1/gpu-nodes/{id}/onboardings", request_body = OnboardingCreate,
    params(("id" = String, Path)), responses((status = 201, body = Envelope<NewGpuNode>), Problems)
)]
pub(crate) async fn onboard(
    Shared(app): Shared<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Body(request): Body<OnboardingCreate>,
) -> Result<Response, Error> {
    text::check_prose("comment", request.comment.as_deref(), 2000)?;
    let node = find(&app, &id).await?;
    let document = Document::of(&node)?;
    let site = request.site.clone().or_else(|| document.site.clone());
    if let Some(site) = &site {
        // Checked before the bootstrap is ended; the run has the same precondition.
        SITES.held(&app, "site", site).await?;
        site::check_bmc(&app, site, &document).await?;
        if document.macs.is_empty() {
            return Err(Error::invalid("site", "the node has no MAC by which a site could find it"));
        }
    }
    let kind = if site.is_some() { Kind::Onboarding } else { Kind::Bootstrap };
    let state = document::state(&node)?;
    if let Some(run) = begin::open_run(&app, &node).await?.filter(|_| state != State::BootstrapIssued) {
        return Err(begin::busy(&run));
    }
    if kind == Kind::Onboarding && document.machine.is_some() {
        proof::not_deployed(&app, &node).await?;
    }
    let order = action::Order {
        app: &app,
        caller: &caller,
        id: &id,
        action: wardroom_core::gpu_node::action::Action::Resume,
        reason: request.comment.clone(),
        unproven: false,
    };
    if state == State::BootstrapIssued {
        lifecycle::end_bootstrap(&order, &node).await?;
    }
    let event = (state == State::BootstrapIssued).then_some(Event::StartOnboarding);
    let token = (kind == Kind::Bootstrap).then(|| enroll::expiry(&app));
    let plan = Plan { event, site, reason: request.comment.clone(), token, ..Plan::of(kind) };
    let node = begin::begin(&app, &by_person(&app, &caller, "changed", None), &id, &plan).await?;
    let token = if kind == Kind::Bootstrap { enroll::issued(&app, &node)? } else { None };
    let shown_once = token.is_some();
    let (token, token_expires_at) = token.unzip();
    let answer = Envelope::new(NewGpuNode { node: view(&app, &node).await?, token, token_expires_at });
    let mut response = shown(Json(answer), shown_once);
    *response.status_mut() = StatusCode::CREATED;
    Ok(response)
}

/// Starts a decommission in one of four modes.
#[utoipa::path(
    post, path = "/api/v1/gpu-nodes/{id}/decommissions", request_body = DecommissionCreate,
    params(("id" = String, Path)), responses((status = 201, body = Envelope<GpuNode>), Problems)
)]
pub(crate) async fn decommission(
    Shared(app): Shared<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Body(request): Body<DecommissionCreate>,
) -> Result<Response, Error> {
    text::check_prose("comment", request.comment.as_deref(), 2000)?;
    let kind = request.mode.parse().ok().filter(|kind| MODES.contains(kind)).ok_or_else(|| {
        let modes = MODES.iter().map(|mode| mode.as_str()).collect::<Vec<_>>().join(", ");
        Error::invalid("mode", format!("must be one of: {modes}"))
    })?;
    let skip = begin::skips(kind, &request.skip)?;
    let node = find(&app, &id).await?;
    let document = Document::of(&node)?;
    if !has_site_for(&document, kind) {
        return Err(Error::Conflict {
            code: "no_site",
            detail: format!(
                "{kind} needs a machine in MAAS, and no site manages this node: retire and remove it"
            ),
            allowed: action::allowed_now(&id, &facts::gather(&app, &node).await?),
        });
    }
    action::refuse_skips(&app, &node, &skip).await?;
    let open = begin::open_run(&app, &node).await?;
    if let Some(run) = open.filter(|run| run.record.plan.kind == kind && !skip.is_empty()) {
        let action = wardroom_core::gpu_node::action::Action::Retire;
        let reason = request.comment.clone();
        let order = action::Order { app: &app, caller: &caller, id: &id, action, reason, unproven: false };
        skip::also(&order, &run, &skip).await?;
        return Ok(Json(Envelope::new(view(&app, &begin::read(&app, &id).await?).await?)).into_response());
    }
    let event = begins_with(kind);
    let plan = Plan { event, force: request.force, skip, reason: request.comment.clone(), ..Plan::of(kind) };
    let node = begin::begin(&app, &by_person(&app, &caller, "changed", None), &id, &plan).await?;
    // A node that stays active is still watched: this was no beat.
    if document::state(&node)? != State::Active {
        app.liveness.unseat(KIND, &node.content.id);
    }
    let answer = Envelope::new(view(&app, &node).await?);
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}

/// The modes of a decommission.
const MODES: &[Kind] = &[Kind::SoftReset, Kind::StorageCleanup, Kind::Reimage, Kind::FullDecommission];

/// The modes of a decommission that the node, without a run, would accept now.
pub(crate) fn modes_now(node: &Resource) -> Result<Vec<String>, Error> {
    let (state, document) = (document::state(node)?, Document::of(node)?);
    let fits = |kind: &&Kind| {
        has_site_for(&document, **kind) && begin::target(state, **kind, begins_with(**kind)).is_some()
    };
    Ok(MODES.iter().filter(fits).map(ToString::to_string).collect())
}

/// The move of the node that goes with the start of a decommission.
fn begins_with(kind: Kind) -> Option<Event> {
    (kind.first() == Stage::DisableNode).then_some(Event::Drain)
}

/// Whether a node has the machine at a site that a mode needs.
fn has_site_for(document: &Document, kind: Kind) -> bool {
    let needs_site = kind.plan().iter().any(|step| step.stage == Stage::LoadSiteConfig);
    !needs_site || document.can_be_reimaged()
}

/// A living node.
pub(crate) async fn find(app: &App, id: &str) -> Result<Resource, Error> {
    let found = app.store.get(KIND, id).await?.filter(|found| !found.content.deleted);
    found.ok_or_else(|| Error::not_found(KIND, id))
}

pub(crate) async fn view(app: &App, node: &Resource) -> Result<GpuNode, Error> {
    liveness::view::refresh(app, KIND, std::slice::from_ref(node)).await?;
    known(app, node)
}

/// The same, with the last heartbeat that this server knows.
fn known(app: &App, node: &Resource) -> Result<GpuNode, Error> {
    document::view(node, app.liveness.last_seen(KIND, &node.content.id))
}

/// Returns the state that an event leads to.
pub(crate) fn moved(state: State, event: Event) -> Option<State> {
    TABLE.find(state, event).map(|row| row.to)
}

/// Watches an active node, whose agent was heard now, and stops watching any other.
pub(crate) fn watch(app: &App, node: &Resource) -> Result<(), Error> {
    watch_from(app, node, None)
}

/// The same for an agent with this last heartbeat and interval.
pub(crate) fn watch_from(app: &App, node: &Resource, heard: Option<LastHeard>) -> Result<(), Error> {
    if document::state(node)? == State::Active && !node.content.deleted {
        let (last_seen, said) = (heard.map(|heard| heard.at), heard.and_then(|heard| heard.every));
        seat(app, node, NewSeat { last_seen, said, ..NewSeat::default() });
    } else {
        app.liveness.unseat(KIND, &node.content.id);
    }
    Ok(())
}

/// The seat of an active node.
pub(crate) fn seat(app: &App, node: &Resource, new: NewSeat<'_>) -> Seat {
    let (zone, given) = (app.liveness.zone_named(node), Some(app.config.liveness.interval));
    app.liveness.seat(KIND, &node.content.id, NewSeat { zone, given, ..new })
}

/// Marks an answer with a secret, which is shown once and not kept for repeats.
pub(crate) fn shown(answer: impl IntoResponse, secret: bool) -> Response {
    let mut response = answer.into_response();
    if secret {
        response.extensions_mut().insert(ShownOnce);
    }
    response
}

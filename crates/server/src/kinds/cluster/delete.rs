//! Deleting clusters and node pools: on request, when nothing is left to wait for, and by force.
//!
//! A deletion that was requested has a generation of its own, which the adapters finalize. What must stay true: a cluster
//! is never removed before its node pools, and the removal of the last one looks at its cluster again, in one commit.

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use serde_json::json;
use wardroom_api::cluster::{Cluster, ForceDelete};
use wardroom_core::cluster::{DELETE, FORCE_DELETE};
use wardroom_store::{Beside, Content, Entry, attempts, unless_conflict};

use super::{
    CLUSTER, NODE_POOL, Place,
    adapters::told,
    commit::{Moved, Settled, Step, change, commit, turn},
    document,
    facts::Facts,
    pools_of, view,
};
use crate::platform::{
    app::{App, by_person},
    http::{body::Body, error::Error, etag, path::Path, problems::Problems, text},
    identity::auth::Caller,
};

/// The type of the history row of a removal.
pub(super) const DELETED: &str = "deleted";

/// Requests the deletion of a cluster and its node pools. They are removed when every required adapter has finalized, the
/// node pools first.
#[utoipa::path(
    delete, path = "/api/hyperfleet/v1/clusters/{id}", operation_id = "delete_cluster",
    params(("id" = String, Path, description = "The cluster, by id or name")),
    responses((status = 202, body = Cluster), Problems)
)]
pub(crate) async fn cluster(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    request(&app, &caller, &headers, &Place::Cluster(&id)).await
}

/// Requests the deletion of a node pool.
#[utoipa::path(
    delete, path = "/api/hyperfleet/v1/clusters/{id}/nodepools/{pool}", operation_id = "delete_nodepool",
    params(
        ("id" = String, Path, description = "The cluster, by id or name"),
        ("pool" = String, Path, description = "The node pool, by id or name"),
    ),
    responses((status = 202, body = Cluster), Problems)
)]
pub(crate) async fn node_pool(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((id, pool)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    request(&app, &caller, &headers, &Place::Pool(&id, &pool)).await
}

/// Removes a cluster that is being deleted, with its node pools, without waiting for adapters. What they made stays.
#[utoipa::path(
    post, path = "/api/hyperfleet/v1/clusters/{id}/force-delete", operation_id = "force_delete_cluster",
    request_body = ForceDelete, params(("id" = String, Path, description = "The cluster, by id or name")),
    responses((status = 204), Problems)
)]
pub(crate) async fn force_cluster(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Body(why): Body<ForceDelete>,
) -> Result<Response, Error> {
    force(&app, &caller, &Place::Cluster(&id), &why).await
}

/// Removes a node pool that is being deleted without waiting for adapters. What they made stays.
#[utoipa::path(
    post, path = "/api/hyperfleet/v1/clusters/{id}/nodepools/{pool}/force-delete",
    operation_id = "force_delete_nodepool", request_body = ForceDelete,
    params(
        ("id" = String, Path, description = "The cluster, by id or name"),
        ("pool" = String, Path, description = "The node pool, by id or name"),
    ),
    responses((status = 204), Problems)
)]
pub(crate) async fn force_node_pool(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((id, pool)): Path<(String, String)>,
    Body(why): Body<ForceDelete>,
) -> Result<Response, Error> {
    force(&app, &caller, &Place::Pool(&id, &pool), &why).await
}

/// A refusal to change what is being deleted.
pub(super) fn being_deleted(facts: &Facts, consequence: &str) -> Error {
    let sort = facts.sort;
    Error::Conflict {
        code: "being_deleted",
        detail: format!("the {} {} is being deleted: {consequence}", sort.word, facts.resource.content.name),
        allowed: if *sort == CLUSTER { vec![FORCE_DELETE.of(facts.id())] } else { Vec::new() },
    }
}

async fn request(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    place: &Place<'_>,
) -> Result<Response, Error> {
    attempts(async || {
        let facts = place.read(app).await?;
        etag::check(headers, || document::etag(&facts.resource, &facts.document))?;
        let pools = pools(app, &facts).await?;
        let mut settled = Vec::new();
        let mut remaining = 0;
        for pool in &pools {
            let one = delete(app, caller, pool, false)?;
            remaining += usize::from(!one.is_gone);
            settled.push(one);
        }
        let own = delete(app, caller, &facts, remaining > 0)?;
        let (conditions, is_gone) = (own.conditions.clone(), own.is_gone);
        let is_news = own.change.is_some() || settled.iter().any(|one| one.change.is_some());
        if !is_news {
            return view::answer_of(StatusCode::ACCEPTED, &facts).map(Some);
        }
        let at = settled.iter().filter(|one| one.change.is_some()).count();
        let changes_itself = own.change.is_some();
        settled.push(own);
        if is_gone {
            settled
                .extend(owner_without(app, &facts, &|| Some(by_person(app, caller, DELETED, None))).await?);
        }
        let Some(committed) = unless_conflict(commit(app, settled).await)? else { return Ok(None) };
        let resource =
            if changes_itself { committed.get(at).ok_or(Error::Internal)? } else { &facts.resource };
        view::answer(StatusCode::ACCEPTED, facts.sort, resource, conditions).map(Some)
    })
    .await
}

/// The node pools of a cluster, with all that is known of them.
async fn pools(app: &App, facts: &Facts) -> Result<Vec<Facts>, Error> {
    let mut pools = Vec::new();
    if *facts.sort == CLUSTER {
        for id in pools_of(app, facts.id()).await? {
            pools.extend(Facts::read(app, &NODE_POOL, &id).await?);
        }
    }
    Ok(pools)
}

/// Requests the deletion of one resource, unless it was requested before.
fn delete(app: &App, caller: &Caller, facts: &Facts, has_children: bool) -> Result<Settled, Error> {
    let mut step = Step { has_children, ..Step::of(facts) };
    let is_new = !facts.is_being_deleted();
    if is_new {
        let now = document::now(app);
        step.document = step.document.next(caller.name(), now);
        step.document.deleted_time = Some(now);
        step.document.deleted_by = Some(caller.name().to_owned());
    }
    let generation = told::generation_of(&step.document);
    step.settle(app, |_, is_gone| {
        let entry_type = if is_gone { DELETED } else { "deletion_requested" };
        let mut entry = by_person(app, caller, entry_type, None);
        entry.metadata = generation;
        (is_new || is_gone).then_some(entry)
    })
}

/// The step of the cluster whose node pool is removed: it is looked at again, and may be removed with it. `entry` makes the
/// history row of a removal.
pub(super) async fn owner_without(
    app: &App,
    pool: &Facts,
    entry: &(dyn Fn() -> Option<Entry> + Sync),
) -> Result<Option<Settled>, Error> {
    let Some(owner) = &pool.document.owner else { return Ok(None) };
    let Some(owner) = Facts::read(app, &CLUSTER, owner).await? else { return Ok(None) };
    let others = pools_of(app, owner.id()).await?;
    let has_children = others.iter().any(|other| other != pool.id());
    let step = Step { has_children, ..Step::of(&owner) };
    let is_removal = |moved: &Moved, is_gone: bool| is_gone || !moved.conditions.is_empty();
    let settled = step.settle(app, |moved, is_gone| {
        let entry_type = if is_gone { DELETED } else { "node_pool_removed" };
        let entry = entry().filter(|_| is_removal(moved, is_gone));
        entry.map(|entry| Entry { entry_type: entry_type.to_owned(), ..entry })
    })?;
    Ok(Some(settled))
}

async fn force(app: &App, caller: &Caller, place: &Place<'_>, why: &ForceDelete) -> Result<Response, Error> {
    text::check("reason", &why.reason, 1..=1024)?;
    let entry = || {
        let mut entry = by_person(app, caller, DELETED, Some(why.reason.clone()));
        entry.metadata = json!({ "force": true });
        entry
    };
    attempts(async || {
        let facts = place.read(app).await?;
        if !facts.is_being_deleted() {
            return Err(not_being_deleted(&facts));
        }
        let mut settled = Vec::new();
        for one in pools(app, &facts).await?.iter().chain([&facts]) {
            settled.push(removed(app, one, entry())?);
        }
        settled.extend(owner_without(app, &facts, &|| Some(by_person(app, caller, DELETED, None))).await?);
        Ok(unless_conflict(commit(app, settled).await)?.map(|_| StatusCode::NO_CONTENT.into_response()))
    })
    .await
}

fn not_being_deleted(facts: &Facts) -> Error {
    let sort = facts.sort;
    Error::Conflict {
        code: "not_being_deleted",
        detail: format!(
            "the {} {} is not being deleted: request its deletion first, so that its adapters can clean up",
            sort.word, facts.resource.content.name
        ),
        allowed: if *sort == CLUSTER { vec![DELETE.of(facts.id())] } else { Vec::new() },
    }
}

/// The removal of a resource, whatever its adapters say.
fn removed(app: &App, facts: &Facts, entry: Entry) -> Result<Settled, Error> {
    let after = Content { deleted: true, ..facts.resource.content.clone() };
    let turn = turn(facts.sort, facts.id(), facts.turn + 1, &facts.conditions, app.now())?;
    Ok(Settled {
        change: Some(change(&facts.resource, after, entry)),
        beside: Beside { turn, others: Vec::new(), ends: true },
        is_gone: true,
        conditions: facts.conditions.clone(),
    })
}

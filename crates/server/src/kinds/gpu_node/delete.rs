//! Deleting a node that was registered by mistake.

use axum::{Extension, Json, extract::State as Shared, http::HeaderMap};
use wardroom_api::{Envelope, gpu_node::GpuNode};
use wardroom_core::gpu_node::{Event, LIFECYCLE, State, action::Action};
use wardroom_store::{Change, Held, Resource, TRANSITION, attempts, unless_conflict};

use super::{
    action::Order,
    begin,
    document::{self, Document},
    facts, lifecycle,
};
use crate::platform::{
    app::{App, by_person},
    http::{error::Error, etag, path::Path, problems::Problems},
    identity::auth::Caller,
};

/// Deletes a node that was registered by mistake: it never enrolled, and MAAS has no machine of it. Its open bootstrap run
/// is cancelled first. Any other node is retired and removed.
#[utoipa::path(
    delete, path = "/api/v1/gpu-nodes/{id}", operation_id = "delete_gpu_node", params(("id" = String, Path)),
    responses((status = 200, body = Envelope<GpuNode>), Problems)
)]
pub(crate) async fn delete(
    Shared(app): Shared<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Envelope<GpuNode>>, Error> {
    let node = super::find(&app, &id).await?;
    etag::check(&headers, || document::etag(&node))?;
    if document::state(&node)? == State::BootstrapIssued && facts::gather(&app, &node).await?.is_untouched() {
        let reason = Some("the node is deleted".to_owned());
        let (caller, action) = (&caller, Action::Resume);
        let order = Order { app: &app, caller, id: &id, action, reason, unproven: false };
        lifecycle::end_bootstrap(&order, &node).await?;
    }
    let deleted = attempts(async || commit(&app, &caller, super::find(&app, &id).await?).await).await?;
    Ok(Json(Envelope::new(super::view(&app, &deleted).await?)))
}

/// Commits the deletion of a node that was never used; none if it changed meanwhile.
async fn commit(app: &App, caller: &Caller, node: Resource) -> Result<Option<Resource>, Error> {
    if let Some(run) = begin::open_run(app, &node).await? {
        return Err(begin::busy(&run));
    }
    let state = document::state(&node)?;
    let Some(to) = super::moved(state, Event::Delete) else { return Err(refused(&node, state)) };
    if !facts::gather(app, &node).await?.is_untouched() {
        return Err(refused(&node, state));
    }
    let run = begin::newest_run(app, &node).await?;
    let holds = run.iter().map(|run| Held::at(&run.resource)).collect();
    let mut entry = by_person(app, caller, TRANSITION, None);
    entry.metadata = serde_json::json!({"event": Event::Delete});
    let document = Document { enrollment: None, ..Document::of(&node)? };
    let after = document.into_content_of(&node, to)?;
    let change = Change { before: Some(node), after, entry, effects: Vec::new(), fence: None, holds };
    Ok(unless_conflict(app.store.commit(change).await)?.map(|committed| committed.resource))
}

/// Says which action leads to the end of a node that is, or was, in use.
fn refused(node: &Resource, state: State) -> Error {
    let id = &node.content.id;
    let (way, action) = match state {
        State::Retired => ("remove it", Action::Remove),
        State::Enrolling | State::Draining | State::Removing => {
            ("resume its run, and remove it then", Action::Resume)
        }
        State::BootstrapIssued | State::Active | State::Offline | State::Quarantined | State::Deleted => {
            ("retire it, and remove it then", Action::Retire)
        }
    };
    Error::Conflict {
        code: "no_such_move",
        detail: format!(
            "the node is {state}; only a node that never enrolled and has no machine in MAAS can be deleted: {way}"
        ),
        allowed: vec![action.call().of(id), LIFECYCLE.of(id)],
    }
}

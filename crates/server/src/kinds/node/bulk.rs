//! Moving many nodes at once, with a result for each.

use axum::{Extension, Json, extract::State};
use futures_util::{StreamExt as _, stream};
use wardroom_api::{
    Envelope,
    node::{BulkItem, BulkResult, BulkTransition, StateTransition},
};

use crate::{
    kinds::node::{self, document},
    platform::{
        app::App,
        http::{body::Body, error::Error, idempotency, problems::Problems, text},
        identity::auth::Caller,
    },
};

/// How many run at once; more would only wait in the store's queue.
const AT_ONCE: usize = 64;

/// Moves nodes to a state; each succeeds or fails separately.
#[utoipa::path(
    post, path = "/api/v1/nodes/bulk/state", operation_id = "transition_nodes", request_body = BulkTransition,
    responses((status = 200, body = Envelope<BulkResult>), Problems)
)]
pub(crate) async fn transition(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(bulk): Body<BulkTransition>,
) -> Result<Json<Envelope<BulkResult>>, Error> {
    if bulk.node_ids.is_empty() || bulk.node_ids.len() > 1000 {
        return Err(Error::invalid("node_ids", "must name 1 to 1000 nodes"));
    }
    document::parse_state("state", &bulk.state)?;
    text::check_prose("comment", bulk.comment.as_deref(), 2000)?;
    let wanted = StateTransition { state: bulk.state, comment: bulk.comment, force: bulk.force };
    let (app, caller, wanted) = (&app, &caller, &wanted);
    let one = |id: String| async move {
        match node::move_node(app, caller, &id, None, wanted).await {
            Ok((node, _)) => BulkItem { id, status: 200, state: Some(node.content.state), problem: None },
            Err(error) => {
                let problem = error.problem(app.kinds, &caller.request_id);
                BulkItem { id, status: problem.status, state: None, problem: Some(problem) }
            }
        }
    };
    let moves = stream::iter(bulk.node_ids).map(one).buffered(AT_ONCE).collect();
    let items: Vec<_> = idempotency::in_parts(moves).await;
    let moved = items.iter().filter(|item| item.problem.is_none()).count();
    let refused = items.len() - moved;
    let message = format!("{moved} moved, {refused} refused.");
    Ok(Json(Envelope::said(BulkResult { moved, refused, items }, message)))
}

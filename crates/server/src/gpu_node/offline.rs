//! GPU nodes that fell silent go offline.

use serde_json::json;
use wardroom_core::gpu_node::{Event, State, moves};
use wardroom_store::{Change, Error as StoreError, Fence, Held, TRANSITION};
use wardroom_workflow::NODE;

use super::{
    document::{self, Document},
    owner,
};
use crate::{
    app::{App, by_system},
    error::Error,
};

/// Moves silent nodes from active to offline; says who need not be watched any more.
pub(crate) async fn silent(app: &App, ids: Vec<String>, fence: Option<Fence>) -> Result<Vec<String>, Error> {
    let mut done = Vec::new();
    for id in ids {
        let found = app.store.get(NODE, &id).await?.filter(|found| !found.content.deleted);
        let Some(node) = found.filter(|node| node.content.state == State::Active.as_str()) else {
            // Somebody else moved it: whoever did sees to its seat.
            done.push(id);
            continue;
        };
        // Heard while its neighbours were read.
        if !app.liveness.is_due(NODE, &id) {
            continue;
        }
        let to = moves::target(document::state(&node)?, Event::HeartbeatsMissed).ok_or(Error::Internal)?;
        let after = Document::of(&node)?.into_content_of(&node, to)?;
        let holds = owner::run_of(app, &node).await?.iter().map(|run| Held::at(&run.resource)).collect();
        let silence = app.liveness.standing(NODE, &id);
        let metadata = silence.map_or(serde_json::Value::Null, |silence| {
            json!({"event": Event::HeartbeatsMissed, "last_seen": silence.heard, "missed": silence.missed})
        });
        let entry = by_system(app, TRANSITION, metadata);
        let fence = fence.clone();
        let change = Change { before: Some(node), after, entry, effects: Vec::new(), fence, holds };
        match app.store.commit(change).await {
            Ok(_) => done.push(id),
            // Somebody else was faster: it is judged again.
            Err(StoreError::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}

//! Active nodes that fell silent go offline, a batch at a time.

use wardroom_core::gpu_node::{Event, State, mapping};
use wardroom_store::{Change, Content, Error as StoreError, Fence, Held, Resource, TRANSITION};

use super::{begin, document, document::KIND};
use crate::{
    app::{App, by_system},
    error::Error,
};

/// Moves silent nodes from active to offline; answers who need not be watched any more.
pub(crate) async fn go_offline(
    app: &App,
    ids: Vec<String>,
    fence: Option<Fence>,
) -> Result<Vec<String>, Error> {
    let mut done = Vec::new();
    for id in ids {
        let found = app.store.get(KIND, &id).await?.filter(|found| !found.content.deleted);
        let Some(node) = found.filter(|found| found.content.state == State::Active.as_str()) else {
            done.push(id);
            continue;
        };
        // Heard while its neighbours were looked at.
        if !app.liveness.is_due(KIND, &id) {
            continue;
        }
        if mark(app, node, fence.clone()).await? {
            done.push(id);
        }
    }
    Ok(done)
}

async fn mark(app: &App, node: Resource, fence: Option<Fence>) -> Result<bool, Error> {
    let to = super::moved(document::state(&node)?, Event::HeartbeatsMissed).ok_or(Error::Internal)?;
    let run = begin::newest_run(app, &node).await?;
    let current = run.as_ref().map(|run| (run.record.kind, run.state));
    // A run that is about to move the node sees to it.
    if mapping::check(to, current).is_err() {
        return Ok(false);
    }
    let silence = app.liveness.standing(KIND, &node.content.id);
    let metadata = silence.map_or(serde_json::Value::Null, |silence| {
        serde_json::json!({
            "last_seen": silence.heard, "interval": silence.interval, "missed": silence.missed, "due": silence.due,
        })
    });
    let mut entry = by_system(app, TRANSITION, metadata);
    entry.comment = Some(Event::HeartbeatsMissed.to_string());
    let after = Content { state: to.as_str().to_owned(), ..node.content.clone() };
    let holds = run.iter().map(|run| Held::at(&run.resource)).collect();
    let change = Change { before: Some(node), after, entry, effects: Vec::new(), fence, holds };
    match app.store.commit(change).await {
        Ok(_) => Ok(true),
        // Somebody else was faster: it is judged again.
        Err(StoreError::Conflict) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

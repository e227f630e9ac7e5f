//! Satellites that fell silent, as the sweep of liveness found them.

use futures_util::stream::{StreamExt as _, iter};
use wardroom_core::satellite::{Event, State};
use wardroom_store::{Change, Error as StoreError, Fence, TRANSITION};

use super::{
    document::{Document, KIND, state},
    step,
};
use crate::{
    app::{App, by_system},
    error::Error,
};

/// Changes that are under way together.
const AT_ONCE: usize = 64;

/// Marks satellites as stale, each with its row of history, and says which need not be watched any more: those that
/// were marked, and those that are online no longer. A sweeper that lost its lease changes nothing.
pub(crate) async fn go_stale(
    app: &App,
    ids: Vec<String>,
    fence: Option<Fence>,
) -> Result<Vec<String>, Error> {
    let marked = iter(ids).map(|id| {
        let fence = fence.clone();
        async move { mark(app, &id, fence).await.map(|done| done.then_some(id)) }
    });
    let marked: Vec<_> = marked.buffer_unordered(AT_ONCE).collect().await;
    marked.into_iter().filter_map(Result::transpose).collect()
}

/// Whether the satellite need not be watched any more; who changed meanwhile is judged again by the next sweep.
async fn mark(app: &App, id: &str, fence: Option<Fence>) -> Result<bool, Error> {
    let found = app.store.get(KIND, id).await?.filter(|found| !found.content.deleted);
    let Some(before) = found else { return Ok(true) };
    if state(&before)? != State::Online {
        return Ok(true);
    }
    let to = step(State::Online, Event::HeartbeatsMissed)?.to;
    let after = Document::of(&before)?.into_content_of(&before, to)?;
    let last_seen = super::beat::last_heard(app, id);
    let metadata = serde_json::json!({"event": Event::HeartbeatsMissed.as_str(), "last_seen": last_seen});
    let entry = by_system(app, TRANSITION, metadata);
    match app.commit(Change { before: Some(before), after, entry, effects: Vec::new(), fence }).await {
        Ok(_) => Ok(true),
        Err(StoreError::Conflict) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

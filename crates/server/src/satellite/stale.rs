//! Satellites that fell silent become stale, each with its own row of history.

use futures_util::stream::{StreamExt as _, iter};
use serde_json::json;
use wardroom_core::satellite::{Event, State};
use wardroom_store::{Change, Content, Error as StoreError, Fence, Resource, TRANSITION};

use super::{
    document::{KIND, state},
    step,
};
use crate::{
    app::{App, by_system},
    error::Error,
};

/// Satellites that are looked at together.
const AT_ONCE: usize = 64;

/// Marks satellites that fell silent, and says who need not be watched any more: those that were marked, and those
/// that are online no longer. Who is left out is judged again by the next sweep; a sweeper that lost its lease
/// changes nothing.
pub(crate) async fn go_stale(
    app: &App,
    ids: Vec<String>,
    fence: Option<Fence>,
) -> Result<Vec<String>, Error> {
    let marks = iter(ids).map(|id| {
        let fence = fence.clone();
        async move { (mark(app, &id, fence).await, id) }
    });
    let marked: Vec<_> = marks.buffer_unordered(AT_ONCE).collect().await;
    let (mut done, mut failed) = (Vec::new(), None);
    for (marked, id) in marked {
        match marked {
            Ok(true) => done.push(id),
            Ok(false) => {}
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if done.is_empty() => Err(error),
        Some(error) => {
            tracing::warn!(%error, marked = done.len(), "not every silent satellite could be marked; they are tried again");
            Ok(done)
        }
        None => Ok(done),
    }
}

async fn mark(app: &App, id: &str, fence: Option<Fence>) -> Result<bool, Error> {
    let found = app.store.get(KIND, id).await?.filter(|found| !found.content.deleted);
    let Some(before) = found else { return Ok(true) };
    if state(&before)? != State::Online {
        // Somebody else moved it: whoever did sees to its seat.
        return Ok(true);
    }
    // Heard while its neighbours were looked at.
    if !app.liveness.is_due(KIND, id) {
        return Ok(false);
    }
    match app.commit(change(app, before, fence)?).await {
        Ok(_) => Ok(true),
        Err(StoreError::Conflict) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn change(app: &App, before: Resource, fence: Option<Fence>) -> Result<Change, Error> {
    let to = step(State::Online, Event::HeartbeatsMissed)?.to;
    let silence = app.liveness.standing(KIND, &before.content.id);
    let metadata = silence.map_or(serde_json::Value::Null, |silence| {
        json!({"last_seen": silence.heard, "interval": silence.interval, "missed": silence.missed, "due": silence.due})
    });
    let mut entry = by_system(app, TRANSITION, metadata);
    entry.comment = Some(Event::HeartbeatsMissed.to_string());
    let after = Content { state: to.as_str().to_owned(), ..before.content.clone() };
    Ok(Change { before: Some(before), after, entry, effects: Vec::new(), fence, holds: Vec::new() })
}

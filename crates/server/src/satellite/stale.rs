//! Satellites that fell silent become stale, each with its own row of history.

use std::collections::HashMap;

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

/// Satellites that are looked at and then written together: few enough that hardly one is heard in between.
const TOGETHER: usize = 250;

/// Marks satellites that fell silent, and says who need not be watched any more: those that were marked, and those
/// that are online no longer. Who is left out is judged again by the next sweep; a sweeper that lost its lease
/// changes nothing.
pub(crate) async fn go_stale(
    app: &App,
    ids: Vec<String>,
    fence: Option<Fence>,
) -> Result<Vec<String>, Error> {
    let mut done = Vec::new();
    for ids in ids.chunks(TOGETHER) {
        match mark(app, ids, fence.as_ref(), &mut done).await {
            Ok(()) => {}
            Err(error) if done.is_empty() => return Err(error),
            Err(error) => {
                tracing::warn!(%error, marked = done.len(), "not every silent satellite could be marked; they are tried again");
                break;
            }
        }
    }
    Ok(done)
}

/// Adds to `done` also when some of them fail.
async fn mark(app: &App, ids: &[String], fence: Option<&Fence>, done: &mut Vec<String>) -> Result<(), Error> {
    let found = app.store.get_all(KIND, ids).await?;
    let mut found: HashMap<_, _> = found.into_iter().map(|found| (found.content.id.clone(), found)).collect();
    let mut changes = Vec::new();
    for id in ids {
        let Some(before) = found.remove(id).filter(|found| !found.content.deleted) else {
            done.push(id.clone());
            continue;
        };
        if state(&before)? != State::Online {
            // Somebody else moved it: whoever did sees to its seat.
            done.push(id.clone());
        } else if app.liveness.is_due(KIND, id) {
            changes.push(change(app, before, fence.cloned())?);
        }
        // Or else it was heard while its neighbours were looked at.
    }
    let mut failed = Ok(());
    for committed in app.commit_all(changes).await {
        match committed {
            Ok(marked) => done.push(marked.content.id),
            Err(StoreError::Conflict) => {}
            Err(error) => failed = Err(error.into()),
        }
    }
    failed
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

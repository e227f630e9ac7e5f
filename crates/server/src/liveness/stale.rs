//! Satellites that fell silent become stale, a batch at a time, each with its own history row.

use futures_util::{StreamExt as _, stream};
use serde_json::json;
use wardroom_core::{
    liveness::Interval,
    satellite::{Event, State, TABLE},
};
use wardroom_store::{Change, Content, Error as StoreError, Fence, Resource, TRANSITION};

use crate::{
    app::{App, by_system},
    error::Error,
};

const KIND: &str = "satellite";

/// Reads that are under way together.
const READS: usize = 64;

/// The interval that a member's document says it was given.
pub(super) fn given_interval(resource: &Resource) -> Option<Interval> {
    #[derive(serde::Deserialize)]
    struct Given {
        #[serde(default)]
        heartbeat_interval: Option<String>,
    }
    let given = resource.content.document.read::<Given>().ok()?.heartbeat_interval?;
    Interval::parse("heartbeat_interval", &given).ok()
}

/// Moves silent satellites from online to stale.
pub(super) async fn satellites(
    app: &App,
    ids: Vec<String>,
    fence: Option<Fence>,
) -> Result<Vec<String>, Error> {
    let reads = stream::iter(ids).map(|id| async move { (app.store.get(KIND, &id).await, id) });
    let found: Vec<_> = reads.buffered(READS).collect().await;
    let (mut done, mut changes) = (Vec::new(), Vec::new());
    for (found, id) in found {
        match found?.filter(|found| !found.content.deleted) {
            Some(before) if before.content.state == State::Online.as_str() => {
                // Heard while its neighbours were read.
                if app.liveness.is_due(KIND, &id) {
                    changes.push(change(app, before, fence.clone())?);
                }
            }
            // Somebody else moved it: whoever did sees to its seat.
            Some(_) | None => done.push(id),
        }
    }
    let ids: Vec<_> = changes.iter().map(|change| change.after.id.clone()).collect();
    let mut failed = None;
    for (id, result) in ids.into_iter().zip(app.store.commit_all(changes).await) {
        match result {
            Ok(_) => done.push(id),
            // Somebody else was faster: it is judged again.
            Err(StoreError::Conflict) => {}
            Err(error) => failed = Some(error),
        }
    }
    if let Some(error) = failed {
        tracing::warn!(%error, marked = done.len(), "not every silent satellite could be marked; they are tried again");
    }
    Ok(done)
}

fn change(app: &App, before: Resource, fence: Option<Fence>) -> Result<Change, Error> {
    let to = TABLE.find(State::Online, Event::HeartbeatsMissed).ok_or(Error::Internal)?.to;
    let silence = app.liveness.standing(KIND, &before.content.id);
    let metadata = silence.map_or(serde_json::Value::Null, |silence| {
        json!({"last_seen": silence.heard, "interval": silence.interval, "missed": silence.missed, "due": silence.due})
    });
    let mut entry = by_system(app, TRANSITION, metadata);
    entry.comment = Some(Event::HeartbeatsMissed.to_string());
    let after = Content { state: to.as_str().to_owned(), ..before.content.clone() };
    Ok(Change { before: Some(before), after, entry, effects: Vec::new(), fence, holds: Vec::new() })
}

//! Members that fell silent move on, many in a commit, each with its own row of history.
//!
//! What must stay true: who was heard a moment ago stays; a sweeper that lost its lease changes nothing; and one member
//! that cannot be moved keeps no other waiting.

use std::collections::HashMap;

use serde_json::json;
use wardroom_core::liveness::{Interval, Standing};
use wardroom_store::{Change, Content, Error as StoreError, Fence, Held, Resource, TRANSITION};

use super::kinds::Beating;
use crate::{
    app::{App, by_system},
    error::Error,
};

/// Members that are looked at and then written together: few enough that hardly one is heard in between.
const TOGETHER: usize = 250;

/// Where a silent member goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// The state.
    pub(crate) to: &'static str,
    /// What that was decided on.
    pub(crate) holds: Vec<Held>,
}

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

/// Marks members of a kind that fell silent, and says who need not be watched any more: those that were marked, and
/// those that beat no longer. Who is left out is judged again by the next sweep.
pub(super) async fn go_stale(
    app: &App,
    row: &Beating,
    ids: &[String],
    fence: Option<&Fence>,
) -> Result<Vec<String>, Error> {
    let mut done = Vec::new();
    for ids in ids.chunks(TOGETHER) {
        match mark(app, row, ids, fence, &mut done).await {
            Ok(()) => {}
            Err(error) if done.is_empty() => return Err(error),
            Err(error) => {
                let (kind, marked) = (row.kind, done.len());
                tracing::warn!(%error, kind, marked, "not all who are silent could be marked; it is tried again");
                break;
            }
        }
    }
    Ok(done)
}

/// Adds to `done` also when some of them fail.
async fn mark(
    app: &App,
    row: &Beating,
    ids: &[String],
    fence: Option<&Fence>,
    done: &mut Vec<String>,
) -> Result<(), Error> {
    let found = app.store.get_all(row.kind, ids).await?;
    let mut found: HashMap<_, _> = found.into_iter().map(|found| (found.content.id.clone(), found)).collect();
    let mut silent = Vec::new();
    for id in ids {
        let beats =
            |found: &Resource| !found.content.deleted && row.states.contains(&found.content.state.as_str());
        match found.remove(id).filter(beats) {
            // Somebody else moved it: whoever did sees to its seat.
            None => done.push(id.clone()),
            Some(before) if app.liveness.is_due(row.kind, id) => silent.push(before),
            // It was heard while its neighbours were looked at.
            Some(_) => {}
        }
    }
    let targets = (row.targets)(app, &silent).await?;
    let moved = silent.into_iter().zip(targets);
    let changes = moved.filter_map(|(before, target)| change(app, row, before, target?, fence));
    let mut failed = Ok(());
    for committed in app.commit_all(changes.collect()).await {
        match committed {
            Ok(marked) => done.push(marked.content.id),
            // Somebody else was faster: it is judged again.
            Err(StoreError::Conflict) => {}
            Err(error) if error.leaves_doubt() || matches!(error, StoreError::Fenced { .. }) => {
                failed = Err(error.into());
            }
            Err(error) => tracing::error!(%error, kind = row.kind, "a silent member cannot be marked"),
        }
    }
    failed
}

/// Names what it is decided on, so that whoever learns of a later beat can tell. Nothing for one that was heard since.
fn change(
    app: &App,
    row: &Beating,
    before: Resource,
    target: Target,
    fence: Option<&Fence>,
) -> Option<Change> {
    let silence = app.liveness.standing(row.kind, &before.content.id)?;
    if !matches!(silence.standing, Standing::Due | Standing::Suspected) {
        return None;
    }
    let metadata = json!({"last_seen": silence.heard, "interval": silence.interval, "missed": silence.missed, "due": silence.due});
    let mut entry = by_system(app, TRANSITION, metadata);
    entry.comment = Some(row.event.to_owned());
    let after = Content { state: target.to.to_owned(), ..before.content.clone() };
    let holds = target.holds;
    Some(Change { before: Some(before), after, entry, effects: Vec::new(), fence: fence.cloned(), holds })
}

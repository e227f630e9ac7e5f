//! Moves silent members on, many in a commit, each with its own history row.
//!
//! What must stay true: a member that was heard a moment ago stays; a sweeper that lost its lease changes
//! nothing; and one member that cannot be moved does not delay the others.

use std::collections::HashMap;

use serde_json::json;
use wardroom_core::liveness::{Interval, Standing};
use wardroom_store::{BeatAt, Change, Content, Error as StoreError, Fence, Held, Resource, TRANSITION};

use super::kinds::Beating;
use crate::platform::{
    app::{App, by_system},
    http::error::Error,
};

/// How many members are read and then written together: few, so that hardly any beats in between.
const TOGETHER: usize = 250;

/// Where a silent member goes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Target {
    pub(crate) to: Goal,
    /// The preconditions of that decision.
    pub(crate) holds: Vec<Held>,
}

/// What becomes of a member that fell silent, or was heard again.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Goal {
    /// It moves to this state, and all else stays.
    State(&'static str),
    /// More than its state follows from its silence.
    Content(Box<Content>),
}

impl Goal {
    pub(super) fn of(self, before: &Content) -> Content {
        match self {
            Self::State(to) => Content { state: to.to_owned(), ..before.clone() },
            Self::Content(content) => *content,
        }
    }
}

/// A silent member, and its row if it was judged by the table.
#[derive(Debug)]
pub(super) struct Silent {
    pub(super) id: String,
    pub(super) beat: Option<BeatAt>,
}

/// The interval that a member's document says it was given.
pub(crate) fn given_interval(resource: &Resource) -> Option<Interval> {
    #[derive(serde::Deserialize)]
    struct Given {
        #[serde(default)]
        heartbeat_interval: Option<String>,
    }
    let given = resource.content.document.read::<Given>().ok()?.heartbeat_interval?;
    Interval::parse("heartbeat_interval", &given).ok()
}

/// Marks silent members of a kind, and returns those that need no watch any more: the marked ones, and those
/// that must not beat. The next sweep judges the rest again.
pub(super) async fn go_stale(
    app: &App,
    row: &Beating,
    silent: &[Silent],
    fence: Option<&Fence>,
) -> Result<Vec<String>, Error> {
    let mut done = Vec::new();
    for silent in silent.chunks(TOGETHER) {
        match mark(app, row, silent, fence, &mut done).await {
            Ok(()) => {}
            Err(error) if done.is_empty() => return Err(error),
            Err(error) => {
                let (kind, marked) = (row.kind, done.len());
                tracing::warn!(%error, kind, marked, "some silent members not marked; the next sweep tries again");
                break;
            }
        }
    }
    Ok(done)
}

/// Marks some members; adds to `done` even if some fail.
async fn mark(
    app: &App,
    row: &Beating,
    silent: &[Silent],
    fence: Option<&Fence>,
    done: &mut Vec<String>,
) -> Result<(), Error> {
    let ids: Vec<_> = silent.iter().map(|silent| silent.id.clone()).collect();
    let found = app.store.get_all(row.kind, &ids).await?;
    let mut found: HashMap<_, _> = found.into_iter().map(|found| (found.content.id.clone(), found)).collect();
    let (mut members, mut beats) = (Vec::new(), Vec::new());
    for Silent { id, beat } in silent {
        match found.remove(id).filter(|found| row.must_beat(found)) {
            // It was moved meanwhile; the server that moved it updates its seat.
            None => done.push(id.clone()),
            Some(before) if app.liveness.is_due(row.kind, id) => {
                members.push(before);
                beats.push(*beat);
            }
            // It beat while the others were read.
            Some(_) => {}
        }
    }
    let targets = (row.targets)(app, &members).await?;
    let moved = members.into_iter().zip(beats).zip(targets);
    let changes = moved.filter_map(|((before, beat), target)| {
        let fence = fence.cloned().map(|fence| fence.on_beat(beat));
        change(app, row, before, target?, fence)
    });
    let mut failed = Ok(());
    for committed in app.commit_all(changes.collect()).await {
        match committed {
            Ok(marked) => done.push(marked.content.id),
            // It was moved or beat meanwhile: it is judged again.
            Err(StoreError::Conflict) => {}
            Err(error) if error.leaves_doubt() || matches!(error, StoreError::Fenced { .. }) => {
                failed = Err(error.into());
            }
            Err(error) => tracing::error!(%error, kind = row.kind, "silent member not marked"),
        }
    }
    failed
}

/// Builds the mark, with the beat it is based on, so that a later beat is recognised. None if the member beat
/// since.
fn change(
    app: &App,
    row: &Beating,
    before: Resource,
    target: Target,
    fence: Option<Fence>,
) -> Option<Change> {
    let silence = app.liveness.standing(row.kind, &before.content.id)?;
    if !matches!(silence.standing, Standing::Due | Standing::Suspected) {
        return None;
    }
    let last_seen = app.liveness.last_seen(row.kind, &before.content.id);
    let metadata = json!({"last_seen": last_seen, "interval": silence.interval, "missed": silence.missed, "due": silence.due});
    let mut entry = by_system(app, TRANSITION, metadata);
    entry.comment = Some(row.event.to_owned());
    let after = target.to.of(&before.content);
    let holds = target.holds;
    Some(Change { before: Some(before), after, entry, effects: Vec::new(), fence, holds })
}

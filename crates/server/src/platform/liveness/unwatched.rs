//! Beats of unwatched members, which may have been marked just as they beat.
//!
//! A mark is based on beats that are some seconds old when it commits. Beats that this server receives
//! meanwhile are recorded here; the lease holder finds those of other replicas in the table.
//!
//! What must stay true: a mark is reverted only if it was made without knowing the beat, and the member has
//! not been silent for too long since. Deaf time, which excuses a member from being marked, does not count
//! here.

use std::{
    collections::{HashMap, HashSet},
    sync::{MutexGuard, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use wardroom_core::liveness::Interval;
use wardroom_store::{Change, Content, Error as StoreError, Fence, Resource, Rows, TRANSITION};

use super::{
    Liveness,
    kinds::Beating,
    millis,
    overdue::release_moved,
    slab::{Record, Seat},
    stale::Goal,
};
use crate::platform::{
    app::{App, by_system},
    http::error::Error,
};

/// How many members one sweep handles; the next one continues.
const MOST: usize = 250;

/// How much later than the beat named in a mark another beat must be: the same beat may be stored with a
/// small delay, and clocks of servers differ a little.
const SLACK: SignedDuration = SignedDuration::from_secs(1);

/// The members that the next sweep handles.
pub(super) type UnwatchedBeats = HashSet<Seat>;

/// A member that was marked, and was heard.
struct Marked {
    seat: Seat,
    record: Record,
    member: Resource,
    back: Back,
}

/// The state that a wrongly marked member returns to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Back {
    pub(crate) to: Goal,
    /// The event that brings it there.
    pub(crate) event: &'static str,
}

/// Brings members back that were marked although they had beaten.
pub(super) async fn look(app: &App, fence: Option<&Fence>) -> Result<(), Error> {
    let live = &app.liveness;
    let due = live.take_unwatched();
    if due.is_empty() {
        return Ok(());
    }
    for (number, row) in (0..).zip(live.kinds.iter().copied()) {
        let of_kind = due.iter().filter_map(|seat| Some((*seat, live.slab.record(*seat)?)));
        let of_kind = of_kind.filter(|(_, record)| record.kind == number);
        let seats: HashMap<_, _> = of_kind
            .filter_map(|(seat, record)| Some((live.slab.name(seat)?.into_string(), (seat, record))))
            .collect();
        if seats.is_empty() {
            continue;
        }
        let ids: Vec<_> = seats.keys().cloned().collect();
        let (mut marked, mut watched) = (Vec::new(), Vec::new());
        for member in app.store.get_all(row.kind, &ids).await? {
            let Some((seat, record)) = seats.get(&member.content.id).copied() else { continue };
            if row.must_beat(&member) {
                live.watch_stored(row, &member, &record);
                watched.push(member.content.id);
            } else if let Some(back) = back(app, row, &member) {
                marked.push(Marked { seat, record, member, back });
            }
        }
        watched.extend(take_back(app, row, marked, fence).await?);
        release_moved(app, row, &watched).await?;
    }
    Ok(())
}

/// Returns where a member goes back to, if its state is one of a mark.
fn back(app: &App, row: &Beating, member: &Resource) -> Option<Back> {
    if member.content.deleted {
        return None;
    }
    (row.back)(member, app.now()).unwrap_or_else(|error| {
        tracing::error!(%error, kind = row.kind, id = member.content.id, "record of a returning member unreadable; skipped");
        None
    })
}

/// Reverts the marks of members that beat recently enough, and returns their ids.
async fn take_back(
    app: &App,
    row: &Beating,
    marked: Vec<Marked>,
    fence: Option<&Fence>,
) -> Result<Vec<String>, Error> {
    let live = &app.liveness;
    let (mut changes, mut heard, mut watched) = (Vec::new(), Vec::new(), Vec::new());
    for Marked { seat, record, member, back } in marked {
        match is_newer(app, &member, &record).await {
            Ok(true) if live.is_within_rule(&record) => {
                changes.push(change(app, member, back, &record, fence));
                heard.push((seat, record));
            }
            Ok(_) => {}
            // One unreadable mark does not stop the others; it is retried.
            Err(error) => {
                tracing::error!(%error, kind = row.kind, id = member.content.id, "the row that marked a member as silent is unreadable; skipped");
                live.heard_unwatched(seat);
            }
        }
    }
    for ((seat, record), committed) in heard.into_iter().zip(app.commit_all(changes).await) {
        match committed {
            Ok(member) => {
                live.watch_stored(row, &member, &record);
                watched.push(member.content.id);
            }
            // The record changed meanwhile: the member is checked again.
            Err(StoreError::Conflict) => live.heard_unwatched(seat),
            Err(error) if error.leaves_doubt() || matches!(error, StoreError::Fenced { .. }) => {
                live.heard_unwatched(seat);
                return Err(error.into());
            }
            Err(error) => {
                tracing::error!(%error, kind = row.kind, "member that beats again not brought back; retrying");
            }
        }
    }
    Ok(watched)
}

/// Whether a member beat after the beat that its mark names.
async fn is_newer(app: &App, member: &Resource, record: &Record) -> Result<bool, Error> {
    let Content { kind, id, .. } = &member.content;
    let (rows, _) = app.store.history(kind, id, Rows::Transitions, 1, 0).await?;
    let known = rows.first().and_then(|row| row.entry.metadata["last_seen"].as_str()?.parse().ok());
    let known: Timestamp = known.unwrap_or(member.state_changed_at);
    let heard = app.liveness.clock.wall_of(millis(record.last));
    Ok(heard.duration_since(known) > SLACK)
}

fn change(app: &App, before: Resource, back: Back, record: &Record, fence: Option<&Fence>) -> Change {
    let heard = app.liveness.clock.wall_of(millis(record.last));
    let mut entry = by_system(app, TRANSITION, json!({"event": back.event, "last_seen": heard}));
    entry.comment = Some("a heartbeat from before the mark arrived late".to_owned());
    let after = back.to.of(&before.content);
    let (effects, holds) = (Vec::new(), Vec::new());
    Change { before: Some(before), after, entry, effects, fence: fence.cloned(), holds }
}

impl Liveness {
    /// Records a beat of an unwatched member.
    pub(super) fn heard_unwatched(&self, seat: Seat) {
        self.unwatched().insert(seat);
    }

    /// Takes the members that are looked at now.
    pub(super) fn take_unwatched(&self) -> Vec<Seat> {
        let mut unwatched = self.unwatched();
        let due: Vec<_> = unwatched.iter().copied().take(MOST).collect();
        unwatched.retain(|seat| !due.contains(seat));
        due
    }

    /// Whether it keeps the rule without any excuse.
    fn is_within_rule(&self, record: &Record) -> bool {
        let silent = self.clock.steady().duration_since(millis(record.last));
        silent <= self.settings.policy.allowance(record.interval)
    }

    fn watch_stored(&self, row: &Beating, member: &Resource, record: &Record) {
        self.seat_stored(row, member, record.last, record.interval.map_or(0, Interval::seconds));
    }

    fn unwatched(&self) -> MutexGuard<'_, UnwatchedBeats> {
        self.unwatched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Beats of members that are not watched here: they were marked at the moment at which they were heard.
//!
//! A mark is decided on beats that are some seconds old when it is committed. A server that hears a member meanwhile notes
//! it here when it was the one that marked it; the lease holder finds those of other replicas in the table.
//!
//! What must stay true: a mark is taken back only if it was made without the beat, and the member has not been silent for
//! too long since, whatever the servers did not hear: what excuses a member from being marked brings none back.

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
};
use crate::platform::{
    app::{App, by_system},
    http::error::Error,
};

/// Members that one sweep looks at; the next one continues.
const MOST: usize = 250;

/// A beat is another one than that which a mark names if it is later by this: the same one may be written down with a little
/// delay, and the clocks of two servers differ a little.
const SLACK: SignedDuration = SignedDuration::from_secs(1);

/// The members that are looked at next.
pub(super) type UnwatchedBeats = HashSet<Seat>;

/// A member that was marked, and was heard.
struct Marked {
    seat: Seat,
    record: Record,
    member: Resource,
    back: Back,
}

/// Where a member goes that was marked although it was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Back {
    /// The state.
    pub(crate) to: &'static str,
    /// The event that brings it there.
    pub(crate) event: &'static str,
}

/// Looks at members that were heard without being watched: those that were marked come back.
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
            } else if let Some(back) = back(row, &member) {
                marked.push(Marked { seat, record, member, back });
            }
        }
        watched.extend(take_back(app, row, marked, fence).await?);
        release_moved(app, row, &watched).await?;
    }
    Ok(())
}

/// Where a member goes from the state it is in, if that is the one of a mark.
fn back(row: &Beating, member: &Resource) -> Option<Back> {
    if member.content.deleted {
        return None;
    }
    (row.back)(member).unwrap_or_else(|error| {
        tracing::error!(%error, kind = row.kind, id = member.content.id, "the record of a member that was heard cannot be read");
        None
    })
}

/// Takes the marks back of members that were heard recently enough, and returns the ids of those.
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
            // One mark that cannot be read leaves the others to be taken back; this one is tried again.
            Err(error) => {
                tracing::error!(%error, kind = row.kind, id = member.content.id, "a mark cannot be read");
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
            // The record changed meanwhile: the member is looked at again.
            Err(StoreError::Conflict) => live.heard_unwatched(seat),
            Err(error) if error.leaves_doubt() || matches!(error, StoreError::Fenced { .. }) => {
                live.heard_unwatched(seat);
                return Err(error.into());
            }
            Err(error) => {
                tracing::error!(%error, kind = row.kind, "a member that was heard cannot be brought back");
            }
        }
    }
    Ok(watched)
}

/// Whether a member was heard after the beat that its mark was decided on, which the mark names.
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
    entry.comment = Some("its heartbeat was not known yet when it was marked".to_owned());
    let after = Content { state: back.to.to_owned(), ..before.content.clone() };
    let (effects, holds) = (Vec::new(), Vec::new());
    Change { before: Some(before), after, entry, effects, fence: fence.cloned(), holds }
}

impl Liveness {
    /// Notes that a member was heard that is not watched.
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

    /// Whether its beats are enough without any excuse.
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

//! Members that were heard although nobody watches them here.
//!
//! ```text
//! not watched   the feed has not told of it yet: any transaction that is left open in the cluster holds the feed back
//! marked        it was heard after what it was judged by: that is some seconds old when a mark is committed
//! need not beat most GPU nodes that are not active
//! ```
//!
//! Whoever sweeps reads what they are: it watches the first, takes the mark of the second back, and leaves the third alone.
//! What must stay true: normally there is nobody to look at; who need not beat is read once in a while, however often it
//! is heard; and a mark is taken back only if it was made without the beat, and the member has not been silent for too long
//! since, whatever the servers did not hear: what is an excuse for not being marked yet brings nobody back.

use std::{
    collections::HashMap,
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
    slab::{Record, Seat},
};
use crate::{
    app::{App, by_system},
    error::Error,
};

/// Members that one sweep looks at; the next one goes on.
const MOST: usize = 250;

/// Milliseconds until who need not beat is looked at again.
const PAUSE: i64 = 60_000;

/// A beat is another one than that which a mark names if it is later by this: the same one may be written down with a little
/// delay, and the clocks of two servers differ a little.
const SLACK: SignedDuration = SignedDuration::from_secs(1);

/// Who is to be looked at.
pub(super) type Astray = HashMap<Seat, Look>;

/// What is known of a member that was heard without being watched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// When it was last looked at, in milliseconds of the steady axis; nothing if it was not yet.
    at: Option<i64>,
    /// Whether it was heard since.
    heard: bool,
}

/// A member that was marked, and was heard.
struct Marked {
    seat: Seat,
    record: Record,
    member: Resource,
    back: Back,
}

/// What is done about a member that was heard without being watched.
enum Sorted {
    /// It is watched from now on; its id.
    Watched(String),
    Marked(Box<Marked>),
    LeftAlone,
}

/// Where a member goes that was marked although it was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Back {
    /// The state.
    pub(crate) to: &'static str,
    /// What brings it there.
    pub(crate) event: &'static str,
}

/// Looks at those who were heard without being watched. Who cannot be looked at now is so with the next sweep.
pub(super) async fn look(app: &App, fence: Option<&Fence>) -> Result<(), Error> {
    let live = &app.liveness;
    live.forget_watched();
    let due = live.to_be_looked_at();
    if due.is_empty() {
        return Ok(());
    }
    for (number, row) in (0..).zip(live.kinds) {
        let of_kind = due.iter().filter_map(|seat| Some((*seat, live.slab.record(*seat)?)));
        let of_kind = of_kind.filter(|(_, record)| record.kind == number);
        let mut seats: HashMap<_, _> = of_kind
            .filter_map(|(seat, record)| Some((live.slab.name(seat)?.into_string(), (seat, record))))
            .collect();
        if seats.is_empty() {
            continue;
        }
        let ids: Vec<_> = seats.keys().cloned().collect();
        let (mut marked, mut watched) = (Vec::new(), Vec::new());
        for member in app.store.get_all(row.kind, &ids).await? {
            let Some((seat, record)) = seats.remove(&member.content.id) else { continue };
            match live.sort(row, member, seat, record) {
                Sorted::Watched(id) => watched.push(id),
                Sorted::Marked(member) => marked.push(*member),
                Sorted::LeftAlone => {}
            }
        }
        for (seat, _) in seats.into_values() {
            // There is no such member any more.
            live.astray().remove(&seat);
        }
        watched.extend(take_back(app, row, marked, fence).await?);
        let_go(app, row, &watched).await?;
    }
    Ok(())
}

/// Who was moved or deleted between being read and being watched is not watched.
async fn let_go(app: &App, row: &Beating, watched: &[String]) -> Result<(), Error> {
    if watched.is_empty() {
        return Ok(());
    }
    for Resource { content, .. } in app.store.get_all(row.kind, watched).await? {
        if content.deleted {
            app.liveness.forget(row.kind, &content.id);
        } else if !row.states.contains(&content.state.as_str()) {
            app.liveness.unseat(row.kind, &content.id);
        }
    }
    Ok(())
}

/// Takes the marks back of those who were heard recently enough; answers whose. Any other is looked at again when it is heard
/// again.
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
            Ok(_) => drop(live.astray().remove(&seat)),
            // What ails one is no reason to leave the others where they are; it is looked at again.
            Err(error) => {
                tracing::error!(%error, kind = row.kind, id = member.content.id, "a mark cannot be read");
                live.was_looked_at(seat);
            }
        }
    }
    for ((seat, record), committed) in heard.into_iter().zip(app.commit_all(changes).await) {
        match committed {
            Ok(member) => {
                live.watch_stored(row, &member, seat, &record);
                watched.push(member.content.id);
            }
            // Somebody else was faster: it is looked at again.
            Err(StoreError::Conflict) => {}
            Err(error) if error.leaves_doubt() || matches!(error, StoreError::Fenced { .. }) => {
                return Err(error.into());
            }
            Err(error) => {
                tracing::error!(%error, kind = row.kind, "a member that was heard cannot be brought back");
                live.was_looked_at(seat);
            }
        }
    }
    Ok(watched)
}

/// Whether a member was heard after what its mark was decided on, which the mark names.
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
    entry.comment = Some("it was heard, and that was not known here when it was marked".to_owned());
    let after = Content { state: back.to.to_owned(), ..before.content.clone() };
    let (effects, holds) = (Vec::new(), Vec::new());
    Change { before: Some(before), after, entry, effects, fence: fence.cloned(), holds }
}

impl Liveness {
    /// Notes that a member was heard that is not watched.
    pub(super) fn heard_unwatched(&self, seat: Seat) {
        self.astray().entry(seat).or_insert(Look { at: None, heard: true }).heard = true;
    }

    /// Forgets those who are watched by now, or gone: the feed told of them.
    pub(super) fn forget_watched(&self) {
        let rests = |seat: &Seat| self.slab.at(*seat).is_some_and(|(chunk, at)| !chunk.is_watched(at));
        self.astray().retain(|seat, _| rests(seat));
    }

    /// Who was not looked at yet comes first, then who was not for the longest.
    pub(super) fn to_be_looked_at(&self) -> Vec<Seat> {
        let now = self.clock.steady_millis();
        let is_due = |look: &Look| look.at.is_none_or(|at| now.saturating_sub(at) >= PAUSE);
        let astray = self.astray();
        let due = astray.iter().filter(|(_, look)| is_due(look));
        let mut due: Vec<_> = due.map(|(seat, look)| (look.at, *seat)).collect();
        drop(astray);
        if due.len() > MOST {
            due.select_nth_unstable_by_key(MOST, |(at, _)| *at);
            due.truncate(MOST);
        }
        due.into_iter().map(|(_, seat)| seat).collect()
    }

    /// Watches a member that has to beat. One that was marked is answered; all others are left alone.
    fn sort(&self, row: &Beating, member: Resource, seat: Seat, record: Record) -> Sorted {
        if member.content.deleted {
            self.astray().remove(&seat);
            return Sorted::LeftAlone;
        }
        if row.states.contains(&member.content.state.as_str()) {
            self.watch_stored(row, &member, seat, &record);
            return Sorted::Watched(member.content.id);
        }
        let back = (row.back)(&member).unwrap_or_else(|error| {
            tracing::error!(%error, kind = row.kind, id = member.content.id, "a member that was heard cannot be read");
            None
        });
        let Some(back) = back else {
            self.was_looked_at(seat);
            return Sorted::LeftAlone;
        };
        Sorted::Marked(Box::new(Marked { seat, record, member, back }))
    }

    /// Whether what is known of its beats is enough without any excuse.
    fn is_within_rule(&self, record: &Record) -> bool {
        let silent = self.clock.steady().duration_since(millis(record.last));
        silent <= self.settings.policy.allowance(record.interval)
    }

    fn watch_stored(&self, row: &Beating, member: &Resource, seat: Seat, record: &Record) {
        self.seat_stored(row, member, record.last, record.interval.map_or(0, Interval::seconds));
        self.astray().remove(&seat);
    }

    /// One that is not heard any more is looked at once again: it may have been moved right after it was heard last.
    fn was_looked_at(&self, seat: Seat) {
        let now = self.clock.steady_millis();
        let mut astray = self.astray();
        match astray.get(&seat) {
            Some(Look { heard: true, .. }) => astray.insert(seat, Look { at: Some(now), heard: false }),
            Some(Look { heard: false, .. }) => astray.remove(&seat),
            None => None,
        };
    }

    fn astray(&self) -> MutexGuard<'_, Astray> {
        self.astray.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

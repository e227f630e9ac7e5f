//! Finds members that may be silent in the table, while several replicas receive heartbeats.
//!
//! ```text
//! lease holder ─▶ rows past what a member that is well needs, joined to members in a state in which they have to beat
//!              ─▶ judged as of the least watermark before the question ─▶ marked if the row is still the same
//! ```
//!
//! What must stay true: a member is judged only if an earlier look, no later than the watermark, found it in
//! the same version of its record. A beat that brought it to that version was recorded before the record was
//! written, so the row has it by then, without comparing two clocks.

use std::{collections::HashMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use wardroom_core::liveness::Interval;
use wardroom_store::{Ages, BeatAt, Beats, Resource, Seen};

use super::{Liveness, Seat, kinds::Beating};
use crate::platform::{app::App, http::error::Error};

/// A look takes at most this share of the time, and the next one begins no later than [`LONGEST_PAUSE`] after it.
const SHARE: u32 = 10;
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// An answer of the database.
#[derive(Debug)]
pub(super) struct Look {
    asked: Timestamp,
    answered: Timestamp,
    /// By the number of the kind.
    overdue: Vec<(u8, Beats)>,
}

/// The state kept between looks.
#[derive(Debug, Default)]
pub(super) struct Looks {
    late: HashMap<Seat, Late>,
    /// When the next one may begin.
    next: Option<Timestamp>,
}

/// A row that was late when it was found.
#[derive(Debug, Clone, Copy)]
struct Late {
    version: i64,
    /// The first look that found the record in this version.
    since: Timestamp,
    at: BeatAt,
}

/// Reads overdue rows, and beats of marked members, which the next sweep handles.
pub(super) async fn look(app: &App) -> Result<Look, Error> {
    let live = &app.liveness;
    let asked = live.clock.steady();
    let (mut overdue, store) = (Vec::new(), app.store.reserved());
    for (number, row) in (0..).zip(live.kinds.iter().copied()) {
        if let Some(beats) = store.overdue(live.late_ages(row)).await? {
            overdue.push((number, beats));
        }
    }
    let answered = live.clock.steady();
    for ((number, beats), row) in overdue.iter().zip(live.kinds.iter().copied()) {
        seat_unknown(app, row, *number, beats).await?;
        if row.marked.is_empty() {
            continue;
        }
        if let Some(beats) = store.heard_within(live.rule_ages(row)).await? {
            for beat in beats.rows {
                let age = beat.age.unsigned_abs();
                let seat = live.learn(*number, &Seen { id: beat.id, age, every: beat.every });
                seat.into_iter().for_each(|seat| live.heard_unwatched(seat));
            }
        }
    }
    Ok(Look { asked, answered, overdue })
}

/// Watches members that the feed has not reported yet.
async fn seat_unknown(app: &App, row: &Beating, number: u8, beats: &Beats) -> Result<(), Error> {
    let live = &app.liveness;
    let unknown = beats.rows.iter().filter(|beat| live.find(row.kind, &beat.id).is_none());
    let unknown: HashMap<_, _> = unknown.map(|beat| (beat.id.to_string(), beat)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let ids: Vec<_> = unknown.keys().cloned().collect();
    for member in app.store.get_all(row.kind, &ids).await?.iter().filter(|member| row.must_beat(member)) {
        let Some(beat) = unknown.get(&member.content.id) else { continue };
        let age = beat.age.max(SignedDuration::ZERO).unsigned_abs();
        let seen = Seen { id: beat.id.clone(), age, every: beat.every };
        live.learn(number, &seen);
        live.seat_stored(row, member, i64::MIN, beat.every);
    }
    release_moved(app, row, &ids).await
}

/// Stops watching members that were moved or deleted between being read and being watched.
pub(super) async fn release_moved(app: &App, row: &Beating, watched: &[String]) -> Result<(), Error> {
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

impl Looks {
    /// Whether it is time for the next look.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.next.is_none_or(|next| next <= now)
    }

    /// Takes in an answer; returns the members that may be judged as of a moment, with their rows.
    pub(super) fn take(
        &mut self,
        live: &Liveness,
        look: Look,
        known: Timestamp,
    ) -> Vec<(Seat, Option<BeatAt>)> {
        let Look { asked, answered, overdue } = look;
        let took = answered.duration_since(asked).unsigned_abs();
        self.next = answered.checked_add((took * (SHARE - 1)).min(LONGEST_PAUSE)).ok();
        let (mut before, mut judged) = (std::mem::take(&mut self.late), Vec::new());
        for (number, beat) in
            overdue.into_iter().flat_map(|(kind, beats)| beats.rows.into_iter().map(move |beat| (kind, beat)))
        {
            let Some(seat) = live.directory.find(&live.slab, number, &beat.id) else { continue };
            let known_late = before.remove(&seat);
            if known_late.is_none_or(|late| late.at != beat.at) {
                let age = age_now(live, answered, beat.age);
                live.learn(number, &Seen { id: beat.id, age, every: beat.every });
            }
            let same = known_late.filter(|late| late.version == beat.version);
            let since = same.map_or(asked, |late| late.since);
            self.late.insert(seat, Late { version: beat.version, since, at: beat.at });
            if since <= known {
                judged.push((seat, Some(beat.at)));
            }
        }
        judged
    }
}

/// Returns the age of a beat. A beat in the future, after the clock was set back, counts as heard when it is
/// found.
fn age_now(live: &Liveness, answered: Timestamp, age: SignedDuration) -> Duration {
    let since = live.clock.steady().duration_since(answered);
    age.max(SignedDuration::ZERO).saturating_add(since).unsigned_abs()
}

impl Liveness {
    /// Returns the longest time between beats of a healthy member, by the interval in its row.
    fn late_ages(&self, row: &'static Beating) -> Ages<'static> {
        let policy = &self.settings.policy;
        let second = Interval::from_seconds(1);
        let per_second = policy.grace(second).min(policy.allowance(second));
        // A member that was given an interval since its last beat is held to that interval.
        let given = Some(self.settings.interval);
        let fallback = policy.grace(given).min(policy.allowance(given)).min(policy.fallback);
        Ages {
            kind: row.kind,
            states: row.states,
            per_second: per_second.unsigned_abs(),
            least: Duration::ZERO,
            fallback: fallback.unsigned_abs(),
        }
    }

    /// Returns how long a member may be silent, by the interval in its row.
    fn rule_ages(&self, row: &'static Beating) -> Ages<'static> {
        let policy = &self.settings.policy;
        let per_second = Duration::from_secs(policy.beats.get().into());
        let (least, fallback) = (policy.least.unsigned_abs(), policy.fallback.unsigned_abs());
        Ages { kind: row.kind, states: row.marked, per_second, least, fallback }
    }
}

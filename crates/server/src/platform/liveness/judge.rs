//! The sweep's judgement: facts from the seats, rules from `core`.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use wardroom_core::liveness::{
    Cause, Deadline, Facts, Fleet, Heard, Incident, Interval, Listening, Period, Silence, Standing, Zone,
    clock_jump, deadline, pause,
};
use wardroom_store::BeatAt;

use super::{
    Liveness, millis,
    slab::{Record, Seat},
};
use crate::platform::clock::Timepiece;

/// The memory between sweeps.
#[derive(Debug)]
pub(super) struct Judge {
    pub(super) listening: Listening,
    pub(super) fleet: Fleet,
    /// The open incidents that this server raised or continued.
    pub(super) incidents: BTreeMap<Zone, String>,
    /// Since when this server listens without a break.
    pub(super) since: Timestamp,
    /// Silence before this time does not count: the database's clock was set then, so ages of earlier beats
    /// are wrong.
    pub(super) counts_from: Timestamp,
    /// The last time both clocks were read, steady and wall.
    read: (Timestamp, Timestamp),
}

/// The marks that a sweep may make now.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// The members that go stale, by the number of the kind; the longest silent first.
    pub(super) release: BTreeMap<u8, Vec<Due>>,
    /// Incidents to report.
    pub(super) incidents: Vec<Incident>,
    /// How many members are late, due, and due but held.
    pub(super) silent: u32,
    pub(super) due: u32,
    pub(super) held: u32,
}

/// A member whose silence is past its deadline.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    pub(super) seat: Seat,
    /// The count of requests for its seat when it was judged.
    pub(super) claims: u32,
    /// Its last beat when it was judged, in milliseconds of the steady axis.
    pub(super) last: i64,
    /// Its row in the table, if it was judged by the table.
    pub(super) beat: Option<BeatAt>,
    at: Timestamp,
    zone: u32,
    kind: u8,
}

#[cfg(test)]
impl Due {
    /// Builds the entry that a sweep would make, for tests.
    pub(super) fn of(live: &Liveness, kind: &str, id: &str) -> Self {
        let seat = live.find(kind, id).unwrap();
        let (chunk, at) = live.slab.at(seat).unwrap();
        let Record { last, kind, .. } = chunk.record(at);
        Self { seat, claims: chunk.claims(at), last, beat: None, at: Timestamp::MIN, zone: 0, kind }
    }
}

impl Judge {
    pub(super) fn new(clock: Timepiece) -> Self {
        let (now, wall) = (clock.steady(), clock.now());
        Self {
            listening: Listening::starting(None),
            fleet: Fleet::default(),
            incidents: BTreeMap::new(),
            since: now,
            counts_from: Timestamp::MIN,
            read: (now, wall),
        }
    }

    /// Starts to judge: the members are loaded and the listeners accept.
    pub(super) fn started(&mut self, last_listened: Option<Timestamp>, now: Timestamp) {
        let mut listening = Listening::starting(last_listened.map(|listened| listened.min(now)));
        self.listening.periods().iter().for_each(|period| listening.record(*period));
        listening.end(Cause::StartUp, now);
        self.listening = listening;
        self.since = now;
    }

    /// Reads the clocks, and records a pause of the process or a jump of a clock since the last call. Must
    /// run before members are judged.
    pub(super) fn pulse(&mut self, clock: Timepiece, expected: SignedDuration) -> Option<Cause> {
        let (now, wall) = (clock.steady(), clock.now());
        let (before, wall_before) = std::mem::replace(&mut self.read, (now, wall));
        let paused = pause(before, now, expected);
        let jumped = clock_jump(wall.duration_since(wall_before), now.duration_since(before));
        let jumped = jumped.map(|_| Period { cause: Cause::ClockJump, from: before, to: now });
        let periods = [paused, jumped].into_iter().flatten();
        periods.map(|period| self.was_deaf(period)).max()
    }

    /// When the clocks were last read.
    pub(super) fn noticed(&self) -> Timestamp {
        self.read.0
    }

    /// Drops the guards, because another server judges now.
    pub(super) fn step_down(&mut self) {
        self.fleet = Fleet::default();
        self.incidents.clear();
    }

    /// Records a period in which this or another server was deaf.
    pub(super) fn was_deaf(&mut self, period: Period) -> Cause {
        self.listening.record(period);
        if period.cause != Cause::Replica {
            self.since = self.since.max(period.to);
        }
        period.cause
    }

    /// Records whether a cause makes the server deaf now.
    pub(super) fn set(&mut self, cause: Cause, is_deaf: bool, now: Timestamp) {
        if is_deaf {
            self.listening.begin(cause, now);
        } else {
            self.listening.end(cause, now);
            if self.listening.periods().last().is_some_and(|period| period.to == now) {
                self.since = now;
            }
        }
    }
}

impl Liveness {
    /// Judges members that may be late, from memory, as of a moment up to which memory has every beat. Must
    /// not be called while the server is deaf.
    pub(super) fn judge_by_memory(&self, judge: &mut Judge, now: Timestamp, known: Timestamp) -> Verdict {
        let mut late = Vec::new();
        let each = |index| late.extend(self.slab.seat(index).map(|seat| (seat, None)));
        self.slab.late(self.slab.step(known.as_millisecond()), each);
        self.judge(judge, late, now, known)
    }

    /// Judges members that may be late, as of a moment up to which every beat is known.
    pub(super) fn judge(
        &self,
        judge: &mut Judge,
        late: Vec<(Seat, Option<BeatAt>)>,
        now: Timestamp,
        known: Timestamp,
    ) -> Verdict {
        let quiet = late.is_empty() && judge.fleet.whole().is_idle() && judge.fleet.zones().is_empty();
        if quiet {
            return Verdict::default();
        }
        let mut facts = self.count_watched();
        let due = self.count_silent(late, judge, &mut facts, (now, known));
        let names = self.zones.names();
        let by_zone: BTreeMap<Zone, Facts> =
            names.into_iter().zip(facts).filter(|(_, facts)| facts.watched > 0).collect();
        let whole = by_zone.values().copied().fold(Facts::default(), Facts::and);
        let ruling = judge.fleet.rule(&by_zone, &self.settings.limits, now);
        let released: u32 = ruling.release.values().sum();
        Verdict {
            release: self.pick(due, ruling.release),
            incidents: ruling.incidents,
            silent: whole.silent,
            due: whole.due,
            held: whole.due.saturating_sub(released),
        }
    }

    /// How many are watched in each zone, and the longest interval there.
    fn count_watched(&self) -> Vec<Facts> {
        let fallback = self.settings.policy.fallback;
        let mut counts: Vec<(u32, u32, bool)> = vec![(0, 0, false); self.zones.names().len()];
        self.slab.watched(|_, zone, interval| {
            if let Some((watched, longest, unknown)) = counts.get_mut(zone as usize) {
                *watched += 1;
                *longest = (*longest).max(interval);
                *unknown |= interval == 0;
            }
        });
        let facts = |(watched, longest, unknown): (u32, u32, bool)| {
            let longest = SignedDuration::from_secs(longest.into());
            let longest = if unknown { longest.max(fallback) } else { longest };
            Facts { watched, longest, ..Facts::default() }
        };
        counts.into_iter().map(facts).collect()
    }

    /// Judges each member that may be late exactly, and moves the deadline of one that is not.
    fn count_silent(
        &self,
        late: Vec<(Seat, Option<BeatAt>)>,
        judge: &Judge,
        facts: &mut [Facts],
        (now, known): (Timestamp, Timestamp),
    ) -> Vec<Due> {
        let mut due = Vec::new();
        for (seat, beat) in late {
            let Some((chunk, at)) = self.slab.at(seat).filter(|(chunk, at)| chunk.is_watched(*at)) else {
                continue;
            };
            let record = chunk.record(at);
            let exact = self.deadline(&record, judge, now);
            let standing = exact.standing(known);
            if standing == Standing::Heard {
                chunk.put_off(at, self.slab.step(exact.late.as_millisecond()));
                continue;
            }
            // A zone that is newer than the list of names is judged by the next sweep.
            let Some(facts) = facts.get_mut(record.zone as usize) else { continue };
            facts.silent += 1;
            if standing == Standing::Due {
                facts.due += 1;
                facts.oldest = facts.oldest.into_iter().chain([exact.due]).min();
                let (zone, kind, claims, last) = (record.zone, record.kind, chunk.claims(at), record.last);
                due.push(Due { seat, claims, last, beat, at: exact.due, zone, kind });
            }
        }
        due
    }

    /// Picks from each zone as many as the ruling allows, the longest due first.
    fn pick(&self, mut due: Vec<Due>, release: BTreeMap<Zone, u32>) -> BTreeMap<u8, Vec<Due>> {
        due.sort_unstable_by_key(|due| (due.at, due.seat.index));
        let numbers = release.into_iter().map(|(zone, count)| (self.zones.number(zone.as_deref()), count));
        let mut left: BTreeMap<u32, u32> = numbers.collect();
        let mut picked: BTreeMap<u8, Vec<Due>> = BTreeMap::new();
        for due in due {
            if let Some(left) = left.get_mut(&due.zone).filter(|left| **left > 0) {
                *left -= 1;
                picked.entry(due.kind).or_default().push(due);
            }
        }
        picked
    }

    fn deadline(&self, record: &Record, judge: &Judge, now: Timestamp) -> Deadline {
        deadline(&heard(record, judge), &self.settings.policy, &judge.listening, now)
    }

    /// Whether a member that does not have to beat is silent. The same rules apply as for other members, so
    /// that time in which this server could not listen does not count.
    pub(crate) fn is_silent(&self, heard: Timestamp, interval: Option<Interval>) -> bool {
        let (last, now) = (millis(self.steady_of(heard)), self.clock.steady());
        let heard = Heard { last, interval };
        let due = deadline(&heard, &self.settings.policy, &self.judge_state().listening, now);
        due.standing(now) == Standing::Due
    }

    /// For tests: the server has always listened.
    #[cfg(test)]
    pub(crate) fn listened_always(&self) {
        self.judge_state().listening = Listening::default();
    }

    /// Returns the facts of a record's silence, on the steady axis.
    pub(super) fn silence(&self, record: &Record, judge: &Judge, now: Timestamp) -> Silence {
        let held = judge.fleet.held(&self.zones.name(record.zone), &self.settings.limits);
        Silence::of(&heard(record, judge), &self.settings.policy, &judge.listening, held, now)
    }
}

fn heard(record: &Record, judge: &Judge) -> Heard {
    Heard { last: millis(record.last).max(judge.counts_from), interval: record.interval }
}

//! Liveness against arbitrary outages: no false alarm, no member forgotten, no storm of incidents.

use std::{collections::BTreeMap, num::NonZeroU32};

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use wardroom_core::{
    Named,
    liveness::{
        Cause, Change, Deadline, Facts, Fleet, Guard, Heard, Interval, Limits, Listening, Period, Phase,
        Policy, Standing, Zone, deadline,
    },
};

/// Milliseconds on the time axis.
fn at(ms: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_millis(1_800_000_000_000 + ms)
}

fn ms(ms: i64) -> SignedDuration {
    SignedDuration::from_millis(ms)
}

/// A deaf period in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Deaf {
    cause: Cause,
    from: i64,
    to: i64,
}

impl Deaf {
    fn period(self) -> Period {
        Period { cause: self.cause, from: at(self.from), to: at(self.to) }
    }
}

/// What the server knows at an instant: what is over is recorded, what goes on is open.
fn listening(deaf: &[Deaf], now: i64) -> Listening {
    let mut record = Listening::default();
    for period in deaf {
        if period.to <= now {
            record.record(period.period());
        } else if period.from <= now {
            record.begin(period.cause, at(period.from));
        }
    }
    record
}

fn cause() -> impl Strategy<Value = Cause> {
    proptest::sample::select(Cause::ALL)
}

/// What keeps this server itself from hearing is no excuse with a bound.
fn ours(mut member: Healthy) -> Healthy {
    let ours = |deaf: &mut Deaf| {
        if deaf.cause == Cause::Replica {
            deaf.cause = Cause::Listener
        }
    };
    member.deaf.iter_mut().for_each(ours);
    member
}

/// Deaf periods within a span of time: long ones, blips, and chains in which each touches the next.
fn outages(span: i64, most: usize) -> impl Strategy<Value = Vec<Deaf>> {
    let length = prop_oneof![1..50_i64, 50..5_000_i64, 5_000..=(span / 4).max(5_001)];
    let one = (cause(), 0..span, length, 0..4_usize);
    prop::collection::vec(one, 0..most).prop_map(|outages| {
        let chain = |(cause, from, length, more): (Cause, i64, i64, usize)| {
            (0..=more as i64).map(move |n| Deaf {
                cause,
                from: from + n * length,
                to: from + (n + 1) * length,
            })
        };
        outages.into_iter().flat_map(chain).collect()
    })
}

/// More short periods than a record holds, hardly any of which touch.
fn blips(span: i64) -> impl Strategy<Value = Vec<Deaf>> {
    let one = (cause(), 0..span, 0..500_i64);
    let blip = |(cause, from, length)| Deaf { cause, from, to: from + length };
    prop::collection::vec(one.prop_map(blip), 0..200)
}

/// A member that is well: it beats on schedule with jitter, perhaps at twice the interval it states.
#[derive(Debug, Clone)]
struct Healthy {
    interval: u32,
    beats: Vec<i64>,
    /// Outages anywhere, and outages that swallow exactly one beat.
    deaf: Vec<Deaf>,
}

fn healthy() -> impl Strategy<Value = Healthy> {
    let jitters = prop::collection::vec(-100..=100_i64, 40);
    let member = (1..=600_u32, 1..=2_i64, jitters, 0..1_000_i64);
    let swallowed = prop::collection::vec((cause(), 0..40_usize, 0..200_i64, 0..200_i64), 0..40);
    (member, swallowed).prop_flat_map(|((interval, pace, jitters, phase), swallowed)| {
        let gap = i64::from(interval) * pace;
        let start = i64::from(interval) * phase;
        let beats: Vec<i64> = jitters
            .iter()
            .scan(start, |time, jitter| {
                let beat = *time;
                *time += gap * (1_000 + jitter);
                Some(beat)
            })
            .collect();
        let exact: Vec<Deaf> = swallowed
            .iter()
            .map(|&(cause, n, before, after)| Deaf { cause, from: beats[n] - before, to: beats[n] + after })
            .collect();
        outages(start + gap * 40_000, 12).prop_map(move |mut deaf| {
            deaf.extend(&exact);
            deaf.sort_by_key(|period| period.to);
            Healthy { interval, beats: beats.clone(), deaf }
        })
    })
}

proptest! {
    /// Deafness of the server does not count: a healthy member is not even late, at any instant.
    #[test]
    fn a_healthy_member_is_never_late(member in healthy().prop_map(ours), probes in prop::collection::vec(0.0..1.0, 20)) {
        let Healthy { interval, beats, deaf } = &member;
        let reached = |beat: &i64| !deaf.iter().any(|period| period.from <= *beat && *beat <= period.to);
        let heard: Vec<i64> = std::iter::once(beats[0]).chain(beats.iter().copied().filter(reached)).collect();
        let last = beats[beats.len() - 1];
        let span = (last - beats[0]) as f64;

        // The worst instants are those just before a beat is heard and at the ends of deaf periods.
        let ends = deaf.iter().flat_map(|period| [period.from, period.to]);
        let anywhere = probes.iter().map(|share| beats[0] + (span * share) as i64);
        let instants = beats.iter().copied().chain(ends).chain(anywhere);
        for now in instants.filter(|now| beats[0] < *now && *now <= last) {
            let before = heard.iter().copied().filter(|beat| *beat < now).max().unwrap();
            let facts = Heard { last: at(before), interval: Interval::from_seconds(*interval) };
            let deadline = deadline(&facts, &Policy::default(), &listening(deaf, now), at(now));
            prop_assert_eq!(deadline.standing(at(now)), Standing::Heard, "now {} heard {}", now, before);
        }
    }

    /// One server that is gone excuses a member in full that is not due when it begins. However many are
    /// gone, and how often, a dead member is due after its rule twice and twice the longest of these times.
    #[test]
    fn other_servers_excuse_once_in_full_and_never_for_ever(
        interval in prop::option::of(1..=3_600_u32),
        from in 0..1_000_000_i64,
        length in 0..500_000_i64,
        more in prop::collection::vec((0..10_000_000_i64, 0..10_000_i64), 0..300),
    ) {
        let (policy, interval) = (Policy::default(), interval.and_then(Interval::from_seconds));
        let heard = Heard { last: at(0), interval };
        let due = |deaf: &[Deaf]| deadline(&heard, &policy, &listening(deaf, i64::MAX), at(20_000_000)).due;
        let gone = |(from, length)| Deaf { cause: Cause::Replica, from, to: from + length };
        let one = gone((from, length));
        if at(from) <= due(&[]) {
            prop_assert_eq!(due(&[one]), due(&[Deaf { cause: Cause::Listener, ..one }]));
        }
        let all: Vec<_> = more.iter().copied().map(gone).collect();
        let longest = more.iter().map(|(_, length)| *length).max().unwrap_or(0);
        let rule = policy.allowance(interval).max(policy.grace(interval));
        prop_assert!(due(&all) <= at(0) + rule * 2 + ms(2 * longest));
        prop_assert!(due(&all) >= at(0) + policy.allowance(interval));
    }

    /// No member is forgotten: a dead one is due once the server listened for so long without a break.
    #[test]
    fn a_dead_member_is_due_within_the_bound(
        interval in prop::option::of(1..=3_600_u32),
        deaf in prop_oneof![outages(10_000_000, 20), blips(10_000_000)],
    ) {
        let heard = Heard { last: at(0), interval: interval.and_then(Interval::from_seconds) };
        let policy = Policy::default();
        let silence = deaf.iter().map(|period| period.to).max().unwrap_or(0).max(0);
        let now = at(silence) + policy.at_most(heard.interval) + ms(1);
        let deadline = deadline(&heard, &policy, &listening(&deaf, silence), now);
        prop_assert_eq!(deadline.standing(now), Standing::Due, "{:?}", deadline);
    }

    /// A later beat never shortens the allowance, and moves the deadline back only when it ends a grace.
    #[test]
    fn the_deadline_follows_the_last_beat(
        interval in prop::option::of(1..=3_600_u32),
        deaf in outages(1_000_000, 20),
        first in 0..1_000_000_i64,
        more in 0..1_000_000_i64,
    ) {
        let interval = interval.and_then(Interval::from_seconds);
        let record = listening(&deaf, i64::MAX);
        let policy = Policy::default();
        let due = |last| deadline(&Heard { last: at(last), interval }, &policy, &record, at(9_000_000)).due;
        let second = first + more;
        prop_assert!(due(second) >= at(second) + policy.allowance(interval));
        if !deaf.iter().any(|period| first < period.to && period.to <= second) {
            prop_assert!(due(first) <= due(second));
        }
    }

    /// More deafness never makes a member staler, and an open period no less than one that is over.
    #[test]
    fn the_deadline_only_grows_with_deaf_time(
        interval in prop::option::of(1..=3_600_u32),
        deaf in prop_oneof![outages(1_000_000, 20), blips(1_000_000)],
        extra in (cause(), 0..1_000_000_i64, 1..500_000_i64),
        last in 0..1_000_000_i64,
    ) {
        let heard = Heard { last: at(last), interval: interval.and_then(Interval::from_seconds) };
        let (cause, from, length) = extra;
        let now = at(3_000_000);
        let due = |record: &Listening| deadline(&heard, &Policy::default(), record, now).due;
        let without = listening(&deaf, i64::MAX);
        let mut with = without.clone();
        with.record(Period { cause, from: at(from), to: at(from + length) });
        prop_assert!(due(&with) >= due(&without));
        let mut open = without.clone();
        open.begin(cause, at(from));
        prop_assert!(due(&open) >= due(&without));
    }

    /// A record that merged what it could not hold gives at least the credit of one that holds everything.
    #[test]
    fn forgetting_never_makes_anyone_staler(
        deaf in prop_oneof![outages(5_000_000, 20), blips(5_000_000)],
        interval in prop::option::of(1..=3_600_u32),
        last in 0..5_000_000_i64,
    ) {
        let record = listening(&deaf, i64::MAX);
        prop_assert!(record.periods().len() <= 64);
        prop_assert!(record.periods().windows(2).all(|pair| pair[0].to < pair[1].from));

        let now = 10_000_000;
        let credit = record.deaf_between(at(last), at(now));
        prop_assert!(credit >= ms(deaf_ms(&deaf, last, now)));
        if deaf.len() <= 64 {
            prop_assert_eq!(credit, ms(deaf_ms(&deaf, last, now)));
        }
        let heard = Heard { last: at(last), interval: interval.and_then(Interval::from_seconds) };
        let due = deadline(&heard, &Policy::default(), &record, at(now)).due;
        for period in &deaf {
            let mut alone = Listening::default();
            alone.record(period.period());
            prop_assert!(due >= deadline(&heard, &Policy::default(), &alone, at(now)).due);
        }
    }
}

/// The reference: sort, walk, count what was not counted yet.
fn deaf_ms(deaf: &[Deaf], from: i64, to: i64) -> i64 {
    let mut periods: Vec<_> = deaf.iter().map(|period| (period.from, period.to)).collect();
    periods.sort_unstable();
    let mut counted = from;
    let mut total = 0;
    for (begin, end) in periods {
        let (begin, end) = (begin.max(counted), end.min(to));
        total += (end - begin).max(0);
        counted = counted.max(end);
    }
    total
}

/// A fleet in which members fall silent and return; what the guards release is stale until it returns.
struct World {
    members: Vec<Member>,
    fleet: Fleet,
    limits: Limits,
    open: BTreeMap<Zone, u32>,
    /// When and how many, fleet-wide and by zone.
    released: Vec<(i64, Zone, u32)>,
    raised: usize,
}

#[derive(Debug, Clone)]
struct Member {
    zone: Zone,
    heard: Option<i64>,
    stale: bool,
}

const INTERVAL: i64 = 30;

impl Member {
    fn deadline(&self, now: i64) -> Deadline {
        let heard = Heard {
            last: at(self.heard.unwrap_or(now) * 1_000),
            interval: Interval::from_seconds(INTERVAL as u32),
        };
        deadline(&heard, &Policy::default(), &Listening::default(), at(now * 1_000))
    }

    /// Seconds since it fell due; nothing while it is not.
    fn overdue(&self, now: i64) -> Option<i64> {
        self.heard.map(|heard| now - heard - 3 * INTERVAL).filter(|late| *late > 0 && !self.stale)
    }
}

impl World {
    fn new(zones: &[usize], limits: Limits) -> Self {
        // The first zone is the members without a label.
        let zone = |index: usize| (index > 0).then(|| format!("zone-{index}"));
        let members = zones.iter().enumerate().flat_map(|(index, size)| {
            std::iter::repeat_n(Member { zone: zone(index), heard: None, stale: false }, *size)
        });
        Self {
            members: members.collect(),
            fleet: Fleet::default(),
            limits,
            open: BTreeMap::new(),
            released: Vec::new(),
            raised: 0,
        }
    }

    fn silence(&mut self, index: usize, heard: i64) {
        let member = &mut self.members[index];
        if !member.stale && member.heard.is_none() {
            member.heard = Some(heard);
        }
    }

    fn revive(&mut self, index: usize) {
        self.members[index].heard = None;
        self.members[index].stale = false;
    }

    fn guards(&self) -> impl Iterator<Item = (Zone, &Guard)> {
        let zones = self.fleet.zones().iter().map(|(label, guard)| (Some(label.clone()), guard));
        std::iter::once((None, self.fleet.whole())).chain(zones)
    }

    fn sweep(&mut self, now: i64) -> Result<(), TestCaseError> {
        let mut facts: BTreeMap<Zone, Facts> = BTreeMap::new();
        for member in self.members.iter().filter(|member| !member.stale) {
            let zone = facts.entry(member.zone.clone()).or_default();
            zone.count(&member.deadline(now), SignedDuration::from_secs(INTERVAL), at(now * 1_000));
        }
        let ruling = self.fleet.rule(&facts, &self.limits, at(now * 1_000));
        for (zone, count) in &ruling.release {
            self.go_stale(zone, *count, now)?;
        }
        for incident in &ruling.incidents {
            let open = self.open.entry(incident.zone.clone()).or_default();
            match incident.change {
                Change::Raise => {
                    prop_assert_eq!(*open, 0, "raised twice: {:?}", incident);
                    self.raised += 1;
                    *open = 1;
                }
                Change::Close => {
                    prop_assert_eq!(*open, 1, "closed what was not open: {:?}", incident);
                    *open = 0;
                }
            }
        }
        self.check_incidents()?;
        self.check_rate(now)
    }

    fn go_stale(&mut self, zone: &Zone, count: u32, now: i64) -> Result<(), TestCaseError> {
        let mut due: Vec<_> =
            self.members.iter_mut().filter(|m| m.zone == *zone && m.overdue(now).is_some()).collect();
        due.sort_by_key(|member| member.heard);
        prop_assert!(count as usize <= due.len(), "released {} of {}", count, due.len());
        for member in due.into_iter().take(count as usize) {
            member.stale = true;
        }
        self.released.push((now, zone.clone(), count));
        Ok(())
    }

    /// What is held has one incident: that of the whole, or else one for each zone; small ones are never held.
    fn check_incidents(&self) -> Result<(), TestCaseError> {
        let open = |zone: &Zone| self.open.get(zone).is_some_and(|open| *open == 1);
        let zones_open = self.open.keys().filter(|zone| zone.is_some() && open(zone)).count();
        let whole_open = open(&None);
        prop_assert!(!whole_open || zones_open == 0, "{:?}", self.open);
        for (zone, guard) in self.guards() {
            let active = guard.phase() != Phase::Watching;
            match zone {
                None if active => prop_assert!(whole_open || zones_open > 0),
                None => prop_assert!(!whole_open),
                Some(_) => prop_assert_eq!(open(&zone), active && !whole_open, "{:?}", zone),
            }
            let size = self.members.iter().filter(|m| zone.is_none() || m.zone == zone).count();
            prop_assert!(!active || size >= 10, "{:?} of {} is held", zone, size);
        }
        Ok(())
    }

    /// A guard that releases has let go no more than its rate allows, counted from any moment of the release.
    fn check_rate(&self, now: i64) -> Result<(), TestCaseError> {
        for (zone, guard) in self.guards().filter(|(_, guard)| guard.phase() == Phase::Releasing) {
            let begin = guard.since().duration_since(at(0)).as_secs();
            let mine = |entry: &&(i64, Zone, u32)| entry.0 >= begin && (zone.is_none() || entry.1 == zone);
            let mut sum = 0;
            for (time, _, count) in self.released.iter().rev().filter(mine) {
                sum += i64::from(*count);
                // A late sweep may make up for ten seconds, but for none before the release began.
                let room = (now - begin).min(now - time + 10);
                prop_assert!(sum <= room * i64::from(self.limits.rate.get()), "{} since {}", sum, time);
            }
        }
        Ok(())
    }

    /// No member waits for longer than the bound and for those that were released meanwhile.
    fn check_bound(&self, now: i64) -> Result<(), TestCaseError> {
        let hold = self.limits.hold.as_secs();
        for overdue in self.members.iter().filter_map(|member| member.overdue(now)) {
            let since = now - overdue + hold;
            let ahead: u32 =
                self.released.iter().filter(|(time, ..)| *time >= since).map(|entry| entry.2).sum();
            let bound = hold + i64::from(ahead / self.limits.rate.get()) + 2 * SWEEP;
            prop_assert!(overdue <= bound, "overdue {} s, {} released meanwhile", overdue, ahead);
        }
        Ok(())
    }
}

/// The longest time between two sweeps, in seconds.
const SWEEP: i64 = 10;

/// Something happens to a share of a zone's members.
#[derive(Debug, Clone)]
struct Happening {
    wait: i64,
    zone: usize,
    share: f64,
    returns: bool,
}

fn happening() -> impl Strategy<Value = Happening> {
    (prop_oneof![0..20_i64, 20..900_i64], 0..5_usize, 0.0..=1.0, any::<bool>())
        .prop_map(|(wait, zone, share, returns)| Happening { wait, zone, share, returns })
}

fn limits() -> impl Strategy<Value = Limits> {
    (0..20_u32).prop_map(|more| Limits { rate: NonZeroU32::MIN.saturating_add(more), ..Limits::default() })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever falls silent and returns: one incident per episode, the rate is kept, the bound holds, and in
    /// the end exactly the dead are stale and every guard only watches.
    #[test]
    fn guards_hold_for_a_while_and_forget_no_member(
        sizes in prop::collection::vec(0..30_usize, 1..5),
        limits in limits(),
        happenings in prop::collection::vec(happening(), 1..12),
        steps in prop::collection::vec(1..=SWEEP, 64),
    ) {
        let mut world = World::new(&sizes, limits);
        let mut steps = steps.iter().copied().cycle();
        let mut now = 0;
        let last = Happening { wait: 0, zone: usize::MAX, share: 0.0, returns: false };
        for happening in happenings.iter().chain([&last]) {
            let zone = (happening.zone > 0).then(|| format!("zone-{}", happening.zone));
            let everyone: Vec<_> = (0..world.members.len()).filter(|n| world.members[*n].zone == zone).collect();
            let some = (everyone.len() as f64 * happening.share).ceil() as usize;
            for (n, index) in everyone.into_iter().take(some).enumerate() {
                if happening.returns { world.revive(index) } else { world.silence(index, now - n as i64 % INTERVAL) }
            }
            let quiet = if happening.zone == usize::MAX { 2_000 } else { happening.wait };
            let until = now + quiet;
            while now < until {
                now += steps.next().unwrap();
                world.sweep(now)?;
                world.check_bound(now)?;
            }
        }
        for member in &world.members {
            prop_assert_eq!(member.stale, member.heard.is_some(), "{:?}", member);
        }
        prop_assert!(world.guards().all(|(_, guard)| guard.phase() == Phase::Watching));
        prop_assert!(world.open.values().all(|open| *open == 0));
    }

    /// A lost site is one incident; no more than half of it goes stale before the hold, all of it after.
    #[test]
    fn a_lost_site_goes_stale_a_little_later_with_one_incident(
        phases in prop::collection::vec(0..INTERVAL, 10..40),
        others in 0..40_usize,
    ) {
        let mut world = World::new(&[others, phases.len()], Limits::default());
        for (n, phase) in phases.iter().enumerate() {
            world.silence(others + n, -phase);
        }
        let stale = |world: &World| world.members.iter().filter(|member| member.stale).count();
        for now in 1..600 {
            world.sweep(now)?;
            prop_assert!(stale(&world) * 2 <= phases.len(), "{} stale after {} s", stale(&world), now);
        }
        prop_assert_eq!(world.raised, 1);
        for now in 600..=3 * INTERVAL + 600 + 2 {
            world.sweep(now)?;
        }
        prop_assert_eq!(stale(&world), phases.len());
    }

    /// A lost fleet is one incident, not one for each of its sites.
    #[test]
    fn a_lost_fleet_is_one_incident(phases in prop::collection::vec(0..INTERVAL, 100)) {
        let mut world = World::new(&[0, 20, 20, 20, 20, 20], Limits::default());
        for (index, phase) in phases.iter().enumerate() {
            world.silence(index, -phase);
        }
        for now in 1..=3 * INTERVAL + 600 + 2 {
            world.sweep(now)?;
        }
        prop_assert_eq!(world.raised, 1);
        prop_assert!(world.members.iter().all(|member| member.stale));
    }
}

//! Fleet: a guard for every zone and one for the whole, and the ruling that follows from both.
//!
//! What must stay true: of the two guards over a member the stricter one wins; the rate of the whole is
//! shared among the zones, the one with the longest due member first; and an event is one incident: the
//! zone's if the rest of the fleet is healthy, otherwise one for the whole fleet.
//!
//! The bound: a member that stays dead is stale at the latest [`Limits::hold`] after its deadline, plus the
//! time that [`Limits::rate`] takes for those released before it, plus two sweeps.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{
    guard::{Facts, Guard, Limits, Phase, Release},
    why::Held,
};

/// A zone's label; nothing for members without one, which only the guard of the whole watches.
pub type Zone = Option<String>;

/// The guards of a fleet; stored between sweeps.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Fleet {
    whole: Guard,
    /// Only zones in which something is going on.
    zones: BTreeMap<String, Guard>,
}

/// The marks that a sweep may make, and the incidents to report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ruling {
    /// How many members of a zone go stale now, the longest due first; zones in which none does are left out.
    /// The guards count them as gone.
    pub release: BTreeMap<Zone, u32>,
    /// Incidents that begin and end.
    pub incidents: Vec<Incident>,
}

/// Something to tell people once, not once per member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incident {
    /// The zone, or nothing for the fleet as a whole.
    pub zone: Zone,
    /// Whether it begins or ends.
    pub change: Change,
    /// The event, in a sentence.
    pub why: String,
}

/// The change of an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The first member is held.
    Raise,
    /// The members came back or are stale, or the incident of the whole covers it.
    Close,
}

impl Fleet {
    /// Takes the facts that a sweep counted in every zone and returns which members may go stale.
    pub fn rule(&mut self, facts: &BTreeMap<Zone, Facts>, limits: &Limits, now: Timestamp) -> Ruling {
        let whole = facts.values().copied().fold(Facts::default(), Facts::and);
        let mut room = self.whole.rule(whole, limits, now);
        let mut ruling = Ruling::default();
        let mut total = 0_u32;

        for (zone, facts) in self.longest_due_first(facts) {
            let count = self.release(&zone, facts, room, limits, now);
            room = room.less(count);
            total = total.saturating_add(count);
            if count > 0 {
                ruling.release.insert(zone, count);
            }
        }
        self.whole.released(total, limits, now);

        ruling.incidents = self.incidents(limits);
        self.zones.retain(|_, guard| !guard.is_idle());
        ruling
    }

    /// The guard that keeps due members of a zone from going stale, the stricter of two, if any does.
    #[must_use]
    pub fn held(&self, zone: &Zone, limits: &Limits) -> Option<Held> {
        let own = zone.as_ref().and_then(|label| self.zones.get(label));
        let own = own.and_then(|guard| Held::by(guard, zone.clone(), limits));
        let whole = Held::by(&self.whole, None, limits);
        whole.into_iter().chain(own).min_by_key(|held| held.phase)
    }

    /// The guard of the fleet as a whole.
    #[must_use]
    pub fn whole(&self) -> &Guard {
        &self.whole
    }

    /// The guards of the zones in which something is going on.
    #[must_use]
    pub fn zones(&self) -> &BTreeMap<String, Guard> {
        &self.zones
    }

    fn release(&mut self, zone: &Zone, facts: Facts, room: Release, limits: &Limits, now: Timestamp) -> u32 {
        let Some(label) = zone else { return room.of(facts.due) };
        let guard = self.zones.entry(label.clone()).or_default();
        let count = guard.rule(facts, limits, now).min(room).of(facts.due);
        guard.released(count, limits, now);
        count
    }

    /// Every zone with facts, and those we guard that have no members any more.
    fn longest_due_first(&self, facts: &BTreeMap<Zone, Facts>) -> Vec<(Zone, Facts)> {
        let empty = self.zones.keys().cloned().map(|label| (Some(label), Facts::default()));
        let mut zones: BTreeMap<Zone, Facts> = empty.collect();
        zones.extend(facts.iter().map(|(zone, facts)| (zone.clone(), *facts)));
        let mut order: Vec<_> = zones.into_iter().collect();
        order.sort_by_key(|(_, facts)| facts.oldest.unwrap_or(Timestamp::MAX));
        order
    }

    fn incidents(&mut self, limits: &Limits) -> Vec<Incident> {
        let covered = self.whole.phase() != Phase::Watching
            && (self.whole.incident || !self.zones.values().any(|guard| self.is_the_cause(guard)));
        let zones = self.zones.iter_mut().map(|(label, guard)| (Some(label.clone()), guard));
        let guards = std::iter::once((None, &mut self.whole)).chain(zones);
        let change = |(zone, guard): (Zone, &mut Guard)| {
            let wanted = if zone.is_none() { covered } else { !covered && guard.phase() != Phase::Watching };
            let change = match (guard.incident, wanted) {
                (false, true) => Change::Raise,
                (true, false) => Change::Close,
                (false, false) | (true, true) => return None,
            };
            guard.incident = wanted;
            Some(Incident { why: sentence(guard, &zone, limits), zone, change })
        };
        guards.filter_map(change).collect()
    }

    /// Whether a zone is held and the rest of the fleet is healthy: then the zone's incident is more
    /// specific.
    fn is_the_cause(&self, zone: &Guard) -> bool {
        let (whole, zone_facts) = (self.whole.facts(), zone.facts());
        let silent = whole.silent.saturating_sub(zone_facts.silent);
        let watched = whole.watched.saturating_sub(zone_facts.watched);
        zone.phase() != Phase::Watching && u64::from(silent) * 2 <= u64::from(watched)
    }
}

fn sentence(guard: &Guard, zone: &Zone, limits: &Limits) -> String {
    match Held::by(guard, zone.clone(), limits) {
        Some(held) if guard.incident => held.to_string(),
        Some(_) => "The incident of the fleet as a whole covers this zone.".to_owned(),
        None => over(guard),
    }
}

/// Returns the text of an incident's end. Stale members are not watched any more, so they are not counted:
/// the text must not say that they came back.
fn over(guard: &Guard) -> String {
    let Facts { watched, silent, due, .. } = *guard.facts();
    let gone = match guard.gone {
        0 => None,
        1 => Some("1 member went stale".to_owned()),
        many => Some(format!("{many} members went stale")),
    };
    match (gone, watched) {
        (None, 0) => "It is over: none of its members is watched any more.".to_owned(),
        (None, _) => format!("It is over: {silent} of {watched} members are silent, {due} of them due."),
        (Some(gone), 0) => format!("It is over: {gone}, and no other one is watched."),
        (Some(gone), _) => {
            format!("It is over: {gone}; {silent} of {watched} other members are silent, {due} of them due.")
        }
    }
}

//! What needs a person: one line for each cause, the longest overdue first.
//!
//! A member's explanation says it; no kind has rules of its own here. Members that fell silent together are their incident.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::{
    Named as _,
    action::Action,
    names::names,
    tone::Tone,
    why::{Brief, Next, Why, brief},
};

names! {
    /// How urgent it is.
    pub enum Urgency {
        /// It stands still, and only a person can help.
        Stuck = "stuck",
        /// It is silent or not as it should be, and may come back by itself.
        Silent = "silent",
        /// It waits for a decision.
        Person = "person",
        /// Its patience is about to run out.
        Soon = "soon",
    }
}

impl Urgency {
    /// The tone in which it is shown.
    #[must_use]
    pub const fn tone(self) -> Tone {
        match self {
            Self::Stuck => Tone::Bad,
            Self::Silent => Tone::Warn,
            Self::Person => Tone::Wait,
            Self::Soon => Tone::Work,
        }
    }
}

/// A member, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its kind.
    pub kind: String,
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Its state.
    pub state: String,
    /// The tone of its state.
    pub tone: Tone,
    /// Since when it is in this state.
    pub since: Timestamp,
    /// Its zone, where the guard watches zones.
    pub zone: Option<String>,
}

/// A member that needs a person, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// The member; the one that has needed it for longest if there are several.
    pub member: Member,
    /// How urgent it is.
    pub urgency: Urgency,
    /// When its patience ran out.
    pub overdue_since: Option<Timestamp>,
    /// The cause.
    pub why: String,
    /// What a person can do about it now; nothing where no action is advised.
    pub next: Option<Action>,
    /// How many members have this cause.
    pub count: usize,
}

/// Returns whether a member needs a person, from its explanation.
#[must_use]
pub fn need(member: Member, explained: &[Why], now: Timestamp) -> Option<Need> {
    let first = explained.first()?;
    let overdue_since = explained.iter().filter(|why| why.overdue).filter_map(|why| why.patience_ends).min();
    let is_blocked = explained.iter().any(|why| !why.blockers.is_empty());
    let asks = matches!(first.next, Next::Call(_) | Next::Mend { .. });
    let urgency = if overdue_since.is_some() || (is_blocked && asks) {
        Urgency::Stuck
    } else if member.tone == Tone::Warn {
        Urgency::Silent
    } else if asks && member.tone != Tone::Held {
        Urgency::Person
    } else if is_soon(first, now) {
        Urgency::Soon
    } else {
        return None;
    };
    let brief = brief(&member.name, explained, now)?;
    let next = brief.next.action.clone().filter(|action| action.possible);
    Some(Need { member, urgency, overdue_since, why: cause(urgency, brief), next, count: 1 })
}

/// Whether less than a tenth of its patience is left.
fn is_soon(why: &Why, now: Timestamp) -> bool {
    let (Some(since), Some(end)) = (why.since, why.patience_ends) else { return false };
    let (left, all) = (end.duration_since(now), end.duration_since(since));
    left > SignedDuration::ZERO && left * 10 < all
}

/// The most specific cause: evidence of the work on a member says more than its state.
fn cause(urgency: Urgency, brief: Brief) -> String {
    match (brief.blockers.last(), urgency) {
        (Some(blocker), _) => blocker.clone(),
        (None, Urgency::Person) => match &brief.next.action {
            Some(action) if action.precondition.is_none() => {
                format!("waits until a person {}", brief.next.what)
            }
            Some(_) | None => brief.next.what,
        },
        (None, Urgency::Stuck | Urgency::Silent | Urgency::Soon) => brief.meaning,
    }
}

/// Puts needs into one list: one line for each cause, the longest overdue first. Silent members of a zone with an open
/// incident are that incident; `None` is the fleet as a whole.
#[must_use]
pub fn merged(needs: Vec<Need>, incidents: &[Option<String>]) -> Vec<Need> {
    let is_covered = |need: &Need| {
        let covers = |zone: &Option<String>| zone.is_none() || *zone == need.member.zone;
        need.urgency == Urgency::Silent && incidents.iter().any(covers)
    };
    let mut causes: BTreeMap<(String, String, String), Need> = BTreeMap::new();
    for need in needs.into_iter().filter(|need| !is_covered(need)) {
        let key = (need.member.kind.clone(), need.member.state.clone(), need.why.clone());
        match causes.remove(&key) {
            Some(known) => {
                let count = known.count + need.count;
                let first = if order(&known) <= order(&need) { known } else { need };
                causes.insert(key, Need { count, ..first });
            }
            None => {
                causes.insert(key, need);
            }
        }
    }
    let mut all: Vec<_> = causes.into_values().collect();
    all.sort_by(|one, other| order(one).cmp(&order(other)));
    all
}

/// The longest overdue first, then by urgency, then by age.
fn order(need: &Need) -> (bool, Timestamp, usize, Timestamp, &str) {
    let at = Urgency::ALL.iter().position(|urgency| *urgency == need.urgency).unwrap_or_default();
    let overdue = need.overdue_since.unwrap_or(Timestamp::MAX);
    (need.overdue_since.is_none(), overdue, at, need.member.since, &need.member.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        node::{State, TABLE},
        tone::Toned as _,
        why::{Blocker, Stay, explain},
    };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn member(name: &str, state: State, since: i64) -> Member {
        Member {
            kind: "node".to_owned(),
            id: name.to_owned(),
            name: name.to_owned(),
            state: state.to_string(),
            tone: state.tone(),
            since: at(since),
            zone: None,
        }
    }

    fn check(state: State, patience: Option<i64>, blockers: &[&str], expected: Option<(Urgency, &str)>) {
        let stay =
            Stay { since: at(0), counted_from: at(0), patience: patience.map(SignedDuration::from_secs) };
        let blockers = blockers.iter().map(|what| Blocker { what: (*what).to_owned().into(), fix: None });
        let why = explain(TABLE, "n1", state, stay, at(1000), blockers.collect());
        let need = need(member("n1", state, 0), &[why], at(1000));
        let told = need.as_ref().map(|need| (need.urgency, &*need.why));
        let next = need.as_ref().and_then(|need| need.next.as_ref()).map(|action| action.action);
        // No call clears what is in the way of an installation here.
        assert_eq!(next, (state == State::Discovered).then_some("approve"), "{state}");
        assert_eq!(told, expected, "{state}");
    }

    #[test]
    fn a_member_needs_a_person_when_its_explanation_says_so() {
        check(State::Active, None, &[], None);
        check(State::Retired, None, &[], None);
        check(
            State::Discovered,
            None,
            &[],
            Some((Urgency::Person, "waits until a person approves the node")),
        );
        check(State::Installing, Some(5000), &[], None);
        check(
            State::InstallFailed,
            None,
            &["the mirror answers 503"],
            Some((Urgency::Stuck, "the mirror answers 503")),
        );
    }

    #[test]
    fn patience_that_ran_out_or_is_about_to_is_told() {
        let urgency = |patience: i64| {
            let stay = Stay {
                since: at(0),
                counted_from: at(0),
                patience: Some(SignedDuration::from_secs(patience)),
            };
            let why = explain(TABLE, "n1", State::Installing, stay, at(1000), Vec::new());
            need(member("n1", State::Installing, 0), &[why], at(1000))
                .map(|need| (need.urgency, need.overdue_since))
        };
        assert_eq!(urgency(900), Some((Urgency::Stuck, Some(at(900)))));
        assert_eq!(urgency(1050), Some((Urgency::Soon, None)));
        assert_eq!(urgency(1200), None);
    }

    fn told(name: &str, urgency: Urgency, why: &str, overdue: Option<i64>, zone: Option<&str>) -> Need {
        let member = Member { zone: zone.map(str::to_owned), ..member(name, State::Installing, 5) };
        Need { member, urgency, overdue_since: overdue.map(at), why: why.to_owned(), next: None, count: 1 }
    }

    #[test]
    fn one_line_for_each_cause_and_the_longest_overdue_first() {
        let needs = vec![
            told("a", Urgency::Person, "waits", None, None),
            told("b", Urgency::Stuck, "503", Some(20), None),
            told("c", Urgency::Stuck, "no disk", None, None),
            told("d", Urgency::Stuck, "503", Some(10), None),
            told("e", Urgency::Stuck, "no power", Some(15), None),
        ];
        let merged = merged(needs, &[]);
        let names: Vec<_> = merged.iter().map(|need| (&*need.member.name, need.count)).collect();
        assert_eq!(names, [("d", 2), ("e", 1), ("c", 1), ("a", 1)]);
    }

    #[test]
    fn silent_members_are_their_incident() {
        let silent = |zone| told("a", Urgency::Silent, "is silent", None, Some(zone));
        let count = |incidents: &[Option<String>]| {
            let needs =
                vec![silent("berlin"), silent("bonn"), told("b", Urgency::Stuck, "x", None, Some("berlin"))];
            merged(needs, incidents).iter().map(|need| need.count).sum::<usize>()
        };
        assert_eq!(count(&[]), 3);
        assert_eq!(count(&[Some("berlin".to_owned())]), 2);
        assert_eq!(count(&[None]), 1);
    }
}

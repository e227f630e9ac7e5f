//! Why: explains a member's silence.

use std::fmt::{Display, Formatter, Result};

use jiff::{SignedDuration, Timestamp};

use super::{
    Deadline, Heard, Interval, Listening, Policy, Standing, deadline,
    fleet::Zone,
    guard::{Guard, Limits, Phase},
    later, missed_beats,
};

/// The facts about a member's silence.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Silence {
    /// Its judgement.
    pub standing: Standing,
    /// When the member was last heard.
    pub heard: Timestamp,
    /// The interval in force, if there ever was one.
    pub interval: Option<Interval>,
    /// Beats missed while we listened; nothing without an interval.
    pub missed: Option<u32>,
    /// Beats that may be missed; nothing without an interval.
    pub allowed: Option<u32>,
    /// When it falls due, or fell due.
    pub due: Timestamp,
    /// Deaf time it is not charged for.
    pub credit: SignedDuration,
    /// Whether it counts as heard only because the server did not listen for a while.
    pub spared: bool,
    /// When it falls due at the latest, however often other servers are gone; nothing when none was.
    pub bound: Option<Timestamp>,
    /// The guard that keeps it from going stale.
    pub held: Option<Held>,
}

impl Silence {
    /// Returns the facts of a member's silence at a moment; `held` is the result of [`super::Fleet::held`]
    /// for its zone.
    #[must_use]
    pub fn of(
        heard: &Heard,
        policy: &Policy,
        listening: &Listening,
        held: Option<Held>,
        now: Timestamp,
    ) -> Self {
        let deadline @ Deadline { due, credit, bound, .. } = deadline(heard, policy, listening, now);
        let standing = deadline.standing(now);
        let gap = policy.grace(heard.interval).min(policy.allowance(heard.interval));
        let late = later(heard.last, gap);
        let held = held.filter(|_| standing == Standing::Due);
        Self {
            standing: if held.is_some() { Standing::Suspected } else { standing },
            heard: heard.last,
            interval: heard.interval,
            missed: missed_beats(heard, listening, now),
            allowed: heard.interval.map(|interval| policy.allowed_beats(interval)),
            due,
            credit,
            spared: standing == Standing::Heard && now > late,
            bound,
            held,
        }
    }
}

impl Display for Silence {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "Last heard {}", whole(self.heard))?;
        match (self.interval, self.missed, self.allowed) {
            (Some(interval), Some(missed), Some(allowed)) => {
                let (beats, are) =
                    (if missed == 1 { "beat" } else { "beats" }, if allowed == 1 { "is" } else { "are" });
                write!(f, "; it has missed {missed} {beats} ({interval}), and {allowed} {are} too many")?;
            }
            (None | Some(_), None | Some(_), None | Some(_)) => {
                write!(f, "; it never reported its interval")?
            }
        }
        let due = whole(self.due);
        match self.standing {
            Standing::Heard | Standing::Late => write!(f, "; it counts as silent from {due} on")?,
            Standing::Suspected | Standing::Due => write!(f, "; it has counted as silent since {due}")?,
        }
        if self.credit > SignedDuration::ZERO {
            let article = if self.bound.is_some() { "a" } else { "the" };
            let credit = SignedDuration::from_secs(self.credit.as_secs());
            write!(f, ", with {credit:#} added in which {article} server did not listen")?;
        }
        f.write_str(".")?;
        match self.bound.filter(|_| matches!(self.standing, Standing::Heard | Standing::Late)) {
            Some(bound) => write!(
                f,
                " Another server stopped with heartbeats that it may not have stored, or refused \
                 heartbeats: the member has until then to reach another server, and until {} at the \
                 latest, however often that happens.",
                whole(bound)
            )?,
            None if self.spared => {
                f.write_str(" The server did not listen for a while; the member has until then to return.")?;
            }
            None => {}
        }
        self.held.as_ref().map_or(Ok(()), |held| write!(f, " {held}"))
    }
}

/// A guard that keeps members from going stale.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Held {
    /// The zone, or nothing for the fleet as a whole.
    pub zone: Zone,
    /// Holding or releasing.
    pub phase: Phase,
    /// Since when.
    pub since: Timestamp,
    /// When holding ends at the latest.
    pub until: Timestamp,
    /// Members that are silent.
    pub silent: u32,
    /// How many members the incident covers.
    pub watched: u32,
}

impl Held {
    /// The hold of a guard; none while it only watches.
    #[must_use]
    pub fn by(guard: &Guard, zone: Zone, limits: &Limits) -> Option<Self> {
        let facts = guard.facts();
        (guard.phase() != Phase::Watching).then(|| Self {
            zone,
            phase: guard.phase(),
            since: guard.since(),
            until: later(guard.since().min(facts.oldest.unwrap_or(guard.since())), limits.hold),
            silent: facts.silent,
            watched: facts.watched,
        })
    }
}

impl Display for Held {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { silent, watched, .. } = self;
        let (since, until) = (whole(self.since), whole(self.until));
        match &self.zone {
            Some(zone) => write!(f, "{silent} of {watched} members of zone {zone:?} are silent together")?,
            None => write!(f, "{silent} of {watched} members of the fleet are silent together")?,
        }
        match self.phase {
            Phase::Watching => f.write_str("."),
            Phase::Holding => {
                write!(
                    f,
                    ": suspected since {since}, and held until they return or until {until} at the latest."
                )
            }
            Phase::Releasing => {
                write!(f, ": the hold ended {since}, and they go stale at a limited rate.")
            }
        }
    }
}

/// Cuts a time to the second, which is precise enough to read.
fn whole(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

//! The re-check: when the adapters of a cluster are told of it again although it did not change.
//!
//! A cluster that is not reconciled is looked at soon, one that is reconciled seldom: what was applied may
//! have drifted. Time counts from the oldest observation that `Reconciled` rests on, or from the last time the
//! adapters were told, so that one silent adapter does not make the others work all the time.

use jiff::{SignedDuration, Timestamp};

use super::{Condition, RECONCILED, Status};

/// How long a cluster is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recheck {
    /// While it is not reconciled.
    pub unreconciled: SignedDuration,
    /// While it is reconciled.
    pub reconciled: SignedDuration,
}

impl Recheck {
    /// Returns the moment after which the adapters are told of a cluster again; `told` is when they were told
    /// last. A generation that was never added up is due at once.
    #[must_use]
    pub fn due(&self, generation: i64, conditions: &[Condition], told: Option<Timestamp>) -> Timestamp {
        let reconciled = conditions.iter().find(|condition| condition.type_ == RECONCILED);
        let current = reconciled.filter(|condition| condition.observed_generation >= generation);
        let pause = match current.map(|condition| condition.status) {
            Some(Status::True) => self.reconciled,
            Some(Status::False | Status::Unknown) | None => self.unreconciled,
        };
        let observed = current.map(|condition| condition.last_updated_time);
        let since = observed.into_iter().chain(told).max();
        // A pause past the end of time is one that never ends.
        since.map_or(Timestamp::MIN, |since| since.checked_add(pause).unwrap_or(Timestamp::MAX))
    }
}

//! Drift: compares the state of a machine in MAAS with the state of its node.
//!
//! | node                                | verdict                                                     |
//! |-------------------------------------|-------------------------------------------------------------|
//! | active, offline                     | quarantined                                                 |
//! | quarantined, retired                | there is no such move: recorded, and a person is asked      |
//! | any, with a run in failed_retryable | the run is frozen until a person has looked                 |
//! | any, with another open run          | nothing: the stages of the run look for themselves          |
//!
//! A node that was quarantined for drift and for nothing else recovers by itself once MAAS says again what it should and a
//! healthy heartbeat has come since. A node that a person quarantined, or whose cleanup failed, does not.

use super::{
    Event, State,
    facts::{Drift, Facts, Sight},
    maas::{Work, fits},
    mapping, moves, proof,
};
use crate::run;

/// The consequence of MAAS's answer about a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Nothing,
    /// The node moves to where it is not used.
    Quarantine(State),
    /// The drift is recorded, and a person is asked.
    Ask,
    /// The run is frozen until a person has looked.
    Freeze,
    /// The drift on record is over.
    Forget,
    /// The node was quarantined for this alone, and is proven healthy.
    Recover(State),
}

impl Verdict {
    /// Whether a machine that MAAS does not have is missed.
    #[must_use]
    pub const fn misses(self) -> bool {
        matches!(self, Self::Quarantine(_) | Self::Ask | Self::Freeze)
    }
}

/// Judges a node by what MAAS says of its machine now.
#[must_use]
pub fn verdict(facts: &Facts, sight: &Sight) -> Verdict {
    // An earlier machine of the node does not count.
    if facts.state == State::Deleted || !sight.own {
        return Verdict::Nothing;
    }
    if let Some(run) = facts.open_run() {
        let waits = run.state == run::State::FailedRetryable;
        let fits = fits(facts.state, sight.observed, Work::Run);
        return if waits && !fits { Verdict::Freeze } else { Verdict::Nothing };
    }
    let to = |event| {
        let to = moves::target(facts.state, event)?;
        mapping::check(to, facts.current()).is_ok().then_some(to)
    };
    if !fits(facts.state, sight.observed, Work::Nobody) {
        let known = facts.drift.as_ref().is_some_and(|drift| drift.said == sight.said);
        return match to(Event::DriftFound) {
            Some(to) => Verdict::Quarantine(to),
            None if known => Verdict::Nothing,
            None => Verdict::Ask,
        };
    }
    let Some(Drift { quarantined, .. }) = facts.drift else { return Verdict::Nothing };
    if !quarantined || facts.state != State::Quarantined {
        return Verdict::Forget;
    }
    let proven = fits(State::Active, sight.observed, Work::Nobody) && proof::healthy(facts).is_ok();
    to(Event::ProvenHealthy).filter(|_| proven).map_or(Verdict::Nothing, Verdict::Recover)
}

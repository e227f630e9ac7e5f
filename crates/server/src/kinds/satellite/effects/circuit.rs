//! Circuit breakers: an upstream that does not answer is not called for a while.
//!
//! Only missing answers count. An upstream that refuses an effect answers, so other effects continue.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use wardroom_core::{
    backoff::Backoff,
    breaker::{Breaker, Gate, Policy},
};
use wardroom_upstream::Failure;

use super::{EffectError, Upstream};

/// Three calls in a row without an answer open a circuit.
const POLICY: Policy = Policy {
    failures: 3,
    rest: Some(Backoff { first: SignedDuration::from_secs(2), longest: SignedDuration::from_secs(30) }),
};

#[derive(Default)]
pub(super) struct Circuits(Mutex<[Circuit; 3]>);

#[derive(Default)]
struct Circuit {
    breaker: Breaker,
    last: String,
}

impl Circuits {
    /// Refuses while the circuit of an upstream is open. Times are of the steady axis.
    pub(super) fn check(&self, upstream: Upstream, now: Timestamp) -> Result<(), EffectError> {
        let circuits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let circuit = &circuits[index(upstream)];
        match circuit.breaker.gate(POLICY, now) {
            Gate::Closed => Ok(()),
            Gate::OpenFor(rest) => {
                Err(EffectError::Open(circuit.last.clone(), Duration::try_from(rest).unwrap_or_default()))
            }
            Gate::Open => Err(EffectError::Open(circuit.last.clone(), Duration::ZERO)),
        }
    }

    /// Counts an attempt that was not answered; any answer closes the circuit.
    pub(super) fn note(&self, upstream: Upstream, error: Option<&EffectError>, now: Timestamp) {
        let mut circuits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let circuit = &mut circuits[index(upstream)];
        let Some(EffectError::Upstream(failure @ (Failure::Unreachable(_) | Failure::Ambiguous(_)))) = error
        else {
            *circuit = Circuit::default();
            return;
        };
        circuit.breaker.fail(POLICY, now);
        circuit.last = failure.to_string();
    }
}

fn index(upstream: Upstream) -> usize {
    match upstream {
        Upstream::Harbor => 0,
        Upstream::Spire => 1,
        Upstream::Registry => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_opens_it_and_any_answer_closes_it() {
        let (circuits, now) = (Circuits::default(), Timestamp::UNIX_EPOCH);
        let open = |upstream| circuits.check(upstream, now).is_err();
        let silence = || EffectError::from(Failure::Unreachable("refused".to_owned()));
        for _ in 0..2 {
            circuits.note(Upstream::Harbor, Some(&silence()), now);
        }
        assert!(!open(Upstream::Harbor), "two may be chance");
        circuits.note(Upstream::Harbor, Some(&silence()), now);
        assert!(open(Upstream::Harbor));
        assert!(!open(Upstream::Spire), "the others continue");
        let refused = Failure::Refused { status: 400, detail: String::new() }.into();
        circuits.note(Upstream::Harbor, Some(&refused), now);
        assert!(!open(Upstream::Harbor), "a refusal is an answer");
    }
}

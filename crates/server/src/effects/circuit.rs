//! Circuits: an upstream that does not answer is left alone for a while, instead of being asked by everybody.
//!
//! Only silence counts. An upstream that refuses or fails at one effect answers, so that one bad effect keeps
//! no other waiting.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use wardroom_upstream::Failure;

use super::{Trouble, Upstream};

/// Calls in a row that must have gone unanswered.
const SILENT: u32 = 3;

/// How long it is left alone at first, and at most.
const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(30);

/// One circuit per upstream.
#[derive(Default)]
pub(super) struct Circuits(Mutex<[Circuit; 3]>);

#[derive(Default)]
struct Circuit {
    silent: u32,
    until: Option<Instant>,
    last: String,
}

impl Circuits {
    /// Refuses while the upstream is left alone.
    pub(super) fn check(&self, upstream: Upstream, now: Instant) -> Result<(), Trouble> {
        let circuits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let circuit = &circuits[index(upstream)];
        match circuit.until.map(|until| until.saturating_duration_since(now)) {
            Some(remaining) if !remaining.is_zero() => Err(Trouble::Open(circuit.last.clone(), remaining)),
            Some(_) | None => Ok(()),
        }
    }

    /// Learns from what an attempt came to.
    pub(super) fn note(&self, upstream: Upstream, trouble: Option<&Trouble>, now: Instant) {
        let mut circuits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let circuit = &mut circuits[index(upstream)];
        let Some(Trouble::Upstream(failure @ (Failure::Unreachable(_) | Failure::Ambiguous(_)))) = trouble
        else {
            *circuit = Circuit::default();
            return;
        };
        circuit.silent = circuit.silent.saturating_add(1);
        circuit.last = failure.to_string();
        if let Some(more) = circuit.silent.checked_sub(SILENT) {
            circuit.until = Some(now + FIRST.saturating_mul(1 << more.min(10)).min(LONGEST));
        }
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

    fn silence() -> Trouble {
        Failure::Unreachable("refused".to_owned()).into()
    }

    #[expect(clippy::disallowed_methods, reason = "any point in time does")]
    #[test]
    fn silence_opens_it_and_any_answer_closes_it() {
        let (circuits, now) = (Circuits::default(), Instant::now());
        let open = |upstream, at| circuits.check(upstream, at).is_err();
        for _ in 0..2 {
            circuits.note(Upstream::Harbor, Some(&silence()), now);
        }
        assert!(!open(Upstream::Harbor, now), "two may be chance");
        circuits.note(Upstream::Harbor, Some(&silence()), now);
        assert!(open(Upstream::Harbor, now));
        assert!(!open(Upstream::Spire, now), "the others go on");
        assert!(!open(Upstream::Harbor, now + FIRST));
        for _ in 0..20 {
            circuits.note(Upstream::Harbor, Some(&silence()), now);
        }
        assert!(open(Upstream::Harbor, now + LONGEST - Duration::from_millis(1)));
        assert!(!open(Upstream::Harbor, now + LONGEST));
        let refused = Failure::Refused { status: 400, detail: String::new() }.into();
        circuits.note(Upstream::Harbor, Some(&refused), now);
        assert!(!open(Upstream::Harbor, now), "who refuses is there");
    }
}

//! Which ways out of its state a node has now, given the run that works on it.

use super::{Event, facts::Facts};
use crate::run::plan::Kind::{
    Bootstrap, FullDecommission, Reimage, Remove, Retire, SoftReset, StorageCleanup,
};

/// Whether a move can come next. Of the moves that lead to the same place, only the one that a person can ask for is.
#[must_use]
pub fn can_happen(event: Event, facts: &Facts) -> bool {
    let run = facts.open_run();
    let is = |kinds: &[_]| run.is_some_and(|run| kinds.contains(&run.kind));
    match event {
        Event::Onboarded | Event::EnrollmentStarted => run.is_some_and(|run| run.kind.is_onboarding()),
        Event::Drained => is(&[Retire, Reimage, FullDecommission]),
        Event::CleanupFinished => is(&[SoftReset, StorageCleanup]),
        Event::Uninstalled => is(&[FullDecommission, Remove]),
        Event::Reenrolled => is(&[Reimage]) || (run.is_none() && facts.can_be_reimaged()),
        Event::Remove => is(&[FullDecommission, Remove]) || run.is_none(),
        // A person's action leads to the same place.
        Event::OnboardingBlocked | Event::DrainFailed | Event::UninstallFailed | Event::SetAsideAgain => {
            false
        }
        Event::Recover => run.is_none() && facts.has_agent,
        Event::Drain => run.is_none(),
        Event::Reactivate => run.is_none() && facts.identity_kept,
        Event::ProvenHealthy => run.is_none() && facts.drift.as_ref().is_some_and(|drift| drift.quarantined),
        // Deleting a node that waits for its agent cancels the bootstrap run first.
        Event::Delete => facts.is_untouched() && run.is_none_or(|run| run.kind == Bootstrap),
        Event::StartOnboarding
        | Event::Quarantine
        | Event::HeartbeatsMissed
        | Event::Heartbeat
        | Event::DriftFound
        | Event::StopDrain
        | Event::RollbackRemove => true,
    }
}

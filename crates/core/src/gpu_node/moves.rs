//! The moves of a node that are committed together with those of its run.
//!
//! They depend on the states of run and node only, so a worker that takes over decides the same. What must
//! stay true: every pair that a commit leaves behind passes [`mapping::check`].

use State::*;

use super::{Event, State, TABLE, mapping};
use crate::{
    names::names,
    run::{
        self, Cause,
        plan::{Kind, Stage},
    },
};

names! {
    /// Where a node was before a run took it out of use: a drain or a retirement does not end a quarantine.
    pub enum Origin {
        /// It was in use, or was to be.
        FromUse = "from_use",
        /// It was quarantined; only `recover` ends that.
        FromQuarantine = "from_quarantine",
    }
}

impl Origin {
    /// The origin of a node in this state, given the origin at its last drain.
    #[must_use]
    pub const fn of(node: State, before: Self) -> Self {
        match node {
            Quarantined => Self::FromQuarantine,
            Draining | Retired | Removing => before,
            BootstrapIssued | Enrolling | Active | Offline | Deleted => Self::FromUse,
        }
    }

    /// Replaces a move back to use where the node must return to quarantine.
    #[must_use]
    pub fn instead_of(self, event: Event, node: State) -> Event {
        let used = target(node, event) == Some(Offline);
        if used && self == Self::FromQuarantine { Event::SetAsideAgain } else { event }
    }
}

/// The move of the node when a run enters a stage.
#[must_use]
pub fn on_entry(kind: Kind, stage: Stage, node: State) -> Option<Event> {
    let drains = matches!(
        stage,
        Stage::DisableNode
            | Stage::ForceReleaseAllocations
            | Stage::DrainNode
            | Stage::CleanupStorage
            | Stage::ScrubGpu
            | Stage::ValidateCleanNode
            | Stage::RetireGpuaasNode
    );
    let removes = kind.is_past(stage, Stage::RemoveGpuaasNodeRecord);
    match node {
        Active | Offline | Quarantined => drains.then_some(Event::Drain),
        // Also when the run failed later on and the node was taken back to retired.
        Retired => removes.then_some(Event::Remove),
        BootstrapIssued | Enrolling | Draining | Removing | Deleted => None,
    }
}

/// The move of the node when a stage is done that is not the last one.
#[must_use]
pub fn on_done(stage: Stage, node: State) -> Option<Event> {
    match (stage, node) {
        (Stage::RetireGpuaasNode, Draining) => Some(Event::Drained),
        _ => None,
    }
}

/// Returns the move of the node when its run ends.
///
/// # Errors
/// The state from which this kind of run cannot finish: the node was moved meanwhile.
pub fn on_end(kind: Kind, end: run::State, node: State, origin: Origin) -> Result<Option<Event>, State> {
    let event = match (kind, node) {
        // The run sees this first; the end follows with the next look.
        (Kind::Bootstrap, BootstrapIssued) => Event::EnrollmentStarted,
        (Kind::Onboarding | Kind::Bootstrap, Enrolling) => Event::Onboarded,
        (Kind::SoftReset | Kind::StorageCleanup, Draining) => Event::CleanupFinished,
        (Kind::Retire, Draining) => Event::Drained,
        (Kind::Reimage, Retired) => Event::Reenrolled,
        (Kind::FullDecommission | Kind::Remove, Removing) => Event::Uninstalled,
        _ if mapping::check(node, Some((kind, end))).is_ok() => return Ok(None),
        _ => return Err(node),
    };
    Ok(Some(origin.instead_of(event, node)))
}

/// The move of the node when a run stops working: work in progress that the run's new state cannot own is taken back.
#[must_use]
pub fn on_stop(kind: Kind, to: run::State, node: State, origin: Origin, cause: Cause) -> Option<Event> {
    if mapping::check(node, Some((kind, to))).is_ok() {
        return None;
    }
    match (node, cause) {
        (Enrolling, _) => Some(Event::OnboardingBlocked),
        (Draining, Cause::Failure) => Some(origin.instead_of(Event::DrainFailed, node)),
        (Draining, Cause::Request) => Some(origin.instead_of(Event::StopDrain, node)),
        (Removing, Cause::Failure) => Some(Event::UninstallFailed),
        (Removing, Cause::Request) => Some(Event::RollbackRemove),
        (BootstrapIssued | Active | Offline | Quarantined | Retired | Deleted, _) => None,
    }
}

/// Whether an event carries out the request that started a run, or one that stopped it: the history names the person.
#[must_use]
pub fn is_requested(event: Event) -> bool {
    matches!(event, Event::Drain | Event::Remove | Event::StopDrain | Event::RollbackRemove)
}

/// The next move towards `quarantined` of a node that must not be used; a draining node gets there by way of
/// `offline`. None for a node that is quarantined or out of scheduling.
#[must_use]
pub fn towards_quarantine(node: State, origin: Origin) -> Option<Event> {
    match node {
        Enrolling => Some(Event::OnboardingBlocked),
        Active | Offline => Some(Event::DriftFound),
        Draining => Some(origin.instead_of(Event::DrainFailed, node)),
        BootstrapIssued | Quarantined | Retired | Removing | Deleted => None,
    }
}

/// Where a move leads.
#[must_use]
pub fn target(node: State, event: Event) -> Option<State> {
    TABLE.find(node, event).map(|row| row.to)
}

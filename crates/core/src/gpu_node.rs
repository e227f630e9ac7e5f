//! GPU node: a MAAS-managed bare-metal machine, from bootstrap to removal.
//!
//! The state is coarse on purpose. Work on the node is a [`crate::run`]; the state in MAAS is an
//! [`maas::Observed`]; the three are never collapsed into one enum, and [`mapping`] says which combinations
//! are valid.
//!
//! What must stay true: `enrolling`, `draining` and `removing` always have an owning run; there is no
//! `draining → active` (health proves `active`, by way of `offline`); a quarantine outlives a drain and a
//! retirement, and a run never ends it ([`moves::Origin`]); nothing leaves `deleted`.

use Event::*;
use State::*;
use jiff::SignedDuration;

use crate::{
    action::{Call, Fixed},
    names::names,
    table::{self, Owner, Place, Table, at, row},
    tone::tones,
};

pub mod action;
pub mod advice;
pub mod drift;
pub mod exits;
pub mod facts;
pub mod maas;
pub mod mapping;
pub mod moves;
pub mod proof;
pub mod task;

/// The moves of a GPU node.
#[rustfmt::skip]
pub const TABLE: Table<State, Event> = Table(&[
    //  from             on                 to           by
    row(BootstrapIssued, EnrollmentStarted, Enrolling,   Owner::Workflow),
    row(BootstrapIssued, StartOnboarding,   Enrolling,   Owner::Admin),
    row(BootstrapIssued, Delete,            Deleted,     Owner::Admin).because(REGISTERED_BY_MISTAKE),
    row(Enrolling,       Onboarded,         Active,      Owner::Workflow),
    row(Enrolling,       OnboardingBlocked, Quarantined, Owner::Workflow),
    row(Enrolling,       Quarantine,        Quarantined, Owner::Admin),
    row(Active,          HeartbeatsMissed,  Offline,     Owner::Sweep),
    row(Active,          DriftFound,        Quarantined, Owner::Reconciler),
    row(Active,          Quarantine,        Quarantined, Owner::Admin),
    row(Active,          Drain,             Draining,    Owner::Admin),
    row(Offline,         Heartbeat,         Active,      Owner::Agent),
    row(Offline,         DriftFound,        Quarantined, Owner::Reconciler),
    row(Offline,         Quarantine,        Quarantined, Owner::Admin),
    row(Offline,         Drain,             Draining,    Owner::Admin),
    row(Quarantined,     Recover,           Active,      Owner::Admin),
    row(Quarantined,     ProvenHealthy,     Active,      Owner::Reconciler),
    row(Quarantined,     Drain,             Draining,    Owner::Admin),
    row(Quarantined,     Delete,            Deleted,     Owner::Admin).because(REGISTERED_BY_MISTAKE),
    row(Draining,        Drained,           Retired,     Owner::Workflow),
    row(Draining,        CleanupFinished,   Offline,     Owner::Workflow),
    row(Draining,        DrainFailed,       Offline,     Owner::Workflow),
    row(Draining,        StopDrain,         Offline,     Owner::Admin),
    row(Draining,        SetAsideAgain,     Quarantined, Owner::Workflow).because(QUARANTINE_LASTS),
    row(Retired,         Reactivate,        Offline,     Owner::Admin),
    row(Retired,         Reenrolled,        Offline,     Owner::Workflow),
    row(Retired,         SetAsideAgain,     Quarantined, Owner::Workflow).because(QUARANTINE_LASTS),
    row(Retired,         Remove,            Removing,    Owner::Workflow),
    row(Removing,        Uninstalled,       Deleted,     Owner::Workflow),
    row(Removing,        UninstallFailed,   Retired,     Owner::Workflow),
    row(Removing,        RollbackRemove,    Retired,     Owner::Admin),
]);

// Moves that the design document does not have carry the reason why they exist.
const QUARANTINE_LASTS: &str = "not in the design document: by way of `offline` a heartbeat would bring a node into use that a person has quarantined, or whose erasure is not proven";
const REGISTERED_BY_MISTAKE: &str =
    "not in the design document: a mistyped node has nothing that could be drained, uninstalled or released";

names! {
    /// The coarse state of a GPU node.
    pub enum State {
        /// A bootstrap token was issued by hand; the node has not enrolled yet.
        BootstrapIssued = "bootstrap_issued",
        /// Onboarding is in progress; nothing may be scheduled on the node.
        Enrolling = "enrolling",
        /// Healthy, and work may be scheduled on it.
        Active = "active",
        /// Expected to be there, but no healthy heartbeat of its agent proves it.
        Offline = "offline",
        /// Blocked from scheduling because of drift, a failed cleanup, an onboarding that was given up or an investigation.
        Quarantined = "quarantined",
        /// A drain is in progress; nothing may be scheduled until it ends.
        Draining = "draining",
        /// Taken out of scheduling on purpose; its identity is kept until it is uninstalled or released.
        Retired = "retired",
        /// The removal is in progress.
        Removing = "removing",
        /// Removed for good; a machine that comes back gets a new record.
        Deleted = "deleted",
    }
}

names! {
    /// What moves a GPU node.
    pub enum Event {
        /// The onboarding run sees the agent enrol with its bootstrap token.
        EnrollmentStarted = "enrollment_started",
        /// A person starts an onboarding through MAAS.
        StartOnboarding = "start_onboarding",
        /// The onboarding run completes: the agent is enrolled and its health checks pass.
        Onboarded = "onboarded",
        /// The onboarding run is blocked or unsafe, or was cancelled.
        OnboardingBlocked = "onboarding_blocked",
        /// A person blocks the node from scheduling.
        Quarantine = "quarantine",
        /// The agent misses too many heartbeats in a row.
        HeartbeatsMissed = "heartbeats_missed",
        /// The agent beats again, and reports the node healthy.
        Heartbeat = "heartbeat",
        /// What is observed does not fit the record, or a cleaned node is not clean.
        DriftFound = "drift_found",
        /// A person declares the node healthy again.
        Recover = "recover",
        /// A node that was quarantined for drift, and for nothing else, is proven healthy again by MAAS and a heartbeat.
        ProvenHealthy = "proven_healthy",
        /// A person starts a retirement or decommission, which drains the node first.
        Drain = "drain",
        /// The drain completes and the node goes out of scheduling.
        Drained = "drained",
        /// A soft reset or storage cleanup completes; a healthy heartbeat must follow.
        CleanupFinished = "cleanup_finished",
        /// The drain, or a stage after it, fails or is undone.
        DrainFailed = "drain_failed",
        /// A person stops the drain short of retirement.
        StopDrain = "stop_drain",
        /// The node would be used again, but it was drained out of quarantine and has not been recovered
        /// since.
        SetAsideAgain = "set_aside_again",
        /// A person takes the node back into use under its old identity.
        Reactivate = "reactivate",
        /// A reimage completes: the agent enrolled again under the same identity.
        Reenrolled = "reenrolled",
        /// The remove run starts to uninstall the node.
        Remove = "remove",
        /// The removal completes.
        Uninstalled = "uninstalled",
        /// The removal fails; the identity is kept.
        UninstallFailed = "uninstall_failed",
        /// A person rolls the removal back.
        RollbackRemove = "rollback_remove",
        /// A person deletes a node that was registered by mistake: it was neither enrolled nor onboarded.
        Delete = "delete",
    }
}

impl State {
    /// States that mean work in progress: without an owning run a node must not be left in one.
    #[must_use]
    pub const fn needs_owner(self) -> bool {
        match self {
            Enrolling | Draining | Removing => true,
            BootstrapIssued | Active | Offline | Quarantined | Retired | Deleted => false,
        }
    }
}

tones! {
    State {
        Good: Active,
        Work: Enrolling | Draining | Removing,
        Wait: BootstrapIssued,
        Warn: Offline,
        Held: Quarantined,
        Over: Retired | Deleted,
    }
}

impl table::State for State {
    /// A bootstrap by hand starts with a token, an onboarding through MAAS enrols at once.
    const INITIAL: &'static [Self] = &[BootstrapIssued, Enrolling];
    const SERVICE: &'static [Self] = &[Active];
    const TERMINAL: &'static [Self] = &[Deleted];
    #[rustfmt::skip]
    const PLACES: &'static [Place<Self>] = &[
        at(BootstrapIssued, 0.0, 1.0),
        at(Enrolling,       1.0, 1.0),
        at(Active,          2.0, 1.0),
        at(Offline,         2.0, 0.0),
        at(Quarantined,     2.0, 2.0),
        at(Draining,        3.0, 1.0),
        at(Retired,         4.0, 1.0),
        at(Removing,        5.0, 1.0),
        at(Deleted,         6.0, 1.0),
    ];

    fn patience(self) -> Option<SignedDuration> {
        match self {
            // The bootstrap token lives for a day.
            BootstrapIssued => Some(SignedDuration::from_hours(24)),
            // Each is longer than the stages that a run spends in it; while a run works on the node, the
            // patience of its stage applies.
            Enrolling => Some(SignedDuration::from_hours(8)),
            Draining | Removing => Some(SignedDuration::from_hours(12)),
            Active | Offline | Quarantined | Retired | Deleted => None,
        }
    }

    fn remedy(self) -> Option<Call> {
        let resume = action::Action::Resume.call();
        match self {
            BootstrapIssued => Some(resume.when("issues a new token; the old one is no longer valid")),
            Enrolling | Draining | Removing => Some(resume),
            Quarantined => Some(ONBOARD.when("for a node whose onboarding was cancelled")),
            Active | Offline | Retired | Deleted => None,
        }
    }
}

impl table::Event for Event {
    fn call(self) -> Option<Call> {
        use action::Action;
        match self {
            EnrollmentStarted | Onboarded | OnboardingBlocked | HeartbeatsMissed | Heartbeat | DriftFound
            | ProvenHealthy | Drained | CleanupFinished | DrainFailed | SetAsideAgain | Uninstalled
            | UninstallFailed => None,
            StartOnboarding => Some(
                ONBOARD.when("a site that manages the machine; an open bootstrap run is cancelled first"),
            ),
            Quarantine => Some(Action::Quarantine.call()),
            Recover => Some(Action::Recover.call()),
            Drain => Some(Action::Retire.call()),
            StopDrain => Some(Action::StopDrain.call()),
            Reactivate => Some(Action::Reactivate.call()),
            Reenrolled => Some(REIMAGE),
            Remove => Some(Action::Remove.call()),
            RollbackRemove => Some(Action::RollbackRemove.call()),
            Delete => Some(DELETE),
        }
    }
}

/// Reads a GPU node.
pub const READ: Call = Call::read("gpu-node", "/api/v1/gpu-nodes/{id}");

/// Reads the work behind the state of a GPU node.
pub const LIFECYCLE: Call = Call::read("gpu-node", "/api/v1/gpu-nodes/{id}/lifecycle");

/// Deletes a node that was registered by mistake.
pub const DELETE: Call = Call::new("gpu-node", "delete", "DELETE", "/api/v1/gpu-nodes/{id}")
    .when("it never enrolled and MAAS has no machine of it; an open bootstrap run is cancelled first");

/// Brings a node in, through its site or by hand.
pub const ONBOARD: Call = Call::new("gpu-node", "onboard", "POST", "/api/v1/gpu-nodes/{id}/onboardings");

/// Cleans a node, or takes it out, in one of four modes.
pub const DECOMMISSION: Call =
    Call::new("gpu-node", "decommission", "POST", "/api/v1/gpu-nodes/{id}/decommissions").needing(&["mode"]);

/// Installs the machine of a node again.
pub const REIMAGE: Call = Call { needs: &[], ..DECOMMISSION }
    .body(&[("mode", Fixed::Text("reimage"))])
    .when("a site that manages the machine; also for a node that was uninstalled");

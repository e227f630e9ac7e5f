//! Node: a machine that is installed over the network and then runs in production.
//!
//! What must stay true: a node is moved only along a row; nothing leaves `retired`; `force` lifts the retry
//! limit and clears the counters but never makes an illegal move legal.

use std::fmt;

use Event::*;
use State::*;
use jiff::{SignedDuration, Timestamp};

use crate::{
    action::{Call, Fixed},
    names::names,
    table::{self, Owner, Place, Table, at, row},
    tone::tones,
    why::Blocker,
};

pub mod report;
pub mod transition;

/// The moves of a node. "Any to retired" is written out.
#[rustfmt::skip]
pub const TABLE: Table<State, Event> = Table(&[
    //  from            on                  to              by
    row(Discovered,     Approve,            Pending,        Owner::Admin),
    row(Discovered,     Retire,             Retired,        Owner::Admin),
    row(Pending,        InstallStarted,     Installing,     Owner::NodeReport),
    row(Pending,        Retire,             Retired,        Owner::Admin),
    row(Installing,     InstallCompleted,   Installed,      Owner::NodeReport),
    row(Installing,     InstallGivenUp,     InstallFailed,  Owner::NodeReport),
    row(Installing,     InstallTimedOut,    InstallFailed,  Owner::Sweep),
    row(Installing,     Retire,             Retired,        Owner::Admin),
    row(InstallFailed,  Reset,              Pending,        Owner::Admin),
    row(InstallFailed,  Retire,             Retired,        Owner::Admin),
    row(Installed,      Verify,             Active,         Owner::Admin),
    row(Installed,      AutoPromote,        Active,         Owner::System),
    row(Installed,      Retire,             Retired,        Owner::Admin),
    row(Active,         Reinstall,          Reprovision,    Owner::Admin),
    row(Active,         Deprovision,        Deprovisioning, Owner::Admin),
    row(Active,         Migrate,            Migrating,      Owner::Admin),
    row(Active,         Retire,             Retired,        Owner::Admin),
    row(Reprovision,    Requeue,            Pending,        Owner::Admin),
    row(Reprovision,    Retire,             Retired,        Owner::Admin),
    row(Deprovisioning, FinishErasure,      Retired,        Owner::Admin),
    row(Deprovisioning, Retire,             Retired,        Owner::Admin),
    row(Migrating,      FinishMigration,    Active,         Owner::Admin),
    row(Migrating,      Retire,             Retired,        Owner::Admin),
]);

/// An install that fails this often needs a person.
pub const MAX_INSTALL_ATTEMPTS: u32 = 3;

names! {
    /// Where a node is in its life.
    pub enum State {
        /// Registered, by a person or because it booted over the network; it awaits approval.
        Discovered = "discovered",
        /// Approved; it installs its workflow at the next boot.
        Pending = "pending",
        /// An installation is in progress.
        Installing = "installing",
        /// The installation failed as often as it may; a person has to look.
        InstallFailed = "install_failed",
        /// The installation is complete and awaits verification.
        Installed = "installed",
        /// In production use.
        Active = "active",
        /// Marked to be installed again.
        Reprovision = "reprovision",
        /// The data is being erased securely; the only way on is out of service.
        Deprovisioning = "deprovisioning",
        /// Its hardware is being replaced.
        Migrating = "migrating",
        /// Out of service for good; the record and its history stay.
        Retired = "retired",
    }
}

names! {
    /// What moves a node.
    pub enum Event {
        /// A person approves the node.
        Approve = "approve",
        /// The node reports `started`.
        InstallStarted = "install_started",
        /// The node reports `complete`.
        InstallCompleted = "install_completed",
        /// The node reports `failed` for the third time.
        InstallGivenUp = "install_given_up",
        /// The node is silent for too long during an installation, for the third time.
        InstallTimedOut = "install_timed_out",
        /// A person sends the node back into the install queue.
        Reset = "reset",
        /// A person verifies the installed node.
        Verify = "verify",
        /// The node's group, or its approver's, promotes installed nodes by itself.
        AutoPromote = "auto_promote",
        /// A person marks the node for a new installation.
        Reinstall = "reinstall",
        /// A person starts the secure erasure.
        Deprovision = "deprovision",
        /// A person starts the replacement of the hardware.
        Migrate = "migrate",
        /// A person puts the node into the install queue.
        Requeue = "requeue",
        /// A person confirms that the hardware was replaced.
        FinishMigration = "finish_migration",
        /// A person confirms that the data is erased.
        FinishErasure = "finish_erasure",
        /// A person takes the node out of service for good.
        Retire = "retire",
    }
}

tones! {
    State {
        Good: Active,
        Work: Installing | Reprovision | Deprovisioning | Migrating,
        Wait: Discovered | Pending | Installed,
        Bad:  InstallFailed,
        Over: Retired,
    }
}

impl table::State for State {
    const INITIAL: &'static [Self] = &[Discovered];
    const SERVICE: &'static [Self] = &[Active];
    const TERMINAL: &'static [Self] = &[Retired];
    #[rustfmt::skip]
    const PLACES: &'static [Place<Self>] = &[
        at(Discovered,     0.0, 1.0),
        at(Pending,        1.0, 1.0),
        at(Installing,     2.0, 1.0),
        at(Installed,      3.0, 1.0),
        at(Active,         4.0, 1.0),
        at(Retired,        6.0, 1.0),
        at(Reprovision,    2.5, 0.0),
        at(Deprovisioning, 5.0, 0.0),
        at(InstallFailed,  1.5, 2.0),
        at(Migrating,      4.0, 2.0),
    ];

    fn patience(self) -> Option<SignedDuration> {
        match self {
            Self::Installing => Some(SignedDuration::from_mins(60)),
            // A full erase of large disks takes most of a day.
            Self::Deprovisioning => Some(SignedDuration::from_hours(24)),
            Self::Migrating => Some(SignedDuration::from_hours(24 * 7)),
            Self::Discovered
            | Self::Pending
            | Self::InstallFailed
            | Self::Installed
            | Self::Active
            | Self::Reprovision
            | Self::Retired => None,
        }
    }
}

impl table::Event for Event {
    /// An operator may take any move by naming the state to go to; only the promotion by setting has no call.
    fn call(self) -> Option<Call> {
        let to = |verb, body| Some(Call::new("node", verb, "PATCH", STATE_PATH).body(body));
        match self {
            Approve => to("approve", PENDING),
            InstallStarted => to("install_started", &[("state", Fixed::Text("installing"))]),
            InstallCompleted => to("install_completed", &[("state", Fixed::Text("installed"))]),
            InstallGivenUp | InstallTimedOut => {
                to("install_given_up", &[("state", Fixed::Text("install_failed"))])
            }
            Reset => to("reset", &[("state", Fixed::Text("pending")), ("force", Fixed::Flag(true))])
                .map(|call| call.when("assign another workflow first when this one cannot work")),
            Verify => to("verify", ACTIVE),
            AutoPromote => None,
            Reinstall => to("reinstall", &[("state", Fixed::Text("reprovision"))]),
            Deprovision => to("deprovision", &[("state", Fixed::Text("deprovisioning"))]),
            Migrate => to("migrate", &[("state", Fixed::Text("migrating"))]),
            Requeue => to("requeue", PENDING),
            FinishMigration => to("finish_migration", ACTIVE),
            FinishErasure => to("finish_erasure", RETIRED)
                .map(|call| call.when("the erasure is complete, by its report or by the person that did it")),
            Retire => to("retire", RETIRED),
        }
    }
}

/// Gives a node a workflow.
pub const ASSIGN: Call = Call::new("node", "assign", "PATCH", "/api/v1/nodes/{id}").needing(&["workflow_id"]);

/// Takes the workflow of a node away.
pub const RELEASE_WORKFLOW: Call = Call { needs: &[], ..ASSIGN }.body(&[("workflow_id", Fixed::Null)]);

/// Takes a node out of its group.
pub const RELEASE_GROUP: Call = Call { needs: &[], ..ASSIGN }.body(&[("group_id", Fixed::Null)]);

/// Reads a node.
pub const READ: Call = Call::read("node", "/api/v1/nodes/{id}");

const STATE_PATH: &str = "/api/v1/nodes/{id}/state";
const PENDING: &[(&str, Fixed)] = &[("state", Fixed::Text("pending"))];
const ACTIVE: &[(&str, Fixed)] = &[("state", Fixed::Text("active"))];
const RETIRED: &[(&str, Fixed)] = &[("state", Fixed::Text("retired"))];

/// The install scripts that a node was handed since its approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handed {
    /// How many.
    pub scripts: u32,
    /// When it last booted.
    pub last: Timestamp,
    /// How many may end without a report before a person is needed; at least 1.
    pub most: u32,
}

impl fmt::Display for Handed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (are, last) = (
            if self.scripts == 1 { "script was" } else { "scripts were" },
            self.last.strftime("%Y-%m-%dT%H:%M:%SZ"),
        );
        write!(f, "{} install {are} handed out since its approval; it last booted {last}.", self.scripts)
    }
}

/// Why an approved node needs a person that boots again and again and never reports that its installation started.
#[must_use]
pub fn unreported(state: State, handed: Handed) -> Option<Blocker> {
    let Handed { scripts, most, .. } = handed;
    let what = || {
        format!(
            "{scripts} install scripts were handed out since its approval and no report came (a person is needed from {most} on: \
             nodes.boots_without_report): the installer does not start, or cannot reach the server; look at the machine's \
             console and at the kernel and RAM disks of its workflow"
        )
    };
    (state == Pending && scripts >= most).then(|| Blocker { what: what().into(), fix: None })
}

/// Returns the causes that keep a node in its state, beyond those of the state itself.
#[must_use]
pub fn blockers(
    id: &str,
    state: State,
    has_workflow: bool,
    attempts: u32,
    last_error: Option<&str>,
) -> Vec<Blocker> {
    let mut blockers = Vec::new();
    if matches!(state, Pending | Installing) && !has_workflow {
        blockers.push(Blocker {
            what: "no workflow is assigned, so the node has nothing to install when it boots".into(),
            fix: Some(ASSIGN.of(id)),
        });
    }
    if matches!(state, Installing | InstallFailed) && attempts > 0 {
        let error = last_error.unwrap_or("no error was reported");
        // The reset is the preferred move of the state; while attempts are left, the node tries again.
        let reset = table::Event::call(Reset).filter(|_| state == InstallFailed);
        blockers.push(Blocker {
            what: format!("attempt {attempts} of {MAX_INSTALL_ATTEMPTS} failed: {error}").into(),
            fix: reset.map(|call| call.of(id)),
        });
    }
    blockers
}

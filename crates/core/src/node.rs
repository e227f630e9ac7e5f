//! Node: a machine that is installed over the network and then runs in production.
//!
//! What must stay true: a node is moved only along a row; nothing leaves `retired`; `force` lifts the retry
//! limit and clears the counters but never makes an illegal move legal.

use Event::*;
use State::*;
use jiff::SignedDuration;

use crate::{
    names::names,
    table::{self, Call, Owner, Role, Table, row},
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

impl table::State for State {
    const INITIAL: &'static [Self] = &[Discovered];
    const SERVICE: &'static [Self] = &[Active];
    const TERMINAL: &'static [Self] = &[Retired];

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
        let to = |request, precondition| Some(Call { request, role: Role::Operator, precondition });
        match self {
            Approve => to(r#"PATCH /api/v1/nodes/{id}/state {"state":"pending"}"#, None),
            InstallStarted => to(r#"PATCH /api/v1/nodes/{id}/state {"state":"installing"}"#, None),
            InstallCompleted => to(r#"PATCH /api/v1/nodes/{id}/state {"state":"installed"}"#, None),
            InstallGivenUp | InstallTimedOut => {
                to(r#"PATCH /api/v1/nodes/{id}/state {"state":"install_failed"}"#, None)
            }
            Reset => to(
                r#"PATCH /api/v1/nodes/{id}/state {"state":"pending","force":true}"#,
                Some("assign another workflow first (PATCH /api/v1/nodes/{id}) when this one cannot work"),
            ),
            Verify => to(r#"PATCH /api/v1/nodes/{id}/state {"state":"active"}"#, None),
            AutoPromote => None,
            Reinstall => to(r#"PATCH /api/v1/nodes/{id}/state {"state":"reprovision"}"#, None),
            Deprovision => to(r#"PATCH /api/v1/nodes/{id}/state {"state":"deprovisioning"}"#, None),
            Migrate => to(r#"PATCH /api/v1/nodes/{id}/state {"state":"migrating"}"#, None),
            Requeue => to(r#"PATCH /api/v1/nodes/{id}/state {"state":"pending"}"#, None),
            FinishMigration => to(r#"PATCH /api/v1/nodes/{id}/state {"state":"active"}"#, None),
            FinishErasure => to(
                r#"PATCH /api/v1/nodes/{id}/state {"state":"retired"}"#,
                Some("the erasure is complete, as its report or whoever did it says"),
            ),
            Retire => to(r#"PATCH /api/v1/nodes/{id}/state {"state":"retired"}"#, None),
        }
    }
}

/// What keeps a node where it is, beyond what its state says.
#[must_use]
pub fn blockers(state: State, has_workflow: bool, attempts: u32, last_error: Option<&str>) -> Vec<Blocker> {
    let mut blockers = Vec::new();
    if matches!(state, Pending | Installing) && !has_workflow {
        blockers.push(Blocker {
            what: "no workflow is assigned, so the node has nothing to install when it boots".into(),
            fix: Some(Call {
                request: r#"PATCH /api/v1/nodes/{id} {"workflow_id":"…"}"#,
                role: Role::Operator,
                precondition: None,
            }),
        });
    }
    if matches!(state, Installing | InstallFailed) && attempts > 0 {
        let error = last_error.unwrap_or("no error was reported");
        blockers.push(Blocker {
            what: format!("attempt {attempts} of {MAX_INSTALL_ATTEMPTS} failed: {error}").into(),
            // The reset is the preferred move of the state; while attempts are left, the node tries again.
            fix: if state == InstallFailed { table::Event::call(Reset) } else { None },
        });
    }
    blockers
}

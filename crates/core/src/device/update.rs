//! Update: how an agent brings its device to a new rendered version.
//!
//! The agent moves; the server sees the states as reasons of the condition `Updating`, which is true until
//! the update has ended. One run of the table is one update: it begins at `Preparing` and ends at
//! `Updated` or `Error`; the next rendered version begins the next. What may run on the way is in
//! [`hook`](super::hook).
//!
//! The rows are the arrows of the design document and one more. The document draws no way out of
//! `ReadyToUpdate` but through the hook `beforeUpdating`, and none for the case that this hook fails. Such a
//! failure aborts: nothing has been changed, so there is nothing to roll back, and `ApplyingUpdate` or
//! `RollingBack` would report what did not happen. Hence `ReadyToUpdate` to `Error` (decision 001).

use Event::*;
use State::*;
use jiff::SignedDuration;

use crate::{
    action::Call,
    names::names,
    table::{self, Owner, Place, Table, at, row},
};

/// The moves of an update.
#[rustfmt::skip]
pub const TABLE: Table<State, Event> = Table(&[
    //  from              on                 to                by
    row(Preparing,        Prepared,          ReadyToUpdate,    Owner::Agent),
    row(Preparing,        PreparationFailed, Error,            Owner::Agent),
    row(ReadyToUpdate,    Started,           ApplyingUpdate,   Owner::Agent),
    row(ReadyToUpdate,    Aborted,           Error,            Owner::Agent),
    row(ApplyingUpdate,   RebootNeeded,      Rebooting,        Owner::Agent),
    row(ApplyingUpdate,   NoRebootNeeded,    ActivatingConfig, Owner::Agent),
    row(ApplyingUpdate,   ApplyFailed,       RollingBack,      Owner::Agent),
    row(Rebooting,        Booted,            ActivatingConfig, Owner::Agent),
    row(Rebooting,        BootFailed,        RollingBack,      Owner::Agent),
    row(ActivatingConfig, Activated,         Updated,          Owner::Agent),
    row(ActivatingConfig, ActivationFailed,  RollingBack,      Owner::Agent),
    row(RollingBack,      RolledBack,        Error,            Owner::Agent),
]);

names! {
    /// How far an update has come.
    pub enum State {
        /// The agent checks the new spec and fetches what it needs; the device is unchanged.
        Preparing = "Preparing",
        /// Everything is checked and on the device, which is still unchanged.
        ReadyToUpdate = "ReadyToUpdate",
        /// The agent writes the update to disk.
        ApplyingUpdate = "ApplyingUpdate",
        /// The device boots into the new operating system.
        Rebooting = "Rebooting",
        /// The agent puts the new configuration into force.
        ActivatingConfig = "ActivatingConfig",
        /// The update failed and the agent restores what ran before it.
        RollingBack = "RollingBack",
        /// The device runs the new spec.
        Updated = "Updated",
        /// The update failed and is not repeated; the device runs what it ran before.
        Error = "Error",
    }
}

names! {
    /// What moves an update.
    pub enum Event {
        /// The spec is valid and everything it needs has been fetched.
        Prepared = "prepared",
        /// The spec is not valid, or something it needs cannot be fetched.
        PreparationFailed = "preparation_failed",
        /// The hook `beforeUpdating` agrees and the agent begins to write.
        Started = "started",
        /// The hook `beforeUpdating` fails, so the agent does not begin.
        Aborted = "aborted",
        /// All is written, the operating system is a new one, and the hook `beforeRebooting` agrees.
        RebootNeeded = "reboot_needed",
        /// All is written and the operating system is the same.
        NoRebootNeeded = "no_reboot_needed",
        /// Something could not be written, or the hook `beforeRebooting` fails.
        ApplyFailed = "apply_failed",
        /// The new operating system is up and its boot checks pass; the hook `afterRebooting` has run.
        Booted = "booted",
        /// The boot checks of the new operating system fail.
        BootFailed = "boot_failed",
        /// The configuration is in force and the hook `afterUpdating` agrees.
        Activated = "activated",
        /// The configuration cannot be put into force, or the hook `afterUpdating` fails.
        ActivationFailed = "activation_failed",
        /// What ran before the update runs again.
        RolledBack = "rolled_back",
    }
}

impl State {
    /// Whether the agent reports it; the others are passed through too fast to be seen.
    #[must_use]
    pub const fn is_reported(self) -> bool {
        !matches!(self, ActivatingConfig)
    }

    /// Whether the update has ended, and with it the condition `Updating`.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Updated | Error)
    }
}

/// Gives a device another spec.
pub(super) const NEW_SPEC: Call =
    Call::new("device", "replace", "PUT", "/api/v1/devices/{name}").needing(&["spec"]);

impl table::State for State {
    const INITIAL: &'static [Self] = &[Preparing];
    const SERVICE: &'static [Self] = &[Updated];
    const TERMINAL: &'static [Self] = &[Updated, Error];
    #[rustfmt::skip]
    const PLACES: &'static [Place<Self>] = &[
        at(Preparing,        0.0, 0.0),
        at(ReadyToUpdate,    1.0, 0.0),
        at(ApplyingUpdate,   2.0, 0.0),
        at(Rebooting,        3.0, 0.0),
        at(ActivatingConfig, 4.0, 0.0),
        at(Updated,          5.0, 0.0),
        at(Error,            1.5, 1.0),
        at(RollingBack,      3.0, 1.0),
    ];

    fn patience(self) -> Option<SignedDuration> {
        match self {
            // An operating system image over a thin line.
            Preparing => Some(SignedDuration::from_hours(6)),
            // Update windows are mostly daily.
            ReadyToUpdate => Some(SignedDuration::from_hours(24)),
            ApplyingUpdate | RollingBack => Some(SignedDuration::from_mins(30)),
            // Firmware checks of a large machine, two boots if the first one fails, and the boot checks.
            Rebooting => Some(SignedDuration::from_mins(20)),
            ActivatingConfig => Some(SignedDuration::from_mins(5)),
            Updated | Error => None,
        }
    }

    /// A new rendered version ends this update and begins the next.
    fn remedy(self) -> Option<Call> {
        (!self.is_terminal()).then_some(
            NEW_SPEC.when("a spec that differs, or a fleet whose template does; the agent answers"),
        )
    }
}

impl table::Event for Event {
    /// Returns no call: only the agent moves an update; a person who wants another outcome changes the spec.
    fn call(self) -> Option<Call> {
        None
    }
}

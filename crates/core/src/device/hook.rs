//! Hooks: what a device's owner may run at four moves of an update.
//!
//! A hook is called between two states, before the agent reports the second. Its failure is one of the
//! table's own events or changes nothing, so there is no way through an update that the table does not show.
//!
//! A failed `afterRebooting` hook changes nothing. The document draws a way back after `afterUpdating` and
//! none after `afterRebooting`; whether a boot was good is for the boot checks to say; and the hook is also
//! called after reboots that belong to no update, where nothing could be rolled back. The failure is in the
//! agent's message, and `afterUpdating`, which follows, can still refuse the update.

use super::update::{
    Event::{self, *},
    State::{self, *},
};
use crate::names::names;

/// When each hook is called, and what happens when it fails.
#[rustfmt::skip]
pub const HOOKS: [Called; 4] = [
    //     hook                   at                when           on failure
    called(Hook::BeforeUpdating,  ReadyToUpdate,    Started,       Failure::Instead(Aborted)),
    called(Hook::BeforeRebooting, ApplyingUpdate,   RebootNeeded,  Failure::Instead(ApplyFailed)),
    called(Hook::AfterRebooting,  Rebooting,        Booted,        Failure::Continue),
    called(Hook::AfterUpdating,   ActivatingConfig, Activated,     Failure::Instead(ActivationFailed)),
];

names! {
    /// A place where a device's owner may run something.
    pub enum Hook {
        /// Before anything is changed: a failure aborts the update.
        BeforeUpdating = "beforeUpdating",
        /// Before the device goes down: a failure rolls the update back.
        BeforeRebooting = "beforeRebooting",
        /// After the device came up: a failure is reported and changes nothing.
        AfterRebooting = "afterRebooting",
        /// After the new configuration is in force: a failure rolls the update back.
        AfterUpdating = "afterUpdating",
    }
}

/// One hook and the move at which it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Called {
    /// The hook.
    pub hook: Hook,
    /// The state the update is in while the hook runs.
    pub from: State,
    /// The event that is about to happen.
    pub on: Event,
    /// What happens when the hook fails.
    pub failure: Failure,
}

/// What the failure of a hook does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// This event happens in place of the one that was about to.
    Instead(Event),
    /// The update goes on.
    Continue,
}

/// The hook to call before a move, if there is one.
#[must_use]
pub fn at(from: State, on: Event) -> Option<Called> {
    HOOKS.into_iter().find(|called| called.from == from && called.on == on)
}

const fn called(hook: Hook, from: State, on: Event, failure: Failure) -> Called {
    Called { hook, from, on, failure }
}

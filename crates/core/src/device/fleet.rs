//! Fleets: devices that are selected by their labels and get their spec from one template, batch by batch.
//!
//! ```text
//! facts of the members ─▶ decide ─▶ the batch, the devices to give the template to now, and the state
//! ```
//!
//! What must stay true: a batch begins when the one before has succeeded, or a person accepted its failures; and no
//! decision takes more devices out of service than the disruption budget allows.

mod budget;
mod progress;
mod rollout;
pub mod selector;
mod why;

pub use budget::{Budget, Held};
pub use progress::{Overlap, Progress};
pub use rollout::{
    Batch, Counts, Course, Decision, Failure, Limit, Member, Outcome, Policy, Standing, decide,
};
pub use why::{EDIT, PAUSE, ROLLBACK, ROLLOUT, RULES, why};

use crate::{names::names, tone::tones};

names! {
    /// How the rollout of a fleet's template stands.
    pub enum State {
        /// Every device of the fleet was given the template, and none is working on it.
        Inactive = "Inactive",
        /// Devices are given the template, or work on it.
        Active = "Active",
        /// No device can be given the template now: those that are left are offline, or the disruption budget is used up.
        Waiting = "Waiting",
        /// A person paused it: no device is given the template.
        Paused = "Paused",
        /// Too many devices of a batch failed: no device is given the template until a person decides.
        Suspended = "Suspended",
    }
}

tones! {
    State {
        Good: Inactive,
        Work: Active,
        Wait: Waiting,
        Held: Paused,
        Bad:  Suspended,
    }
}

//! Conditions: what the agent says it is doing, in the form of type, status, reason and message.

use crate::names::names;

names! {
    /// Whether a condition holds.
    pub enum Status {
        /// The condition holds.
        True = "True",
        /// The condition does not hold.
        False = "False",
        /// The agent cannot tell.
        Unknown = "Unknown",
    }
}

names! {
    /// The types of condition that a status is derived from; others are kept, and change nothing.
    pub enum Type {
        /// The agent works on an update; the reason is the state of that update.
        Updating = "Updating",
        /// The device is about to reboot, or has not come back from it.
        Rebooting = "Rebooting",
        /// The agent decommissions its device; the reason says how far it got.
        DeviceDecommissioning = "DeviceDecommissioning",
    }
}

/// One condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition<'a> {
    /// Whether it holds.
    pub status: Status,
    /// The agent's word for why, or for how far it got.
    pub reason: &'a str,
    /// The agent's text for people; may be empty.
    pub message: &'a str,
}

impl Condition<'_> {
    /// The agent is sure that it holds.
    #[must_use]
    pub fn is_true(&self) -> bool {
        self.status == Status::True
    }
}

/// The conditions of one report, at most one of each type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Conditions<'a> {
    /// [`Type::Updating`].
    pub updating: Option<Condition<'a>>,
    /// [`Type::Rebooting`].
    pub rebooting: Option<Condition<'a>>,
    /// [`Type::DeviceDecommissioning`].
    pub decommissioning: Option<Condition<'a>>,
}

impl<'a> Conditions<'a> {
    /// Replaces the condition of one type.
    pub fn set(&mut self, of: Type, condition: Condition<'a>) {
        let place = match of {
            Type::Updating => &mut self.updating,
            Type::Rebooting => &mut self.rebooting,
            Type::DeviceDecommissioning => &mut self.decommissioning,
        };
        *place = Some(condition);
    }
}

//! Resources: the health of a device's hardware, as its agent reports it.

use crate::{UnknownName, names::names};

names! {
    /// The health of one resource.
    pub enum Health {
        /// It works as it should.
        Healthy = "Healthy",
        /// It works, with less than it should have.
        Degraded = "Degraded",
        /// It does not work.
        Error = "Error",
        /// It is about to stop working, or has stopped, and others with it.
        Critical = "Critical",
        /// The agent cannot tell.
        Unknown = "Unknown",
    }
}

impl Health {
    /// Reads what an agent sends: agents in the field say `Warning` where the document says `Degraded`.
    pub fn from_report(given: &str) -> Result<Self, UnknownName> {
        match given {
            "Warning" => Ok(Self::Degraded),
            _ => given.parse(),
        }
    }
}

/// The health of every resource a device has; nothing where the agent does not report one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Resources {
    /// Processor time.
    pub cpu: Option<Health>,
    /// Main memory.
    pub memory: Option<Health>,
    /// Storage.
    pub disk: Option<Health>,
}

impl Resources {
    /// Every resource with the name people know it by.
    pub(super) fn named(self) -> [(&'static str, Health); 3] {
        [("CPU", self.cpu), ("memory", self.memory), ("disk", self.disk)]
            .map(|(name, health)| (name, health.unwrap_or(Health::Unknown)))
    }
}

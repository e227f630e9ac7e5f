//! Task: work that a run orders from the agent on a GPU node.
//!
//! A task is executed at least once: an agent whose lease lapsed may have done it, and another execution must do no
//! harm. What must stay true: a task that ended never changes again, and only the newest epoch of its lease ends it.

use jiff::SignedDuration;

use crate::{names::names, run::plan::Stage};

names! {
    /// The kinds of tasks; the names are the document's.
    pub enum Kind {
        /// Stops taking work and waits until what runs on the node has ended.
        Drain = "node.drain",
        /// Removes the agent and everything it installed.
        Uninstall = "node.uninstall",
        /// Wipes the tenant's volumes on the data disks.
        CleanupStorage = "node.cleanup_storage",
        /// Resets the GPUs and clears their memory.
        ScrubGpu = "node.scrub_gpu",
        /// Proves that nothing of the tenant is left.
        ValidateClean = "node.validate_clean",
    }
}

names! {
    /// Where a task is.
    pub enum State {
        /// Waits for the agent.
        Queued = "queued",
        /// The agent has it, under a lease.
        Dispatched = "dispatched",
        /// Done.
        Succeeded = "succeeded",
        /// It was tried and did not work.
        Failed = "failed",
        /// The agent will not do it, and trying again changes nothing.
        Refused = "refused",
        /// The server no longer wants it.
        Withdrawn = "withdrawn",
    }
}

names! {
    /// How an agent says that a task ended.
    pub enum Outcome {
        /// Done.
        Succeeded = "succeeded",
        /// It did not work this time.
        Failed = "failed",
        /// It cannot be done on this node, or must not be.
        Refused = "refused",
    }
}

/// The stages that need the agent, and what each asks of it.
#[rustfmt::skip]
const STAGES: &[(Stage, Kind)] = &[
    (Stage::DrainNode,              Kind::Drain),
    (Stage::RemoveGpuaasNodeRecord, Kind::Uninstall),
    (Stage::CleanupStorage,         Kind::CleanupStorage),
    (Stage::ScrubGpu,               Kind::ScrubGpu),
    (Stage::ValidateCleanNode,      Kind::ValidateClean),
];

impl State {
    /// Whether the task is still to be done.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Queued | Self::Dispatched)
    }
}

impl From<Outcome> for State {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Succeeded => Self::Succeeded,
            Outcome::Failed => Self::Failed,
            Outcome::Refused => Self::Refused,
        }
    }
}

impl Kind {
    /// The task of a stage, for stages that need the agent.
    #[must_use]
    pub fn of(stage: Stage) -> Option<Self> {
        STAGES.iter().find(|(of, _)| *of == stage).map(|(_, kind)| *kind)
    }

    /// How long the agent lets it run before it ends it; shorter than the patience of its stage.
    #[must_use]
    pub const fn time_limit(self) -> SignedDuration {
        SignedDuration::from_mins(match self {
            Self::Drain => 50,
            Self::Uninstall | Self::ScrubGpu | Self::ValidateClean => 10,
            Self::CleanupStorage => 7 * 60,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Named as _;

    #[test]
    fn every_task_belongs_to_one_stage_and_ends_before_its_patience() {
        for &kind in Kind::ALL {
            let stages: Vec<_> = Stage::ALL.iter().filter(|stage| Kind::of(**stage) == Some(kind)).collect();
            assert_eq!(stages.len(), 1, "{kind}");
            assert!(kind.time_limit() < stages[0].patience(), "{kind}");
        }
    }
}

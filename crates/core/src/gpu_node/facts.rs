//! The facts about one GPU node that its decisions are made from: gathered once, before any decision.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{State, maas::Observed};
use crate::run::{
    self,
    plan::{Kind, Stage},
};

/// The facts about a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its state.
    pub state: State,
    /// Whether a site manages it.
    pub has_site: bool,
    /// Whether it has a machine in MAAS.
    pub has_machine: bool,
    /// Whether an agent has enrolled.
    pub has_agent: bool,
    /// Whether any agent ever did.
    pub ever_enrolled: bool,
    /// Whether the agent is still installed on the host.
    pub identity_kept: bool,
    /// The drift on record.
    pub drift: Option<Drift>,
    /// Its open run, or else its last one.
    pub run: Option<NewestRun>,
    /// The last observation of its machine.
    pub sight: Option<Sight>,
    /// The last report of its agent.
    pub health: Health,
    /// The failed checks that its agent reported last, if any failed.
    pub complaints: Option<String>,
    /// Whether its agent sends heartbeats, or may have while this server could not listen.
    pub heard: bool,
}

/// The newest run of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewestRun {
    /// Its id.
    pub id: String,
    /// What it is for.
    pub kind: Kind,
    /// Its state.
    pub state: run::State,
    /// Erasures that it, or a run before it, began and that were not proven complete since.
    pub unproven: BTreeSet<Stage>,
    /// Whether a person took the node back into use all the same.
    pub accepted: bool,
}

/// Recorded drift: a state in MAAS that does not fit the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// MAAS's word for the status.
    pub said: String,
    /// Whether the node was quarantined for this and for nothing else.
    pub quarantined: bool,
}

/// An observation of a machine in MAAS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sight {
    /// Its status and power.
    pub observed: Observed,
    /// MAAS's word for the status.
    pub said: String,
    /// Whether it is the machine that the node has now.
    pub own: bool,
}

/// The last heartbeat of the agent that speaks for a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// None since the node entered its state.
    Unheard,
    /// The agent is silent since then.
    Silent(Timestamp),
    /// These checks failed.
    Unhealthy(String),
    /// All checks passed.
    Healthy,
}

impl Facts {
    /// The run that works on the node.
    #[must_use]
    pub fn open_run(&self) -> Option<&NewestRun> {
        self.run.as_ref().filter(|run| run.state.is_open())
    }

    /// The kind and state of the open run, for the mapping.
    #[must_use]
    pub fn current(&self) -> Option<(Kind, run::State)> {
        self.run.as_ref().map(|run| (run.kind, run.state))
    }

    /// Whether MAAS can install the machine again.
    #[must_use]
    pub const fn can_be_reimaged(&self) -> bool {
        self.has_site && self.has_machine
    }

    /// Whether the node was neither enrolled nor onboarded, ever: there is nothing to drain, uninstall or release.
    #[must_use]
    pub const fn is_untouched(&self) -> bool {
        !self.ever_enrolled && !self.has_agent && !self.has_machine && !self.identity_kept
    }
}

//! What the stages of a run know.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wardroom_core::run::plan::Stage;
use wardroom_workflow::Data;

/// One value for all kinds of run; each stage fills in what it found out or made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Known {
    /// The task that was given to the agent, by stage.
    pub(crate) tasks: BTreeMap<Stage, String>,
}

impl Data for Known {
    fn restarted(&self) -> Self {
        Self::default()
    }
}

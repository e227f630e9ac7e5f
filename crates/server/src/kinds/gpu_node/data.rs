//! The data of a run on a GPU node, saved after each stage.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use wardroom_api::site::Budget as SiteBudget;
use wardroom_core::{
    Named as _,
    gpu_node::task::Kind,
    run::plan::{Kind as PlanKind, Stage},
};
use wardroom_workflow::Budget;

use super::{site::Snapshot, stages::sync};

/// The data of a run. It contains no secrets: those are references, or derived when needed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Data {
    /// Whether work on the node is ended instead of waited for.
    pub(crate) force: bool,
    /// The budgets of the site's stages, as they were when the run began or last loaded its site.
    pub(crate) budgets: BTreeMap<String, SiteBudget>,
    /// The site as it was when the run loaded it.
    pub(crate) site: Option<Snapshot>,
    pub(crate) machine: Option<Machine>,
    /// The turn in which a person allowed another try of the BMC's password.
    pub(crate) forgiven_in: Option<u64>,
    /// The machine's tag, pool and zone before the run took it over.
    pub(crate) claimed: Option<Claimed>,
    /// A create request was sent; its answer may be lost.
    pub(crate) creating: bool,
    /// The intent to start a commissioning; MAAS tells whether it started.
    pub(crate) commissioning: Option<Commissioning>,
    /// A commissioning that failed was asked for once more.
    pub(crate) recommissioned: bool,
    /// Links that this run made, and the one it is making.
    pub(crate) links: Vec<Link>,
    pub(crate) linking: Option<Linking>,
    pub(crate) laid_out: bool,
    /// Grows with every token that the run issues.
    pub(crate) round: u32,
    /// The digest of the user data of this round.
    pub(crate) rendered: Option<String>,
    /// The digest of the user data of the requested deployment.
    pub(crate) deployed: Option<String>,
    /// The time of the last hardware sync when the machine became deployed.
    pub(crate) synced_at_deploy: Option<Timestamp>,
    /// The hardware sync interval, in seconds.
    pub(crate) sync_seconds: Option<u32>,
    /// The failure of a deployment, with evidence.
    pub(crate) deploy_failure: Option<DeployFailure>,
    pub(crate) failed_installs: u32,
    /// The round in which the recovery of a deployment began.
    pub(crate) recovering: Option<u32>,
    pub(crate) failed_releases: u32,
    pub(crate) releasing: bool,
    /// The rounds of the agent's tasks, by stage.
    pub(crate) tasks: BTreeMap<Stage, u32>,
    /// How often the agent failed to scrub the GPUs.
    pub(crate) failed_scrubs: u32,
    /// The turn in which a person continued the run from a stage that had stated the consequences.
    pub(crate) said_in: Option<u64>,
    /// A person confirmed that the machine is off.
    pub(crate) switched_off_by_hand: bool,
    /// The deletion of the machine was requested; MAAS tells whether it was done.
    pub(crate) deleting: bool,
    /// The agent's evidence, such as for each disk, by stage.
    pub(crate) proofs: BTreeMap<Stage, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) system_id: String,
    /// Whether this run created it; only then it may delete it.
    pub(crate) created: bool,
}

/// The tag, pool and zone of a machine before a run took it over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claimed {
    pub(crate) tagged: bool,
    /// Its earlier pool.
    pub(crate) pool: Option<String>,
    /// Its earlier zone.
    pub(crate) zone: Option<String>,
}

/// The intent to commission a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Commissioning {
    /// MAAS's number of the previous commissioning. If the number is still the same later, the call never
    /// arrived.
    pub(crate) before: Option<i64>,
}

/// A link that this run made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Link {
    pub(crate) interface: i64,
    pub(crate) link: i64,
}

/// A link that is being made: links beyond the known ones are ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Linking {
    pub(crate) interface: i64,
    pub(crate) subnet: i64,
    pub(crate) known: Vec<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeployFailure {
    pub(crate) cause: Cause,
    pub(crate) evidence: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cause {
    /// The system was installed and did not find its data source.
    Datasource,
    Installation,
    Power,
    /// Unexplained; a person ordered another attempt.
    Unexplained,
}

impl wardroom_workflow::Data for Data {
    type Subject = super::subject::GpuNode;

    fn restarted(&self) -> Self {
        // Tokens of earlier rounds stay void, and proofs of earlier tasks no longer count.
        let Self { force, budgets, round, tasks, .. } = self.clone();
        let mut anew = Self { force, budgets, round, tasks, ..Self::default() };
        for stage in Stage::ALL.iter().filter(|stage| Kind::of(**stage).is_some()) {
            anew.next_task(*stage);
        }
        anew
    }

    fn evidence(&self, stage: Stage) -> Option<String> {
        self.proofs.get(&stage).cloned()
    }

    /// Returns why the site leaves a stage out, by the settings that the run loaded.
    fn left_out(&self, kind: PlanKind, stage: Stage) -> Option<String> {
        let site = self.site.as_ref()?;
        let settings = &site.settings;
        let (option, is_on) = match (kind, stage) {
            // A reimage erases the disks at the release; wiping them first is the site's choice.
            (PlanKind::Reimage, Stage::CleanupStorage) => ("cleanup_on_reimage", settings.cleanup_on_reimage),
            (_, Stage::RemoveMaasRecord) => ("remove_machine", settings.remove_machine),
            (_, Stage::EnsureHardwareSyncConfigured | Stage::WaitForHardwareSyncHealthy) => {
                ("hardware_sync", settings.hardware_sync)
            }
            _ => return None,
        };
        (!is_on).then(|| format!("the setting {option} of site {} is off", site.name))
    }

    fn budget(&self, stage: Stage) -> Budget {
        let set = self.budgets.get(stage.as_str()).cloned().unwrap_or_default();
        let minutes = set.patience_minutes.map(|minutes| SignedDuration::from_mins(minutes.into()));
        let patience =
            minutes.or(set.patience_seconds.map(|seconds| SignedDuration::from_secs(seconds.into())));
        Budget { retries: set.retries, patience: patience.or_else(|| self.longer(stage)) }
    }
}

impl Data {
    /// A longer patience for machines with a long hardware sync interval.
    fn longer(&self, stage: Stage) -> Option<SignedDuration> {
        const LITTLE: SignedDuration = SignedDuration::from_mins(5);
        let every = self.sync_seconds.filter(|_| stage == Stage::WaitForHardwareSyncHealthy)?;
        let needed = sync::first_report_patience(SignedDuration::from_secs(every.into()));
        (needed > stage.patience()).then(|| needed.saturating_add(LITTLE))
    }

    /// Forgets work on another machine: none of it is on this one or has to be undone there.
    pub(crate) fn turn_to(&mut self, system_id: &str) {
        if self.machine.as_ref().is_none_or(|machine| machine.system_id == system_id) {
            return;
        }
        let Self { force, budgets, site, forgiven_in, round, said_in, tasks, proofs, .. } =
            std::mem::take(self);
        // The next machine gets a new token.
        let round = round + 1;
        *self = Self { force, budgets, site, forgiven_in, round, said_in, tasks, proofs, ..Self::default() };
    }

    pub(crate) fn task_round(&self, stage: Stage) -> u32 {
        self.tasks.get(&stage).copied().unwrap_or(1)
    }

    /// The stage's next task is a new one.
    pub(crate) fn next_task(&mut self, stage: Stage) {
        let next = self.task_round(stage) + 1;
        self.tasks.insert(stage, next);
    }
}

#[cfg(test)]
mod tests {
    use wardroom_workflow::Data as _;

    use super::*;

    /// Three reports of a machine are waited for, however seldom it reports.
    #[test]
    fn an_agent_that_beats_seldom_is_waited_for() {
        let minutes = |seconds| {
            let data = Data { sync_seconds: seconds, ..Data::default() };
            let patience = |stage| data.budget(stage).patience.map(|patience| patience.as_mins());
            assert_eq!(patience(Stage::WaitForDeployed), None);
            patience(Stage::WaitForHardwareSyncHealthy)
        };
        assert_eq!([None, Some(60), Some(900), Some(3600)].map(minutes), [None, None, None, Some(185)]);
    }

    #[test]
    fn a_restarted_run_asks_for_every_proof_again() {
        let stages = [
            Stage::DrainNode,
            Stage::CleanupStorage,
            Stage::ScrubGpu,
            Stage::ValidateCleanNode,
            Stage::RemoveGpuaasNodeRecord,
        ];
        let mut data = Data::default();
        data.next_task(Stage::ScrubGpu);
        let anew = data.restarted();
        for stage in stages {
            assert_eq!(anew.task_round(stage), data.task_round(stage) + 1, "{stage}");
        }
        assert_eq!(anew.tasks.len(), stages.len());
    }
}

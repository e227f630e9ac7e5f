//! What the stages of a run on a GPU node know, saved after each of them.

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

/// What a run knows. Nothing of it is a secret: those are references, or derived anew.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Data {
    /// What runs on the node is ended instead of waited for.
    pub(crate) force: bool,
    /// The budgets of the site's stages, as they were when the run began or last loaded its site.
    pub(crate) budgets: BTreeMap<String, SiteBudget>,
    /// The site as it was when the run loaded it.
    pub(crate) site: Option<Snapshot>,
    pub(crate) machine: Option<Machine>,
    /// The turn in which a person let the password of the BMC be tried again.
    pub(crate) forgiven_in: Option<u64>,
    /// What the machine was before the run made it ours.
    pub(crate) claimed: Option<Claimed>,
    /// A create was sent, and its answer may have got lost.
    pub(crate) creating: bool,
    /// A commissioning was to be asked for; only MAAS says whether it was.
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
    /// The digest of the user data that a deployment was asked for with.
    pub(crate) deployed: Option<String>,
    /// What MAAS said of the last hardware sync when it called the machine deployed.
    pub(crate) synced_at_deploy: Option<Timestamp>,
    /// After how many seconds the machine reports its hardware again.
    pub(crate) sync_seconds: Option<u32>,
    /// Why a deployment failed, and what was seen.
    pub(crate) deploy_failure: Option<DeployFailure>,
    pub(crate) failed_installs: u32,
    /// The round in which the recovery of a deployment began.
    pub(crate) recovering: Option<u32>,
    /// How often a release was asked for and failed.
    pub(crate) failed_releases: u32,
    pub(crate) releasing: bool,
    /// Rounds of the tasks that the agent was asked for, by stage.
    pub(crate) tasks: BTreeMap<Stage, u32>,
    /// How often the agent failed to scrub the GPUs.
    pub(crate) failed_scrubs: u32,
    /// The turn in which a person sent the run on from a stage that had told what this would mean.
    pub(crate) said_in: Option<u64>,
    /// A person said that the machine is off.
    pub(crate) switched_off_by_hand: bool,
    /// The deletion of the machine was asked for; only MAAS says whether it was done.
    pub(crate) deleting: bool,
    /// What the agent said it did, such as to each disk, by stage.
    pub(crate) proofs: BTreeMap<Stage, String>,
}

/// The machine in MAAS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) system_id: String,
    /// Whether this run created it; only then it may delete it.
    pub(crate) created: bool,
}

/// What a machine was before a run made it ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claimed {
    /// Whether it got its tag from the run.
    pub(crate) tagged: bool,
    /// The pool that it was taken from.
    pub(crate) pool: Option<String>,
    /// The zone that it was taken from.
    pub(crate) zone: Option<String>,
}

/// The intent to have a machine commissioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Commissioning {
    /// What MAAS called the last commissioning before. MAAS calls every one by another number, so that the same
    /// number later proves that the call never arrived.
    pub(crate) before: Option<i64>,
}

/// A link that this run made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Link {
    pub(crate) interface: i64,
    pub(crate) link: i64,
}

/// A link that is being made: what comes on top of the known ones is ours.
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

/// What kind of failure a deployment had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cause {
    /// The system was installed and did not find its data source.
    Datasource,
    Installation,
    Power,
    /// Nothing explains it; a person had it tried once more.
    Unexplained,
}

impl wardroom_workflow::Data for Data {
    type Subject = super::subject::GpuNode;

    fn restarted(&self) -> Self {
        // A token of an earlier round stays void, and what an earlier task proved is not proven any more.
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

    /// What the site does not ask for, as it said when the run loaded it.
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
        let patience = set.patience_minutes.map(|minutes| SignedDuration::from_mins(minutes.into()));
        Budget { retries: set.retries, patience: patience.or_else(|| self.longer(stage)) }
    }
}

impl Data {
    /// A machine that reports its hardware seldom is waited for longer than others; how long, the stage itself says.
    fn longer(&self, stage: Stage) -> Option<SignedDuration> {
        const LITTLE: SignedDuration = SignedDuration::from_mins(5);
        let every = self.sync_seconds.filter(|_| stage == Stage::WaitForHardwareSyncHealthy)?;
        let borne = sync::borne(SignedDuration::from_secs(every.into()));
        (borne > stage.patience()).then(|| borne.saturating_add(LITTLE))
    }

    /// Forgets what was done to another machine than this one: nothing of it is on this one, or has to be taken back from it.
    pub(crate) fn turn_to(&mut self, system_id: &str) {
        if self.machine.as_ref().is_none_or(|machine| machine.system_id == system_id) {
            return;
        }
        let Self { force, budgets, site, forgiven_in, round, said_in, tasks, proofs, .. } =
            std::mem::take(self);
        // The next machine gets a token of its own.
        let round = round + 1;
        *self = Self { force, budgets, site, forgiven_in, round, said_in, tasks, proofs, ..Self::default() };
    }

    pub(crate) fn task_round(&self, stage: Stage) -> u32 {
        self.tasks.get(&stage).copied().unwrap_or(1)
    }

    /// The next task of a stage is another one.
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

//! The course of a run: which stage comes next, and which stages leave something behind.
//!
//! Stages marked [`When::OnFailure`] form a detour. A stage that breaks in the way the detour repairs enters it;
//! the end of the detour leads back to that stage, which then looks again.

use jiff::SignedDuration;

use super::plan::{Kind, Stage, Step, When};

/// Where a run goes after a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// To this stage.
    Stage(Stage),
    /// The plan is at its end.
    End,
}

impl Kind {
    /// The first stage.
    #[must_use]
    pub const fn first(self) -> Stage {
        self.plan()[0].stage
    }

    /// Returns the next stage after `stage`; `asked` says whether an optional stage is executed. A stage
    /// outside the plan leads to the end.
    pub fn after(self, stage: Stage, asked: impl Fn(Stage) -> bool) -> Next {
        let plan = self.plan();
        let Some(at) = plan.iter().position(|step| step.stage == stage) else { return Next::End };
        if plan[at].when == When::OnFailure {
            return match plan.get(at + 1) {
                Some(next) if next.when == When::OnFailure => Next::Stage(next.stage),
                _ => repaired(&plan[..at]),
            };
        }
        let taken = |step: &&Step| match step.when {
            When::Always => true,
            When::OnRequest | When::ByPolicy => asked(step.stage),
            When::OnFailure => false,
        };
        plan[at + 1..].iter().find(taken).map_or(Next::End, |step| Next::Stage(step.stage))
    }

    /// The first stage of the detour that repairs `stage`, if there is one.
    #[must_use]
    pub fn detour(self, stage: Stage) -> Option<Stage> {
        let plan = self.plan();
        let at = plan.iter().position(|step| step.stage == stage)?;
        let next = plan.get(at + 1)?;
        (plan[at].when != When::OnFailure && next.when == When::OnFailure).then_some(next.stage)
    }

    /// Returns how long the run may be at a stage. A bootstrap by hand has as long as the token lives.
    #[must_use]
    pub const fn patience_at(self, stage: Stage) -> SignedDuration {
        if matches!(self, Self::Bootstrap) { SignedDuration::from_hours(24) } else { stage.patience() }
    }

    /// Whether an operator may skip a stage, with a reason: stages that need an agent, for a host without
    /// one. Stages that erase or prove can be skipped only if MAAS takes the machine back afterwards; a node
    /// that returns to use must be proven clean.
    #[must_use]
    pub fn can_skip(self, stage: Stage) -> bool {
        let released = matches!(self, Self::Reimage | Self::FullDecommission);
        let able = stage.asks_the_host() || (released && stage.erases_or_proves());
        able && self.plan().iter().any(|step| step.stage == stage)
    }

    /// Returns the stages that can be skipped from a stage on: those that need a host whose agents are all
    /// gone.
    pub fn skippable_from(self, stage: Stage) -> impl Iterator<Item = Stage> {
        let ahead = self.plan().iter().map(|step| step.stage).skip_while(move |&ahead| ahead != stage);
        ahead.filter(move |&ahead| self.can_skip(ahead))
    }

    /// Whether a run that waits for a silent host reaches its end when stages are skipped from this one on.
    /// Stages that erase or prove are not skipped while an agent speaks for the node.
    #[must_use]
    pub fn gets_past(self, stage: Stage) -> bool {
        self.can_skip(stage)
            && !self
                .plan()
                .iter()
                .any(|step| step.stage.erases_or_proves() && self.is_past(step.stage, stage))
    }

    /// Whether `stage` comes at or after `point` in the plan.
    #[must_use]
    pub fn is_past(self, stage: Stage, point: Stage) -> bool {
        let place = |wanted| self.plan().iter().position(|step| step.stage == wanted);
        matches!((place(stage), place(point)), (Some(at), Some(point)) if at >= point)
    }
}

/// The stage before the detour.
fn repaired(before: &[Step]) -> Next {
    let origin = before.iter().rev().find(|step| step.when != When::OnFailure);
    origin.map_or(Next::End, |step| Next::Stage(step.stage))
}

impl Stage {
    /// The undo of a stage, if it has one. Other stages only observe, or cannot be undone, such as an
    /// erasure.
    #[must_use]
    pub const fn undo(self) -> Option<&'static str> {
        match self {
            Self::CreateOrFindInMaas => Some("deletes the machine in MAAS if this run created it"),
            Self::CommissionNode => Some("aborts the commissioning if it is still going on"),
            Self::ConfigureStorage => Some("restores the storage configuration"),
            Self::ApplyRocePhase2 => Some("removes the links that this run made"),
            Self::EnsurePxeInterfaceAuto => Some("removes the link that this run made"),
            Self::RenderCloudInit => Some("revokes the enrolment token"),
            Self::DeployViaMaas | Self::RecoverForDatasourceRetry => {
                Some("aborts the deployment, then releases the machine")
            }
            Self::WaitForAgentEnrollment => Some("revokes the identity that enrolled"),
            Self::DrainNode => Some("withdraws the drain from the agent"),
            Self::RemoveGpuaasNodeRecord => Some("withdraws the uninstall from the agent"),
            Self::LoadSiteConfig
            | Self::ResolvePowerCredentials
            | Self::WaitForReady
            | Self::WaitForDeployed
            | Self::ClassifyDeployFailure
            | Self::EnsureHardwareSyncConfigured
            | Self::WaitForHardwareSyncHealthy
            | Self::DisableNode
            | Self::ForceReleaseAllocations
            | Self::CleanupStorage
            | Self::ScrubGpu
            | Self::ValidateCleanNode
            | Self::ReleaseMaasNode
            | Self::PowerOffMaasNode
            | Self::RetireGpuaasNode
            | Self::CleanupSecrets
            | Self::RemoveMaasRecord => None,
        }
    }

    /// Stages that only the agent on the host can carry out, and that protect only users of the host.
    const fn asks_the_host(self) -> bool {
        matches!(self, Self::DrainNode | Self::RemoveGpuaasNodeRecord)
    }

    /// Stages that protect the next tenant from data of the last one.
    #[must_use]
    pub const fn erases_or_proves(self) -> bool {
        self.erases() || matches!(self, Self::ValidateCleanNode)
    }

    /// Stages that erase data of the node.
    #[must_use]
    pub const fn erases(self) -> bool {
        matches!(self, Self::CleanupStorage | Self::ScrubGpu)
    }
}

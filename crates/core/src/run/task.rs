//! Tasks that a run gives to the agent on its node.
//!
//! A task is dispatched under a lease. An expired lease changes nothing but who may take the task next; a result
//! counts only under the lease it was worked on.

use super::plan::Stage;
use crate::names::names;

names! {
    /// What an agent is asked to do.
    pub enum Kind {
        /// Let running work end, and take no new work.
        Drain = "node.drain",
        /// Remove the agent and everything it brought.
        Uninstall = "node.uninstall",
        /// Wipe the tenant's disks.
        CleanupStorage = "node.cleanup_storage",
        /// Reset the GPUs and clear their memory.
        ScrubGpu = "node.scrub_gpu",
        /// Prove that nothing of the tenant is left.
        ValidateClean = "node.validate_clean",
    }
}

names! {
    /// How far a task is.
    pub enum State {
        /// It waits for the agent.
        Queued = "queued",
        /// The agent has it.
        Dispatched = "dispatched",
        /// The agent did it.
        Succeeded = "succeeded",
        /// The agent tried, and it did not work.
        Failed = "failed",
        /// The agent will not do it.
        Refused = "refused",
        /// The run does not want it any more.
        Withdrawn = "withdrawn",
    }
}

impl State {
    /// Whether the agent still has something to do about it.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Queued | Self::Dispatched)
    }
}

impl Stage {
    /// The task that the stage gives to the agent, if it gives one.
    #[must_use]
    pub const fn task(self) -> Option<Kind> {
        match self {
            Self::DrainNode => Some(Kind::Drain),
            Self::RemoveGpuaasNodeRecord => Some(Kind::Uninstall),
            Self::CleanupStorage => Some(Kind::CleanupStorage),
            Self::ScrubGpu => Some(Kind::ScrubGpu),
            Self::ValidateCleanNode => Some(Kind::ValidateClean),
            Self::LoadSiteConfig
            | Self::ResolvePowerCredentials
            | Self::CreateOrFindInMaas
            | Self::CommissionNode
            | Self::WaitForReady
            | Self::ConfigureStorage
            | Self::ApplyRocePhase2
            | Self::EnsurePxeInterfaceAuto
            | Self::RenderCloudInit
            | Self::DeployViaMaas
            | Self::WaitForDeployed
            | Self::ClassifyDeployFailure
            | Self::RecoverForDatasourceRetry
            | Self::EnsureHardwareSyncConfigured
            | Self::WaitForHardwareSyncHealthy
            | Self::WaitForAgentEnrollment
            | Self::DisableNode
            | Self::ForceReleaseAllocations
            | Self::ReleaseMaasNode
            | Self::PowerOffMaasNode
            | Self::RetireGpuaasNode
            | Self::CleanupSecrets
            | Self::RemoveMaasRecord => None,
        }
    }
}

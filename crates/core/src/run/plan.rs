//! Plans: which stages a run goes through, in which order.
//!
//! The documents list stages without an order. Ours: checks that do not touch the node first, stages that
//! need a live host before release and power-off, and a node's last move is committed together with the run's
//! end.

use Stage::*;
use When::{Always, ByPolicy, OnFailure, OnRequest};
use jiff::SignedDuration;

use crate::names::names;

/// One stage of a plan, and when it is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Step {
    /// What is done.
    pub stage: Stage,
    /// When.
    pub when: When,
}

names! {
    /// When a stage of a plan is executed.
    pub enum When {
        /// In every run.
        Always = "always",
        /// If the request that started the run asked for it.
        OnRequest = "on_request",
        /// If the site's settings ask for it.
        ByPolicy = "by_policy",
        /// If the stage before it failed in the way it repairs.
        OnFailure = "on_failure",
    }
}

const fn step(stage: Stage, when: When) -> Step {
    Step { stage, when }
}

names! {
    /// What a run is for.
    pub enum Kind {
        /// Takes a machine from MAAS's discovery to active.
        Onboarding = "onboarding",
        /// Waits for a node that was bootstrapped by hand.
        Bootstrap = "bootstrap",
        /// Cleans a node and returns it with the same system and identity.
        SoftReset = "soft_reset",
        /// Wipes the tenant's disks and returns the node.
        StorageCleanup = "storage_cleanup",
        /// Installs a new system under the same identity.
        Reimage = "reimage",
        /// Ends the node's identity.
        FullDecommission = "full_decommission",
        /// Takes the node out of scheduling.
        Retire = "retire",
        /// Removes a retired node.
        Remove = "remove",
    }
}

/// Onboarding through MAAS: the document's sixteen stages.
#[rustfmt::skip]
pub const ONBOARDING: &[Step] = &[
    step(LoadSiteConfig,              Always),
    step(ResolvePowerCredentials,     Always),
    step(CreateOrFindInMaas,          Always),
    step(CommissionNode,              Always),
    step(WaitForReady,                Always),
    step(ConfigureStorage,            Always),
    step(ApplyRocePhase2,             Always),
    step(EnsurePxeInterfaceAuto,      Always),
    step(RenderCloudInit,             Always),
    step(DeployViaMaas,               Always),
    step(WaitForDeployed,             Always),
    step(ClassifyDeployFailure,       OnFailure),
    step(RecoverForDatasourceRetry,   OnFailure),
    step(EnsureHardwareSyncConfigured, Always),
    step(WaitForHardwareSyncHealthy,  Always),
    step(WaitForAgentEnrollment,      Always),
];

/// A node that was bootstrapped by hand only has to enrol.
pub const BOOTSTRAP: &[Step] = &[step(WaitForAgentEnrollment, Always)];

/// Same system, same identity; ends `draining → offline`, and health proves `active`.
#[rustfmt::skip]
pub const SOFT_RESET: &[Step] = &[
    step(DisableNode,             Always),
    step(ForceReleaseAllocations, OnRequest),
    step(DrainNode,               Always),
    step(CleanupStorage,          Always),
    step(ScrubGpu,                Always),
    step(ValidateCleanNode,       Always),
];

/// As a soft reset, without touching the GPUs.
#[rustfmt::skip]
pub const STORAGE_CLEANUP: &[Step] = &[
    step(DisableNode,             Always),
    step(ForceReleaseAllocations, OnRequest),
    step(DrainNode,               Always),
    step(CleanupStorage,          Always),
    step(ValidateCleanNode,       Always),
];

/// New system, same identity: the node is `retired` until its agent enrols again.
///
/// A release ends in `New` when the last commissioning did not pass, hence the commissioning, which is
/// done at once for a machine that is `Ready`.
#[rustfmt::skip]
pub const REIMAGE: &[Step] = &[
    step(LoadSiteConfig,              Always),
    step(DisableNode,                 Always),
    step(ForceReleaseAllocations,     OnRequest),
    step(DrainNode,                   Always),
    step(CleanupStorage,              ByPolicy),
    step(ScrubGpu,                    Always),
    step(ValidateCleanNode,           Always),
    step(RetireGpuaasNode,            Always),
    step(ReleaseMaasNode,             Always),
    step(CommissionNode,              Always),
    step(WaitForReady,                Always),
    step(ConfigureStorage,            Always),
    step(ApplyRocePhase2,             Always),
    step(EnsurePxeInterfaceAuto,      Always),
    step(RenderCloudInit,             Always),
    step(DeployViaMaas,               Always),
    step(WaitForDeployed,             Always),
    step(ClassifyDeployFailure,       OnFailure),
    step(RecoverForDatasourceRetry,   OnFailure),
    step(EnsureHardwareSyncConfigured, Always),
    step(WaitForHardwareSyncHealthy,  Always),
    step(WaitForAgentEnrollment,      Always),
];

/// The end of the identity: all thirteen decommission stages. The uninstall needs a live host, so the
/// record is removed before the machine is released and switched off.
#[rustfmt::skip]
pub const FULL_DECOMMISSION: &[Step] = &[
    step(LoadSiteConfig,          Always),
    step(DisableNode,             Always),
    step(ForceReleaseAllocations, OnRequest),
    step(DrainNode,               Always),
    step(CleanupStorage,          Always),
    step(ScrubGpu,                Always),
    step(ValidateCleanNode,       Always),
    step(RetireGpuaasNode,        Always),
    step(RemoveGpuaasNodeRecord,  Always),
    step(ReleaseMaasNode,         Always),
    step(PowerOffMaasNode,        Always),
    step(RemoveMaasRecord,        ByPolicy),
    step(CleanupSecrets,          Always),
];

/// Out of scheduling, identity kept.
pub const RETIRE: &[Step] =
    &[step(DisableNode, Always), step(DrainNode, Always), step(RetireGpuaasNode, Always)];

/// Removal of a node that is retired already.
pub const REMOVE: &[Step] = &[step(RemoveGpuaasNodeRecord, Always), step(CleanupSecrets, Always)];

impl Kind {
    /// The stages of the run.
    #[must_use]
    pub const fn plan(self) -> &'static [Step] {
        match self {
            Self::Onboarding => ONBOARDING,
            Self::Bootstrap => BOOTSTRAP,
            Self::SoftReset => SOFT_RESET,
            Self::StorageCleanup => STORAGE_CLEANUP,
            Self::Reimage => REIMAGE,
            Self::FullDecommission => FULL_DECOMMISSION,
            Self::Retire => RETIRE,
            Self::Remove => REMOVE,
        }
    }

    /// The longest expected duration of the run: the sum of its stages.
    #[must_use]
    pub fn patience(self) -> SignedDuration {
        self.plan().iter().map(|step| self.patience_at(step.stage)).sum()
    }

    /// Whether the run brings a node in; every other one takes it out, wholly or for a while.
    #[must_use]
    pub const fn is_onboarding(self) -> bool {
        matches!(self, Self::Onboarding | Self::Bootstrap)
    }
}

names! {
    /// The stages of runs; the names are the document's.
    pub enum Stage {
        /// Freezes the site's settings into the run.
        LoadSiteConfig = "load_site_config",
        /// Resolves the secret of the BMC and proves that it works.
        ResolvePowerCredentials = "resolve_power_credentials",
        /// Finds the machine in MAAS, or creates it.
        CreateOrFindInMaas = "create_or_find_in_maas",
        /// Has MAAS commission the machine.
        CommissionNode = "commission_node",
        /// Waits until MAAS calls the machine ready.
        WaitForReady = "wait_for_ready",
        /// Selects the boot disk and lays out the storage.
        ConfigureStorage = "configure_storage",
        /// Configures the fabric interfaces.
        ApplyRocePhase2 = "apply_roce_phase2",
        /// Makes the boot interface take its address from the provisioning subnet.
        EnsurePxeInterfaceAuto = "ensure_pxe_interface_auto",
        /// Renders the user data with a one-time enrolment token.
        RenderCloudInit = "render_cloud_init",
        /// Has MAAS deploy the system.
        DeployViaMaas = "deploy_via_maas",
        /// Waits until MAAS calls the machine deployed.
        WaitForDeployed = "wait_for_deployed",
        /// Finds out why a deployment failed.
        ClassifyDeployFailure = "classify_deploy_failure",
        /// Releases the machine and deploys it again, a bounded number of times.
        RecoverForDatasourceRetry = "recover_for_datasource_retry",
        /// Makes sure that MAAS keeps the hardware inventory in sync.
        EnsureHardwareSyncConfigured = "ensure_hardware_sync_configured",
        /// Waits for a hardware sync that is newer than the deployment.
        WaitForHardwareSyncHealthy = "wait_for_hardware_sync_healthy",
        /// Waits until the agent has enrolled and is healthy.
        WaitForAgentEnrollment = "wait_for_agent_enrollment",
        /// Makes the node unschedulable and starts draining it.
        DisableNode = "disable_node",
        /// Ends the allocations on the node.
        ForceReleaseAllocations = "force_release_allocations",
        /// Has the agent drain the node.
        DrainNode = "drain_node",
        /// Has the agent wipe the tenant's disks.
        CleanupStorage = "cleanup_storage",
        /// Has the agent reset the GPUs and clear their memory.
        ScrubGpu = "scrub_gpu",
        /// Proves independently that the node is clean.
        ValidateCleanNode = "validate_clean_node",
        /// Has MAAS release the machine.
        ReleaseMaasNode = "release_maas_node",
        /// Switches the machine off and confirms it.
        PowerOffMaasNode = "power_off_maas_node",
        /// Moves the node to `retired`.
        RetireGpuaasNode = "retire_gpuaas_node",
        /// Moves the node to `removing` and has the agent uninstall itself.
        RemoveGpuaasNodeRecord = "remove_gpuaas_node_record",
        /// Revokes the node's credentials and tokens.
        CleanupSecrets = "cleanup_secrets",
        /// Deletes the machine in MAAS.
        RemoveMaasRecord = "remove_maas_record",
    }
}

impl Stage {
    /// How long the stage is expected to take, retries included. MAAS's own verdict comes after 30 minutes
    /// for most operations, so ours must come later.
    #[must_use]
    pub const fn patience(self) -> SignedDuration {
        SignedDuration::from_mins(match self {
            LoadSiteConfig
            | RenderCloudInit
            | ClassifyDeployFailure
            | DisableNode
            | RetireGpuaasNode
            | CleanupSecrets
            | EnsureHardwareSyncConfigured => 5,
            ResolvePowerCredentials
            | CreateOrFindInMaas
            | CommissionNode
            | ConfigureStorage
            | ApplyRocePhase2
            | EnsurePxeInterfaceAuto
            | DeployViaMaas
            | ForceReleaseAllocations
            | PowerOffMaasNode
            | RemoveMaasRecord => 15,
            ScrubGpu | ValidateCleanNode | RemoveGpuaasNodeRecord | WaitForAgentEnrollment => 30,
            WaitForReady | WaitForHardwareSyncHealthy => 45,
            WaitForDeployed | DrainNode | RecoverForDatasourceRetry => 60,
            // A full erase of large disks takes hours.
            CleanupStorage | ReleaseMaasNode => 8 * 60,
        })
    }

    /// How long its undo may take. That of a deployment, repaired or not, is a release, in which MAAS may erase the disks.
    #[must_use]
    pub const fn patience_of_undo(self) -> SignedDuration {
        if matches!(self, DeployViaMaas | RecoverForDatasourceRetry) {
            ReleaseMaasNode.patience()
        } else {
            self.patience()
        }
    }
}

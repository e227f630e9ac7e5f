//! Adopting the observed state: where a run continues when the machine was advanced outside of it.
//!
//! Only ever forwards, and never past a fact that MAAS cannot know: that the agent enrolled, that a disk is
//! clean. A system that the run did not deploy has no token to enrol with for it, so it is never adopted.

use super::plan::{Kind, Stage};
use crate::gpu_node::maas::{
    Observed,
    Status::{
        Allocated, Commissioning, Deployed, Deploying, FailedDeployment, FailedDiskErasing, FailedReleasing,
        New, Ready, Reserved, Testing,
    },
};

/// The origin of the system that is, or is to be, on the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// The run itself.
    OfTheRun,
    /// Deployed outside of the run, or by an earlier run.
    OfOthers,
}

/// Returns the stage at which a run that is stuck `at` a stage continues, given the observation; nothing if
/// the run would not have brought that about from there.
#[must_use]
pub fn goes_on_at(kind: Kind, at: Stage, observed: Observed, system: System) -> Option<Stage> {
    let point = match kind {
        Kind::Onboarding => coming(observed, system),
        // Until its release is over a machine may still be as the last deployment left it.
        Kind::Reimage if kind.is_past(at, Stage::CommissionNode) => coming(observed, system),
        Kind::FullDecommission if kind.is_past(at, Stage::ReleaseMaasNode) => going(observed),
        Kind::Reimage
        | Kind::FullDecommission
        | Kind::Bootstrap
        | Kind::SoftReset
        | Kind::StorageCleanup
        | Kind::Retire
        | Kind::Remove => None,
    };
    point.filter(|&point| kind.is_past(point, at))
}

/// Whether the machine is in use, so that MAAS must release it before a run can bring it in.
#[must_use]
pub const fn is_in_use(observed: Observed) -> bool {
    matches!(
        observed,
        Observed::Present {
            status: Reserved
                | Allocated
                | Deploying
                | Deployed
                | FailedDeployment
                | FailedReleasing
                | FailedDiskErasing,
            ..
        }
    )
}

fn coming(observed: Observed, system: System) -> Option<Stage> {
    let Observed::Present { status, .. } = observed else { return None };
    if system == System::OfOthers && is_in_use(observed) {
        return None;
    }
    let points = [
        (New, Stage::CommissionNode),
        (Commissioning, Stage::WaitForReady),
        (Testing, Stage::WaitForReady),
        (Ready, Stage::ConfigureStorage),
        (Deploying, Stage::WaitForDeployed),
        (Deployed, Stage::EnsureHardwareSyncConfigured),
    ];
    points.iter().find(|(known, _)| *known == status).map(|(_, stage)| *stage)
}

fn going(observed: Observed) -> Option<Stage> {
    match observed {
        Observed::Absent => Some(Stage::CleanupSecrets),
        // Whether its record goes is the site's policy, so the switching off is confirmed once more.
        Observed::Present { status: Ready | New, .. } => Some(Stage::PowerOffMaasNode),
        Observed::Present { .. } => None,
    }
}

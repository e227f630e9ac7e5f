//! The effect of each operation in each status: the recorded matrix, as rows.
//!
//! An operation without a row is refused. Two rules do not depend on the status: powering on and marking broken are for
//! owned machines, and a locked machine is neither released nor deleted.

use wardroom_core::gpu_node::maas::Status::{self, *};

use super::route::Op;

/// The effect on the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum To {
    /// Success without an effect.
    Same,
    /// This status, in the answer and after it.
    Is(Status),
    /// The answer shows the old status; the next look shows this one.
    Late(Status),
    /// The same, with the status from before the work.
    LatePrevious,
    /// The answer shows the exit from rescue mode; the next look shows the status from before.
    Exiting,
}

struct Row(Op, &'static [Status], To);

#[rustfmt::skip]
const TABLE: &[Row] = &[
    Row(Op::Commission,      &[New, FailedCommissioning, Ready, Broken], To::Is(Commissioning)),
    Row(Op::Allocate,        &[Ready],                                   To::Is(Allocated)),
    Row(Op::Deploy,          &[Ready, Allocated],                        To::Is(Deploying)),
    Row(Op::Release,         &[Ready, Releasing],                        To::Same),
    Row(Op::Release,         RELEASABLE,                                 To::Is(Releasing)),
    Row(Op::Abort,           &[Commissioning],                           To::Late(New)),
    Row(Op::Abort,           &[Deploying],                               To::Late(Allocated)),
    Row(Op::Abort,           &[DiskErasing],                             To::Late(FailedDiskErasing)),
    Row(Op::Abort,           &[Testing],                                 To::LatePrevious),
    Row(Op::SetLayout,       &[Ready],                                   To::Same),
    Row(Op::RestoreStorage,  &[Ready],                                   To::Same),
    Row(Op::LinkSubnet,      EDITABLE,                                   To::Same),
    Row(Op::UnlinkSubnet,    EDITABLE,                                   To::Same),
    Row(Op::Disconnect,      EDITABLE,                                   To::Same),
    Row(Op::UpdateInterface, EDITABLE,                                   To::Same),
    Row(Op::Lock,            &[Deployed, Deploying],                     To::Same),
    Row(Op::MarkFixed,       &[Broken],                                  To::Is(Ready)),
    Row(Op::RescueMode,      &[EnteringRescueMode],                      To::Same),
    Row(Op::RescueMode,      RESCUABLE,                                  To::Is(EnteringRescueMode)),
    Row(Op::ExitRescueMode,  &[ExitingRescueMode],                       To::LatePrevious),
    Row(Op::ExitRescueMode,  &[RescueMode, EnteringRescueMode, FailedEnteringRescueMode, FailedExitingRescueMode], To::Exiting),
    Row(Op::OverrideTesting, &[FailedTesting],                           To::Is(Ready)),
    Row(Op::Test,            TESTABLE,                                   To::Is(Testing)),
];

const RELEASABLE: &[Status] =
    &[Reserved, Deployed, Broken, Deploying, Allocated, FailedDeployment, FailedReleasing, FailedDiskErasing];

const EDITABLE: &[Status] = &[New, Ready, Allocated, Broken, FailedTesting];

const RESCUABLE: &[Status] = &[
    New,
    FailedCommissioning,
    Missing,
    Ready,
    Reserved,
    Deployed,
    Retired,
    Broken,
    Allocated,
    FailedDeployment,
    FailedDiskErasing,
    FailedEnteringRescueMode,
    FailedTesting,
];

const TESTABLE: &[Status] = &[
    New,
    FailedCommissioning,
    Missing,
    Ready,
    Reserved,
    Deployed,
    Retired,
    Broken,
    Allocated,
    FailedDeployment,
    FailedReleasing,
    FailedDiskErasing,
    RescueMode,
    FailedEnteringRescueMode,
    FailedExitingRescueMode,
    FailedTesting,
];

/// Statuses in which a machine that a test puts there has an owner, as in the recording.
pub(super) const OWNED: &[Status] = &[
    Commissioning,
    Deployed,
    Deploying,
    Allocated,
    FailedDeployment,
    Releasing,
    FailedReleasing,
    DiskErasing,
    FailedDiskErasing,
];

pub(super) fn find(op: Op, from: Status) -> Option<To> {
    TABLE.iter().find(|row| row.0 == op && row.1.contains(&from)).map(|row| row.2)
}

/// Code and text of a refusal; a text in braces is JSON.
pub(super) fn refusal(op: Op, status: Status, id: &str) -> (u16, String) {
    let label = label(status);
    let network =
        |what: &str| format!("Cannot {what} because the machine is not New, Ready, Allocated, or Broken.");
    let unavailable = |what: &str| {
        format!("{{\"__all__\": [\"{what} is not available because of the current state of the node.\"]}}")
    };
    #[expect(clippy::wildcard_enum_match_arm, reason = "only these refuse by status")]
    match op {
        Op::Commission => (400, unavailable("Commission")),
        Op::Test => (400, unavailable("Test")),
        Op::Allocate => (409, format!("No machine with system ID {id} available.")),
        Op::Deploy => (409, format!("Can't deploy a machine that is in the '{label}' state")),
        Op::Release => (409, format!("Machine cannot be released in its current state ('{label}').")),
        Op::Abort => (409, format!("Cannot abort in current state: node {id} is in state {label}.")),
        Op::SetLayout => (409, "Cannot change the storage layout on a machine that is not Ready.".to_owned()),
        Op::RestoreStorage => {
            (409, "Cannot restore default storage on a machine that is not Ready.".to_owned())
        }
        Op::LinkSubnet => (409, network("link subnet interface")),
        Op::UnlinkSubnet => (409, network("unlink subnet interface")),
        Op::Disconnect => (409, network("disconnect interface")),
        Op::UpdateInterface => (409, network("update interface")),
        Op::Lock => (409, "Can't lock, node is not deployed or deploying".to_owned()),
        Op::MarkFixed => (409, "Can't mark a non-broken node as 'Ready'.".to_owned()),
        Op::RescueMode => (409, format!("Invalid transition: {label} -> Entering rescue mode.")),
        Op::ExitRescueMode => (409, format!("Invalid transition: {label} -> Exiting rescue mode.")),
        Op::OverrideTesting => {
            (409, "Unable to override node status. Node is not in 'Failed testing' status.".to_owned())
        }
        Op::PowerOn => (409, "Can't start node: it hasn't been allocated.".to_owned()),
        _ => (403, String::new()),
    }
}

/// MAAS's label of a status.
pub(super) fn label(status: Status) -> &'static str {
    const LABELS: [&str; 23] = [
        "New",
        "Commissioning",
        "Failed commissioning",
        "Missing",
        "Ready",
        "Reserved",
        "Deployed",
        "Retired",
        "Broken",
        "Deploying",
        "Allocated",
        "Failed deployment",
        "Releasing",
        "Releasing failed",
        "Disk erasing",
        "Failed disk erasing",
        "Rescue mode",
        "Entering rescue mode",
        "Failed to enter rescue mode",
        "Exiting rescue mode",
        "Failed to exit rescue mode",
        "Testing",
        "Failed testing",
    ];
    usize::try_from(status.code()).ok().and_then(|code| LABELS.get(code).copied()).unwrap_or("Unknown")
}

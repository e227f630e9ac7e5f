//! MAAS's answers about a machine, and the ones expected: observed upstream truth that we never own.

use Expect::{Absent, Any, Failed, PoweredOff};
use Status::*;

use super::State;
use crate::names::names;

/// Lists the statuses in the order of MAAS's integers, once.
macro_rules! statuses {
    ($($Name:ident,)+) => {
        /// MAAS's status of a machine: an integer on the wire, kept even when we do not know it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(from = "i64", into = "i64")]
        #[expect(missing_docs, reason = "the names are MAAS's own")]
        pub enum Status {
            $($Name,)+
            /// A status that a newer MAAS knows and we do not.
            Unknown(i64),
        }

        /// Every known status; its position is MAAS's integer.
        pub const STATUSES: [Status; 23] = [$(Status::$Name,)+];
    };
}

#[rustfmt::skip]
statuses! {
    New, Commissioning, FailedCommissioning, Missing, Ready, Reserved,
    Deployed, Retired, Broken, Deploying, Allocated, FailedDeployment,
    Releasing, FailedReleasing, DiskErasing, FailedDiskErasing, RescueMode, EnteringRescueMode,
    FailedEnteringRescueMode, ExitingRescueMode, FailedExitingRescueMode, Testing, FailedTesting,
}

impl From<i64> for Status {
    fn from(code: i64) -> Self {
        Self::from_code(code)
    }
}

impl From<Status> for i64 {
    fn from(status: Status) -> Self {
        status.code()
    }
}

impl Status {
    /// The status with this integer.
    #[must_use]
    pub fn from_code(code: i64) -> Self {
        usize::try_from(code)
            .ok()
            .and_then(|index| STATUSES.get(index).copied())
            .unwrap_or(Self::Unknown(code))
    }

    /// MAAS's integer for the status.
    #[must_use]
    pub fn code(self) -> i64 {
        if let Self::Unknown(code) = self {
            return code;
        }
        STATUSES.iter().zip(0..).find(|(status, _)| **status == self).map_or(-1, |(_, code)| code)
    }

    /// The class that the design document calls "Failed": MAAS tried something and it did not work.
    #[must_use]
    pub const fn is_failed(self) -> bool {
        matches!(
            self,
            FailedCommissioning
                | FailedDeployment
                | FailedReleasing
                | FailedDiskErasing
                | FailedEnteringRescueMode
                | FailedExitingRescueMode
                | FailedTesting
        )
    }
}

names! {
    /// The power of a machine as MAAS queried it; only a confirmed `off` is off.
    pub enum Power {
        /// The machine is on.
        On = "on",
        /// The machine is off.
        Off = "off",
        /// MAAS does not know.
        Unknown = "unknown",
        /// The query failed.
        Error = "error",
    }
}

/// One observation of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// MAAS has no such machine.
    Absent,
    /// MAAS has it.
    Present {
        /// Its status.
        status: Status,
        /// Its power.
        power: Power,
    },
}

/// An expected observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    /// Anything, because nothing is required.
    Any,
    /// This status.
    Is(Status),
    /// Any status of the class "failed".
    Failed,
    /// Any status, as long as the power is off.
    PoweredOff,
    /// Not in MAAS.
    Absent,
}

/// The expected observations while a node is in a state.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Expectation {
    /// The node's state.
    pub state: State,
    /// Expected at any time.
    pub expected: &'static [Expect],
    /// Also expected while a run is open, because the run causes it, or failed in it.
    pub while_worked_on: &'static [Expect],
}

const fn is(status: Status) -> Expect {
    Expect::Is(status)
}

/// Statuses on the way to `Deployed`, and its failures.
const DEPLOYING: &[Expect] = &[
    is(New),
    is(Commissioning),
    is(Testing),
    is(Ready),
    is(Allocated),
    is(Deploying),
    is(Deployed),
    is(Releasing),
    is(DiskErasing),
    is(Broken),
    Failed,
];
/// Further statuses of an onboarding, and its failures.
const ENROLLING: &[Expect] = &[is(Testing), is(Releasing), is(DiskErasing), is(Broken), Failed];
/// Statuses on the way out of MAAS, and its failures.
const RELEASING: &[Expect] = &[is(New), is(Releasing), is(DiskErasing), is(Broken), Failed];
/// A dead host is drained without an agent, so the same statuses are expected as for a quarantined one.
const DRAINING: &[Expect] = &[is(New), is(Broken), Failed, Absent];

/// The expected MAAS states by node state.
///
/// The middle column is the design document's table, with two additions: `Deployed` in `removing`, because the
/// uninstall needs a live host and therefore comes before the release; and `New` in `quarantined`, because a
/// release ends there when the last commissioning did not pass. A machine that vanishes from MAAS in the middle
/// of an onboarding is never expected: before it was created there is no observation of it at all.
#[rustfmt::skip]
pub const EXPECTATIONS: &[Expectation] = &[
    expect(State::BootstrapIssued, &[Any], &[]),
    expect(State::Enrolling,       &[is(New), is(Commissioning), is(Ready), is(Allocated), is(Deploying), is(Deployed)], ENROLLING),
    expect(State::Active,          &[is(Deployed)], &[]),
    expect(State::Offline,         &[is(Deployed)], &[]),
    expect(State::Quarantined,     &[is(Ready), Failed, is(Broken), is(Deployed), Absent, is(New)], DEPLOYING),
    expect(State::Draining,        &[is(Deployed), is(Ready)], DRAINING),
    expect(State::Retired,         &[is(Deployed), is(Ready), PoweredOff], DEPLOYING),
    expect(State::Removing,        &[is(Deployed), is(Ready), PoweredOff, Absent], RELEASING),
    expect(State::Deleted,         &[Any], &[]),
];

const fn expect(
    state: State,
    expected: &'static [Expect],
    while_worked_on: &'static [Expect],
) -> Expectation {
    Expectation { state, expected, while_worked_on }
}

/// The work of ours that may have caused an observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// None: a change in MAAS was made outside of Wardroom.
    Nobody,
    /// A run that is open, whether it is worked on or stuck.
    Run,
}

/// Whether an observation fits the node's state; if not, the machine was moved outside of Wardroom: drift.
#[must_use]
pub fn fits(state: State, observed: Observed, work: Work) -> bool {
    EXPECTATIONS.iter().filter(|row| row.state == state).any(|row| {
        row.expected.iter().any(|expect| expect.holds(observed))
            || (work == Work::Run && row.while_worked_on.iter().any(|expect| expect.holds(observed)))
    })
}

impl Expect {
    fn holds(self, observed: Observed) -> bool {
        match (self, observed) {
            (Any, _) | (Absent, Observed::Absent) => true,
            (Self::Is(expected), Observed::Present { status, .. }) => status == expected,
            (Failed, Observed::Present { status, .. }) => status.is_failed(),
            (PoweredOff, Observed::Present { power, .. }) => power == Power::Off,
            (Absent, Observed::Present { .. }) | (Self::Is(_) | Failed | PoweredOff, Observed::Absent) => {
                false
            }
        }
    }
}

//! Install reports of a node, and their effects.
//!
//! Four cells of the table act; every other report is acknowledged and changes nothing, because a report
//! that arrives late or twice must not hurt.
//!
//! | report     | in state     | what follows                                                       |
//! |------------|--------------|--------------------------------------------------------------------|
//! | `started`  | `pending`    | `installing`, attempts reset                                       |
//! | `progress` | `installing` | progress recorded                                                  |
//! | `complete` | `installing` | `installed`, attempts reset                                        |
//! | `failed`   | `installing` | one more attempt; the third gives up: `install_failed`             |

use super::{Event, MAX_INSTALL_ATTEMPTS, State};
use crate::names::names;

names! {
    /// The word a node uses for the progress of its installation.
    pub enum InstallStatus {
        /// The installer runs.
        Started = "started",
        /// The installer is at some percentage.
        Progress = "progress",
        /// The installation is complete.
        Complete = "complete",
        /// The installation failed.
        Failed = "failed",
    }
}

/// The facts that a report is judged by.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The node's state.
    pub state: State,
    /// Failed attempts of the current installation.
    pub attempts: u32,
    /// The attempts that were counted before, as far as reports name them.
    pub counted_attempts: &'a [String],
}

/// The effect of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The node moves by this event; `attempts` is the counter afterwards.
    Move {
        /// The event to find in the table.
        event: Event,
        /// Failed attempts afterwards.
        attempts: u32,
    },
    /// The attempt failed, and another one follows.
    Attempt {
        /// Failed attempts so far, this one included.
        attempts: u32,
    },
    /// Progress is recorded; the state stays.
    Progress,
    /// Nothing follows; the reason is for the reply.
    Ignored(Ignored),
}

names! {
    /// Why a report changes nothing.
    pub enum Ignored {
        /// The installation runs already; a second start does not reset the counter.
        AlreadyInstalling = "already_installing",
        /// This attempt was counted before.
        AlreadyCounted = "already_counted",
        /// The node is not installing, so the report is late or meant for another installation.
        NotInstalling = "not_installing",
        /// The node is not waiting for an installation.
        NotPending = "not_pending",
    }
}

/// Returns the effect of an install report.
#[must_use]
pub fn judge(node: Facts<'_>, status: InstallStatus, attempt: Option<&str>) -> Outcome {
    match (status, node.state) {
        (InstallStatus::Started, State::Pending) => {
            Outcome::Move { event: Event::InstallStarted, attempts: 0 }
        }
        (InstallStatus::Started, State::Installing) => Outcome::Ignored(Ignored::AlreadyInstalling),
        (InstallStatus::Started, _) => Outcome::Ignored(Ignored::NotPending),
        (InstallStatus::Progress, State::Installing) => Outcome::Progress,
        (InstallStatus::Complete, State::Installing) => {
            Outcome::Move { event: Event::InstallCompleted, attempts: 0 }
        }
        (InstallStatus::Failed, State::Installing) => {
            if attempt.is_some_and(|attempt| node.counted_attempts.iter().any(|counted| counted == attempt)) {
                return Outcome::Ignored(Ignored::AlreadyCounted);
            }
            after_failure(node.attempts, Event::InstallGivenUp)
        }
        (InstallStatus::Progress | InstallStatus::Complete | InstallStatus::Failed, _) => {
            Outcome::Ignored(Ignored::NotInstalling)
        }
    }
}

/// Returns the effect of an installation that is silent past its patience: a failed attempt.
///
/// Nothing in any other state: the node moved on before the timer fired.
#[must_use]
pub fn judge_silence(node: Facts<'_>) -> Outcome {
    if node.state != State::Installing {
        return Outcome::Ignored(Ignored::NotInstalling);
    }
    after_failure(node.attempts, Event::InstallTimedOut)
}

/// The three-failure rule: the first two failures are attempts, the third gives up.
fn after_failure(attempts: u32, give_up: Event) -> Outcome {
    let attempts = attempts.saturating_add(1);
    if attempts >= MAX_INSTALL_ATTEMPTS {
        Outcome::Move { event: give_up, attempts }
    } else {
        Outcome::Attempt { attempts }
    }
}

//! Transitions that a person asks for by naming the state to go to.

use super::{Event, MAX_INSTALL_ATTEMPTS, State, TABLE};
use crate::{
    action::Call,
    table::{Event as _, Row},
};

/// A person's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The state to go to.
    pub to: State,
    /// Lifts the retry limit and clears the counters.
    pub force: bool,
}

/// A transition that may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// The row that allows it.
    pub row: &'static Row<State, Event>,
    /// Whether `install_attempts` and `last_install_error` start afresh.
    pub clears_counters: bool,
}

/// Why a transition may not be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The node is in that state already.
    AlreadyThere(State),
    /// No row leads there; `allowed` does.
    NoSuchMove {
        /// Where the node is.
        from: State,
        /// Where it was to go.
        to: State,
        /// Where it may go.
        allowed: Vec<State>,
    },
    /// The install failed as often as it may, and the request does not say `force`.
    RetryLimit {
        /// Failed attempts so far.
        attempts: u32,
    },
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AlreadyThere(state) => write!(f, "the node is {state} already"),
            Self::NoSuchMove { from, to, allowed } if allowed.is_empty() => {
                write!(f, "a node that is {from} cannot become {to}: nothing leaves {from}")
            }
            Self::NoSuchMove { from, to, allowed } => {
                let allowed: Vec<_> = allowed.iter().map(|state| state.as_str()).collect();
                write!(f, "a node that is {from} cannot become {to}, only {}", allowed.join(", "))
            }
            Self::RetryLimit { attempts } => write!(
                f,
                "the installation failed {attempts} times; assign another workflow if this one cannot work, then retry with force"
            ),
        }
    }
}

impl std::error::Error for Refusal {}

/// Whether a node with this many failed attempts may move to the requested state.
///
/// # Errors Returns the reason, with the allowed moves.
pub fn judge(from: State, attempts: u32, request: Request) -> Result<Granted, Refusal> {
    let Request { to, force } = request;
    if from == to {
        return Err(Refusal::AlreadyThere(from));
    }
    let row =
        TABLE.between(from, to).ok_or_else(|| Refusal::NoSuchMove { from, to, allowed: targets(from) })?;
    if row.on == Event::Reset && attempts >= MAX_INSTALL_ATTEMPTS && !force {
        return Err(Refusal::RetryLimit { attempts });
    }
    // A new round of installing, or its success, starts counting afresh; so does force.
    let clears_counters = force || matches!(to, State::Pending | State::Installing | State::Installed);
    Ok(Granted { row, clears_counters })
}

/// The calls that move a node out of a state: one for each state that it may go to, the preferred one first.
pub fn calls(from: State) -> impl Iterator<Item = Call> {
    targets(from).into_iter().filter_map(move |to| TABLE.between(from, to)?.on.call())
}

/// The states a node may go to, each once, the preferred one first.
#[must_use]
pub fn targets(from: State) -> Vec<State> {
    let mut targets = Vec::new();
    for row in TABLE.moves_from(from) {
        if !targets.contains(&row.to) {
            targets.push(row.to);
        }
    }
    targets
}

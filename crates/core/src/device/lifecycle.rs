//! Lifecycle: where a device is between its enrolment and its end of life.
//!
//! It never goes backwards: a report that is lost, repeated or restored from a backup must not bring a
//! device back that was taken out of service. So the furthest status reached is one of the facts.

use super::{Derived, Facts, condition::Condition, facts::given, text::Quoted};
use crate::names::names;

/// The furthest status of all that hold, or the one reached before if that is further.
///
/// An agent that says it has started changes nothing: a user's request makes a device decommissioning.
#[must_use]
pub fn derive(facts: &Facts<'_>) -> Derived<Status> {
    let progress = progress(facts);

    let holds = if progress.is_some_and(|(reason, _)| reason.is_final()) {
        Status::Decommissioned
    } else if facts.decommission_requested {
        Status::Decommissioning
    } else if facts.enrolled {
        Status::Enrolled
    } else {
        Status::Unknown
    };

    if holds < facts.reached { kept(facts.reached) } else { explained(holds, progress) }
}

names! {
    /// How far a device has come, in the order in which it comes there.
    pub enum Status {
        /// No enrolment request of the device was approved.
        Unknown = "Unknown",
        /// It is under management and may be given work.
        Enrolled = "Enrolled",
        /// A user requested its decommissioning, and it is no longer available for work.
        Decommissioning = "Decommissioning",
        /// It has finished decommissioning, or failed in a way that it cannot get over.
        Decommissioned = "Decommissioned",
    }
}

names! {
    /// How far the agent has come with decommissioning its device.
    pub enum Reason {
        /// It has received the request and works on it.
        Started = "Started",
        /// It has done everything but give up its own certificate.
        Completed = "Completed",
        /// It failed, and can do no more.
        Error = "Error",
    }
}

impl Reason {
    /// Reads what an agent sends. The document writes a reason in two ways, and one of those in two more.
    #[must_use]
    pub fn from_report(given: &str) -> Option<Self> {
        match given {
            "Started" | "DecommissionStateStarted" => Some(Self::Started),
            "Completed" | "DecommissionStateCompleted" | "DecommissionStateComplete" => Some(Self::Completed),
            "Error" | "DecommissionStateError" => Some(Self::Error),
            _ => None,
        }
    }

    /// The agent will do no more.
    #[must_use]
    pub const fn is_final(self) -> bool {
        match self {
            Self::Started => false,
            Self::Completed | Self::Error => true,
        }
    }
}

/// How far the agent says it is, if it says that it decommissions at all.
fn progress<'a>(facts: &Facts<'a>) -> Option<(Reason, Condition<'a>)> {
    let condition = facts.conditions().decommissioning.filter(Condition::is_true)?;
    Some((Reason::from_report(condition.reason)?, condition))
}

fn explained(holds: Status, progress: Option<(Reason, Condition<'_>)>) -> Derived<Status> {
    let reason = progress.map(|(reason, _)| reason);
    let info = match (holds, reason) {
        (Status::Unknown, _) => "Not enrolled; an operator has to approve its enrolment request.",
        (Status::Enrolled, None) => "Enrolled; it may be given work.",
        (Status::Enrolled, Some(_)) => "Enrolled, but its agent decommissions it without a request.",
        (Status::Decommissioning, None) => "Decommissioning was requested; its agent has to pick that up.",
        (Status::Decommissioning, Some(_)) => "Its agent has started to decommission it and has to finish.",
        (Status::Decommissioned, Some(Reason::Error)) => {
            return Derived::new(holds, failed(progress.map_or("", |(_, condition)| condition.message)));
        }
        (Status::Decommissioned, _) => "Its agent has finished decommissioning; nothing follows.",
    };
    Derived::new(holds, info)
}

fn failed(message: &str) -> String {
    let message = given(Some(message)).unwrap_or("no message");
    format!(
        "Its agent could not finish decommissioning: {}. What is left must be wiped by hand.",
        Quoted(message)
    )
}

fn kept(reached: Status) -> Derived<Status> {
    let info = match reached {
        // Nothing is less than `Unknown`, so the furthest status never holds a device there.
        Status::Unknown => "Not enrolled.",
        Status::Enrolled => "Was enrolled before, and a lifecycle never goes back.",
        Status::Decommissioning => {
            "Its decommissioning was requested before, and a lifecycle never goes back."
        }
        Status::Decommissioned => "Was decommissioned before, and a lifecycle never goes back.",
    };
    Derived::new(reached, info)
}

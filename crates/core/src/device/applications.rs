//! Applications: availability and health of all applications of a device together.

use std::fmt::{self, Display, Formatter};

use jiff::Timestamp;

use super::{
    Derived, Facts,
    text::{Quoted, list},
};
use crate::{Named, names::names};

/// The first rule that holds wins. A state we do not know is not in service as far as we know, so it counts
/// as degraded; a device without applications has none that is not in service.
#[must_use]
pub fn derive(facts: &Facts<'_>, now: Timestamp) -> Derived<Status> {
    let Some(report) = facts.report else {
        return Derived::new(
            Status::Unknown,
            "Its agent never reported; its applications are known when it does.",
        );
    };
    let any = |wanted| report.applications.iter().any(|application| application.state.counts_as() == wanted);

    if facts.is_disconnected(now) {
        Derived::new(Status::Unknown, "Offline; its applications are known when it is heard again.")
    } else if any(Status::Error) {
        Derived::new(Status::Error, out_of_service(report.applications))
    } else if any(Status::Degraded) {
        Derived::new(Status::Degraded, out_of_service(report.applications))
    } else if report.applications.is_empty() {
        Derived::new(Status::Healthy, "It has no applications.")
    } else {
        Derived::new(Status::Healthy, "Every application runs or has completed.")
    }
}

names! {
    /// How well the applications of a device are, all together.
    pub enum Status {
        /// Every application runs or has completed.
        Healthy = "Healthy",
        /// No application is in error, but one is not in service yet, or in a state we do not know.
        Degraded = "Degraded",
        /// An application is in error.
        Error = "Error",
        /// The device is offline, or its agent never reported.
        Unknown = "Unknown",
    }
}

names! {
    /// What an application does.
    pub enum State {
        /// What it needs is being fetched.
        Preparing = "Preparing",
        /// It was started and is not in service yet.
        Starting = "Starting",
        /// It is in service.
        Running = "Running",
        /// It failed.
        Error = "Error",
        /// It did what it was there for, and ended.
        Completed = "Completed",
    }
}

/// An application on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Application<'a> {
    /// Its name, unique on the device.
    pub name: &'a str,
    /// The state the agent reports.
    pub state: Reported<'a>,
}

/// A state as it was reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reported<'a> {
    /// One of the document's states.
    Known(State),
    /// Another one, as newer agents may have them.
    Other(&'a str),
}

impl<'a> From<&'a str> for Reported<'a> {
    fn from(given: &'a str) -> Self {
        let known = State::ALL.iter().find(|state| state.as_str() == given);
        known.map_or(Self::Other(given), |&state| Self::Known(state))
    }
}

impl Reported<'_> {
    /// What the device's applications would be if this were the only one.
    fn counts_as(self) -> Status {
        match self {
            Self::Known(State::Running | State::Completed) => Status::Healthy,
            Self::Known(State::Preparing | State::Starting) | Self::Other(_) => Status::Degraded,
            Self::Known(State::Error) => Status::Error,
        }
    }
}

impl Display for Application<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = Quoted(self.name);
        match self.state {
            Reported::Known(state) => write!(f, "{name} is {state}"),
            Reported::Other(state) => write!(f, "{name} is in the unfamiliar state \"{}\"", Quoted(state)),
        }
    }
}

/// Names them, the failed ones first: the list is cut when it is long.
fn out_of_service(applications: &[Application<'_>]) -> String {
    let which =
        |wanted| applications.iter().filter(move |application| application.state.counts_as() == wanted);
    let listed = list(which(Status::Error).chain(which(Status::Degraded)));
    format!("{listed}; Healthy again when reported Running or Completed.")
}

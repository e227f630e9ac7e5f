//! Summary: availability and health of a device's hardware and operating system.

use jiff::Timestamp;

use super::{
    Derived, Facts,
    resource::{Health, Resources},
    text::list,
};
use crate::names::names;

/// The first rule that holds wins. A silent device cannot be judged, and one that reboots reports nothing
/// about its health that would outlive the reboot.
#[must_use]
pub fn derive(facts: &Facts<'_>, now: Timestamp) -> Derived<Status> {
    let resources = facts.report.map(|report| report.resources).unwrap_or_default();
    let any = |wanted| resources.named().iter().any(|&(_, health)| health == wanted);

    let status = if facts.is_disconnected(now) {
        Status::Offline
    } else if facts.is_rebooting() {
        Status::Rebooting
    } else if any(Health::Error) || any(Health::Critical) {
        Status::Error
    } else if any(Health::Degraded) {
        Status::Degraded
    } else {
        Status::Online
    };

    match status {
        Status::Offline => offline(facts),
        Status::Rebooting => rebooting(facts),
        Status::Error | Status::Degraded => Derived::new(status, unhealthy(resources)),
        Status::Online => online(resources),
    }
}

names! {
    /// Whether a device can be heard, and whether it is well.
    pub enum Status {
        /// It is heard, and no resource is reported unhealthy.
        Online = "Online",
        /// It is heard, and a resource works with less than it should have.
        Degraded = "Degraded",
        /// It is heard, and a resource is in error or critical.
        Error = "Error",
        /// It announced a reboot and has not come back from it.
        Rebooting = "Rebooting",
        /// It has been silent for longer than its timeout; it may still be running.
        Offline = "Offline",
    }
}

fn offline(facts: &Facts<'_>) -> Derived<Status> {
    let Some(seen) = facts.last_seen else {
        return Derived::new(Status::Offline, "Never heard; its agent has to connect for the first time.");
    };
    let timeout = facts.timeout;
    let info =
        format!("Last heard at {seen:.0}, and {timeout:#} of silence are allowed; its agent has to call.");
    Derived::new(Status::Offline, info)
}

fn rebooting(facts: &Facts<'_>) -> Derived<Status> {
    let info = if facts.is_rebooting_to_update() {
        "Reboots into an update; its agent has to report the next state of that update."
    } else {
        "Reboots; its agent has to report that it is back."
    };
    Derived::new(Status::Rebooting, info)
}

fn online(resources: Resources) -> Derived<Status> {
    if resources.named().iter().all(|&(_, health)| health == Health::Healthy) {
        return Derived::new(Status::Online, "CPU, memory and disk are healthy.");
    }
    let info =
        format!("Nothing is reported unhealthy, but the health of {} is not known.", unknown(resources));
    Derived::new(Status::Online, info)
}

fn unhealthy(resources: Resources) -> String {
    let bad = |health| matches!(health, Health::Critical | Health::Error | Health::Degraded);
    let named = resources.named().into_iter().filter(|&(_, health)| bad(health));
    let listed = list(named.map(|(name, health)| format!("{name} is {health}")));
    let unknown = match unknown(resources) {
        none if none.is_empty() => none,
        some => format!(" The health of {some} is not known."),
    };
    format!("{listed}; Online again when reported Healthy.{unknown}")
}

fn unknown(resources: Resources) -> String {
    let named = resources.named().into_iter().filter(|&(_, health)| health == Health::Unknown);
    list(named.map(|(name, _)| name))
}

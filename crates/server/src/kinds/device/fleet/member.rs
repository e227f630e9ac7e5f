//! What a device knows of its fleet, and what it was given of the fleet's template.
//!
//! What must stay true: the stored statuses of a device follow from its own document, so that record, list and filter
//! agree; so the version that its fleet is at is noted in it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use wardroom_api::device::{Condition, DeviceReport};
use wardroom_core::device::{
    condition::Type,
    fleet::{Outcome, Standing},
    update::State,
};

use super::super::document::Document;

/// The fleet that owns a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Membership {
    pub(crate) fleet: String,
    /// The version of the template that the fleet is at.
    pub(crate) wants: u64,
}

/// The template that a device was given last; it stays the source of the spec when the device leaves the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Given {
    pub(crate) fleet: String,
    /// The version of the template.
    pub(crate) version: u64,
    /// The version whose spec it is: a rollback gives an earlier one again.
    pub(crate) body: u64,
    /// The batch, from 0.
    pub(crate) batch: usize,
    pub(crate) at: Timestamp,
    /// The failure that the agent reported before: it is not one of this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failed_before: Option<Condition>,
}

/// How the owner of a device is written.
pub(crate) fn owner(fleet: &str) -> String {
    format!("Fleet/{fleet}")
}

/// The condition about the last update.
fn updating(reported: &DeviceReport) -> Option<&Condition> {
    reported.conditions.iter().find(|condition| condition.r#type == Type::Updating.as_str())
}

impl Document {
    /// The template that the device was given by its present owner.
    pub(crate) fn given(&self) -> Option<&Given> {
        let fleet = &self.fleet.as_ref()?.fleet;
        self.template.as_ref().filter(|given| given.fleet == *fleet)
    }

    /// The condition of an update that the agent gave up, if that is the last thing it did.
    fn failure(&self) -> Option<&Condition> {
        let failed =
            |condition: &&Condition| condition.status == "False" && condition.reason == State::Error.as_str();
        updating(self.reported.as_ref()?).filter(failed)
    }

    /// The same, unless the failure is one of an earlier version.
    pub(crate) fn failure_now(&self) -> Option<&Condition> {
        let failure = self.failure()?;
        let before = self.template.as_ref().and_then(|given| given.failed_before.as_ref());
        // Our agent begins its message with the version.
        let named = failure.message.strip_prefix("version ").and_then(|rest| rest.split([':', ' ']).next());
        let named = named.and_then(|version| version.parse::<u64>().ok());
        let is_now = named.is_none_or(|version| version == self.rendered_version);
        Some(failure).filter(|failure| is_now && before != Some(failure))
    }

    /// Whether the device runs what was rendered for it.
    fn is_updated(&self) -> bool {
        self.with_facts(|facts| facts.is_updated_to_device_spec())
    }

    /// Whether it was given a version that it neither runs nor gave up.
    pub(crate) fn is_busy(&self) -> bool {
        !self.is_updated() && self.failure_now().is_none()
    }

    /// How it stands to a version of the template of its fleet.
    pub(crate) fn standing(&self, version: u64) -> Standing {
        match self.given() {
            Some(given) if given.version == version => {
                let outcome = if self.is_updated() {
                    Outcome::Updated
                } else if self.failure_now().is_some() {
                    Outcome::Failed
                } else {
                    Outcome::Working
                };
                Standing::Given { batch: given.batch, at: given.at, outcome }
            }
            Some(_) | None => Standing::Waiting,
        }
    }

    /// Gives the device a version of the template; the spec that it has already makes no new rendered version.
    pub(crate) fn give(&mut self, given: Given) {
        let has_spec = self.has_body(&given.fleet, given.body);
        let failed_before = if has_spec {
            self.template.as_ref().and_then(|before| before.failed_before.clone())
        } else {
            self.failure().cloned()
        };
        self.template = Some(Given { failed_before, ..given });
        if !has_spec {
            self.spec = Default::default();
            self.generation += 1;
            self.rendered_version += 1;
        }
    }

    /// Whether its spec is that of a version of a template already.
    pub(crate) fn has_body(&self, fleet: &str, body: u64) -> bool {
        self.template.as_ref().is_some_and(|given| given.fleet == fleet && given.body == body)
    }

    /// Notes the report of the agent: one that says something else of the last update ends the memory of the failure
    /// before.
    pub(crate) fn heard_of(mut self, reported: DeviceReport) -> Self {
        if let Some(given) = &mut self.template
            && given.failed_before.as_ref() != updating(&reported)
        {
            given.failed_before = None;
        }
        Self { was_heard: true, reported: Some(reported), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(version: u64, body: u64) -> Given {
        let (fleet, at) = ("f".to_owned(), Timestamp::UNIX_EPOCH);
        Given { fleet, version, body, batch: 0, at, failed_before: None }
    }

    fn report(running: &str, status: &str, reason: &str, message: &str) -> DeviceReport {
        let condition = Condition {
            r#type: "Updating".to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            last_transition_time: None,
        };
        let mut report = DeviceReport { conditions: vec![condition], ..DeviceReport::default() };
        report.config.rendered_version = running.to_owned();
        report
    }

    fn outcome(device: &Document, version: u64) -> Option<Outcome> {
        match device.standing(version) {
            Standing::Waiting => None,
            Standing::Given { outcome, .. } => Some(outcome),
        }
    }

    #[test]
    fn a_failure_counts_for_the_version_that_failed() {
        let fleet = Some(Membership { fleet: "f".to_owned(), wants: 1 });
        let mut device = Document { fleet, ..Document::default() };
        assert_eq!(outcome(&device, 1), None);
        device.give(given(1, 1));
        assert_eq!((device.rendered_version, outcome(&device, 1)), (1, Some(Outcome::Working)));
        let failed = report("", "False", "Error", "no room");
        device = device.heard_of(failed.clone());
        assert_eq!((outcome(&device, 1), device.is_busy()), (Some(Outcome::Failed), false));
        device.give(given(2, 2));
        assert_eq!(
            (outcome(&device, 2), device.is_busy()),
            (Some(Outcome::Working), true),
            "it is the old one"
        );
        device = device.heard_of(failed.clone());
        assert_eq!(outcome(&device, 2), Some(Outcome::Working), "said again");
        device = device.heard_of(report("", "True", "Preparing", ""));
        device = device.heard_of(failed);
        assert_eq!(outcome(&device, 2), Some(Outcome::Failed), "it failed anew");
        device.give(given(3, 3));
        device = device.heard_of(report("", "False", "Error", "version 2: no room"));
        assert_eq!(outcome(&device, 3), Some(Outcome::Working), "a late report names its version");
        device = device.heard_of(report("3", "False", "Updated", "version 3"));
        assert_eq!(outcome(&device, 3), Some(Outcome::Updated));
        device.give(given(4, 3));
        assert_eq!(
            (device.rendered_version, outcome(&device, 4)),
            (3, Some(Outcome::Updated)),
            "the same spec"
        );
        device.fleet = Some(Membership { fleet: "g".to_owned(), wants: 4 });
        assert_eq!(outcome(&device, 4), None, "another fleet has its own versions");
    }
}

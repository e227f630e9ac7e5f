//! A device as it is stored: what it should run, what its agent last reported, and which certificates count.
//!
//! What must stay true: the stored state and fields are derived by `core` from the rest of the document, with every
//! commit; they serve filters and counts. No key and no token is in it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use wardroom_api::device::{DeviceReport, DeviceSpec};
use wardroom_core::device::{Facts, Statuses, lifecycle, summary};
use wardroom_store::{Content, Resource};

use super::{
    facts,
    fleet::member::{Given, Membership, owner},
};
use crate::platform::http::error::Error;

/// The kind under which devices are stored.
pub(crate) const KIND: &str = "device";

/// What is stored of a device beside its state and labels.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Document {
    /// What it should run.
    pub(crate) spec: DeviceSpec,
    /// Grows with every change of the spec.
    pub(crate) generation: u64,
    /// Grows with every spec that is given to the agent; 0 before the first.
    pub(crate) rendered_version: u64,
    /// Reboots that operators have requested.
    #[serde(default)]
    pub(crate) reboots: u64,
    /// Its decommissioning, once it was requested.
    #[serde(default)]
    pub(crate) decommissioning: Option<Decommissioning>,
    /// The furthest lifecycle status it has had.
    pub(crate) reached: String,
    /// What its agent last reported.
    #[serde(default)]
    pub(crate) reported: Option<DeviceReport>,
    /// Whether its agent was ever heard.
    pub(crate) was_heard: bool,
    /// The certificates that count: the one in use, and the one that was issued to replace it.
    pub(crate) certificates: Vec<Issued>,
    /// Whether its certificates were revoked.
    #[serde(default)]
    pub(crate) revoked: bool,
    /// How long it may be silent, in seconds.
    pub(crate) silence_seconds: u32,
    /// The fleet that owns it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fleet: Option<Membership>,
    /// The template that is its spec, instead of `spec`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) template: Option<Given>,
    /// The fleets that select it, when there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) claimed_by: Vec<String>,
}

/// A certificate that was issued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Issued {
    /// The serial number, in lower-case hexadecimal digits.
    pub(crate) serial: String,
    pub(crate) until: Timestamp,
}

/// A decommissioning that a person requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Decommissioning {
    pub(crate) target: String,
    pub(crate) requested_at: Timestamp,
    /// A person ended it, because the device will not be heard again.
    #[serde(default)]
    pub(crate) finished_by: Option<String>,
}

/// Whether the agent is there, as far as this moment goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It was heard just now, or has not been silent for too long.
    Lately,
    /// It has been silent for too long, or was never heard.
    Lost,
}

impl Heard {
    /// What the stored state says.
    pub(crate) fn of(device: &Resource) -> Self {
        if device.content.state == summary::Status::Offline.as_str() { Self::Lost } else { Self::Lately }
    }
}

impl Document {
    pub(crate) fn of(resource: &Resource) -> Result<Self, Error> {
        resource.content.document.read().map_err(|error| {
            tracing::error!(id = resource.content.id, %error, "a stored device cannot be read");
            Error::Internal
        })
    }

    /// The statuses at a moment, by `core`.
    pub(crate) fn statuses(&self, heard: Heard, now: Timestamp) -> Statuses {
        let silence = self.silence();
        let last_seen = match heard {
            Heard::Lately => Some(now),
            Heard::Lost if self.was_heard => now.saturating_sub(silence * 2).ok(),
            Heard::Lost => None,
        };
        self.with_facts(|facts| {
            wardroom_core::device::derive(&Facts { last_seen, timeout: silence, ..*facts }, now)
        })
    }

    /// Calls a function of `core` with the facts that are stored, without those about silence.
    pub(crate) fn with_facts<T>(&self, of: impl FnOnce(&Facts<'_>) -> T) -> T {
        facts::with(self, of)
    }

    /// How long the device may be silent.
    pub(crate) fn silence(&self) -> SignedDuration {
        SignedDuration::from_secs(self.silence_seconds.into())
    }

    /// Whether a person requested the decommissioning: the spec is frozen then.
    pub(crate) fn check_in_service(&self, name: &str) -> Result<(), Error> {
        if self.decommissioning.is_none() {
            return Ok(());
        }
        Err(Error::Conflict {
            code: "device_decommissioned",
            detail: format!(
                "the device {name:?} is being decommissioned, or was: nothing about it changes any more"
            ),
            allowed: Vec::new(),
        })
    }

    /// The content of a new device, which was never heard.
    pub(crate) fn content(
        self,
        name: &str,
        labels: BTreeMap<String, String>,
        now: Timestamp,
    ) -> Result<Content, Error> {
        self.derived(name, labels, Heard::Lost, now)
    }

    /// The content after a change of the document.
    pub(crate) fn into_content_of(
        self,
        before: &Resource,
        labels: BTreeMap<String, String>,
        heard: Heard,
        now: Timestamp,
    ) -> Result<Content, Error> {
        self.derived(&before.content.id, labels, heard, now)
    }

    fn derived(
        mut self,
        name: &str,
        labels: BTreeMap<String, String>,
        heard: Heard,
        now: Timestamp,
    ) -> Result<Content, Error> {
        let statuses = self.statuses(heard, now);
        statuses.lifecycle.status.as_str().clone_into(&mut self.reached);
        Ok(Content {
            kind: KIND.to_owned(),
            id: name.to_owned(),
            name: name.to_owned(),
            state: statuses.summary.status.as_str().to_owned(),
            fields: self.fields(&statuses),
            document: wardroom_store::Document::of(&self)?,
            labels,
            keys: Default::default(),
            due_at: None,
            deleted: false,
        })
    }

    /// What devices are found by.
    fn fields(&self, statuses: &Statuses) -> BTreeMap<String, String> {
        let owner = self.fleet.as_ref().map(|fleet| (OWNER, owner(&fleet.fleet)));
        let contested = (!self.claimed_by.is_empty()).then(|| (CONTESTED, "true".to_owned()));
        [
            (UPDATED, statuses.updated.status.as_str()),
            (APPLICATIONS, statuses.application_summary.status.as_str()),
            (LIFECYCLE, statuses.lifecycle.status.as_str()),
        ]
        .map(|(field, value)| (field, value.to_owned()))
        .into_iter()
        .chain(owner)
        .chain(contested)
        .map(|(field, value)| (field.to_owned(), value))
        .collect()
    }

    /// The furthest lifecycle status.
    pub(super) fn reached(&self) -> lifecycle::Status {
        self.reached.parse().unwrap_or(lifecycle::Status::Unknown)
    }
}

/// What devices are found by, beside their state.
pub(crate) const UPDATED: &str = "updated";
pub(crate) const APPLICATIONS: &str = "applicationSummary";
pub(crate) const LIFECYCLE: &str = "lifecycle";
pub(crate) const OWNER: &str = "owner";
/// Whether several fleets select it.
pub(crate) const CONTESTED: &str = "contested";

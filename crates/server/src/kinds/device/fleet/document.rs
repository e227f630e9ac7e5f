//! A fleet and the versions of its template, as they are stored.
//!
//! What must stay true: a version of a template never changes, so that memory may keep it; and the state of a fleet is that
//! of its rollout, as `core` decided it last, or the beginning of the rollout that a person caused.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use wardroom_api::device::{FleetSpec, Template};
use wardroom_core::device::fleet::{self, State};
use wardroom_store::{Content, Document as Text, Resource};

use crate::platform::{http::error::Error, work::jobs::server_record};

/// The kinds under which fleets and the versions of their templates are stored.
pub(crate) const KIND: &str = "fleet";
pub(crate) const VERSION_KIND: &str = "templateversion";

/// What is stored of a fleet beside its labels and state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Document {
    /// As a person gave it, without the version.
    pub(crate) spec: FleetSpec,
    /// Grows with every change of the spec.
    pub(crate) generation: u64,
    /// The version of the template; grows, also when a fleet of this name is created again.
    pub(crate) version: u64,
    /// The first version of this fleet; earlier ones are those of a fleet of the same name that was deleted.
    pub(crate) first: u64,
    /// The version whose spec it is.
    pub(crate) body: u64,
    /// The version that a rollback brings back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) restores: Option<u64>,
    /// The batch, from 0.
    pub(crate) batch: usize,
    /// How many failures of the batch a person accepted.
    #[serde(default)]
    pub(crate) accepted: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) paused: Option<Paused>,
}

/// Who paused a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Paused {
    pub(crate) by: String,
    pub(crate) at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) comment: Option<String>,
}

impl Document {
    pub(crate) fn of(fleet: &Resource) -> Result<Self, Error> {
        fleet.content.document.read().map_err(|error| {
            tracing::error!(id = fleet.content.id, %error, "a stored fleet cannot be read");
            Error::Internal
        })
    }

    pub(crate) fn content(
        &self,
        name: &str,
        labels: BTreeMap<String, String>,
        state: State,
    ) -> Result<Content, Error> {
        let (state, document) = (state.as_str().to_owned(), Text::of(self)?);
        Ok(Content { state, document, labels, ..server_record(KIND, name) })
    }

    /// The state from which a rollout goes on.
    pub(crate) fn begun(&self) -> State {
        if self.paused.is_some() { State::Paused } else { State::Active }
    }

    pub(crate) fn course(&self) -> fleet::Course {
        fleet::Course {
            batch: self.batch,
            accepted: self.accepted,
            is_paused: self.paused.is_some(),
            is_rollback: self.restores.is_some(),
        }
    }
}

/// The state of a stored fleet.
pub(crate) fn state(fleet: &Resource) -> State {
    fleet.content.state.parse().unwrap_or(State::Active)
}

/// A template as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Version {
    pub(crate) fleet: String,
    pub(crate) number: u64,
    pub(crate) template: Template,
    /// The version whose spec it is.
    pub(crate) body: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) restores: Option<u64>,
}

impl Version {
    pub(crate) fn of(version: &Resource) -> Result<Self, Error> {
        version.content.document.read().map_err(|error| {
            tracing::error!(id = version.content.id, %error, "a stored template cannot be read");
            Error::Internal
        })
    }

    pub(crate) fn content(&self) -> Result<Content, Error> {
        let document = Text::of(self)?;
        let record = server_record(VERSION_KIND, &id(&self.fleet, self.number));
        Ok(Content { name: self.number.to_string(), document, ..record })
    }
}

/// The id of a version; lists have them in their order.
pub(crate) fn id(fleet: &str, number: u64) -> String {
    format!("{fleet}/{number:010}")
}

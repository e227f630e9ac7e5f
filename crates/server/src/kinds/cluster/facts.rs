//! All that is known of a cluster or node pool: what people want, what its adapters said, and its conditions.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use wardroom_api::cluster::Exact;
use wardroom_core::cluster::{AdapterStatus, Condition};
use wardroom_store::{Observation, Resource};

use super::{Sort, document::Document};
use crate::platform::{app::App, http::error::Error};

/// The observation that has the conditions. Writers take turns by its version, so that conditions always fit the
/// statuses that they were folded from.
pub(super) const CONDITIONS: &str = "conditions";

/// The prefix of the observations that have what adapters said.
const ADAPTER: &str = "adapter/";

/// A resource, and all that was observed of it.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) sort: &'static Sort,
    pub(crate) resource: Resource,
    pub(crate) document: Document,
    /// The version of its conditions; 0 when it has none.
    pub(super) turn: i64,
    /// As they were folded last.
    pub(crate) conditions: Vec<Condition>,
    /// In the order of their adapters' names.
    pub(crate) statuses: Vec<Said>,
}

/// What one adapter said last.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Said {
    pub(crate) status: AdapterStatus,
    pub(crate) data: Option<Exact>,
    pub(crate) metadata: Option<Exact>,
    /// When it arrived.
    pub(crate) received_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    status: AdapterStatus,
    data: Option<Exact>,
    metadata: Option<Exact>,
}

impl Facts {
    /// Reads a living resource. The observations come first: whatever changes after them moves the turn, so that a commit
    /// that was decided on both fails.
    pub(crate) async fn read(app: &App, sort: &'static Sort, id: &str) -> Result<Option<Self>, Error> {
        let seen = app.store.observations(sort.kind, id).await?;
        let found = app.store.get(sort.kind, id).await?;
        let Some(resource) = found.filter(|found| !found.content.deleted) else { return Ok(None) };
        let document = Document::of(&resource)?;
        let mut facts =
            Self { sort, resource, document, turn: 0, conditions: Vec::new(), statuses: Vec::new() };
        for one in seen {
            if one.source == CONDITIONS {
                facts.turn = one.version;
                facts.conditions = one.document.read()?;
            } else if one.source.starts_with(ADAPTER) {
                facts.statuses.push(Said::of(&one)?);
            }
        }
        Ok(Some(facts))
    }

    pub(crate) fn id(&self) -> &str {
        &self.resource.content.id
    }

    /// What an adapter said last.
    pub(crate) fn said(&self, adapter: &str) -> Option<&Said> {
        self.statuses.iter().find(|said| said.status.adapter == adapter)
    }

    pub(crate) fn is_being_deleted(&self) -> bool {
        self.document.deleted_time.is_some()
    }
}

/// What one adapter said last of some resources, with their ids.
pub(super) async fn said_by(
    app: &App,
    sort: &Sort,
    adapter: &str,
    ids: &[&str],
) -> Result<Vec<(String, Said)>, Error> {
    let seen = app.store.observed(sort.kind, &format!("{ADAPTER}{adapter}"), ids).await?;
    seen.iter().map(|one| Ok((one.resource_id.clone(), Said::of(one)?))).collect()
}

impl Said {
    fn of(seen: &Observation) -> Result<Self, Error> {
        let Stored { status, data, metadata } = seen.document.read()?;
        Ok(Self { status, data, metadata, received_at: seen.received_at })
    }

    /// What is kept of it beside its resource.
    pub(super) fn observation(&self, sort: &Sort, id: &str) -> Result<Observation, Error> {
        let Self { status, data, metadata, received_at } = self.clone();
        Ok(Observation {
            kind: sort.kind.to_owned(),
            resource_id: id.to_owned(),
            source: format!("{ADAPTER}{}", status.adapter),
            version: 1,
            observed_at: status.last_report_time,
            document: wardroom_store::Document::of(&Stored { status, data, metadata })?,
            received_at,
        })
    }
}

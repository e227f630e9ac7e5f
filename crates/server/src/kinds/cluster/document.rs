//! A cluster or node pool as it is stored.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use wardroom_api::cluster::Exact;
use wardroom_core::cluster::{Condition, RECONCILED, Status};
use wardroom_store::{Content, Resource};

use super::{OWNER, Sort};
use crate::platform::{
    app::App,
    http::{error::Error, etag},
};

/// The prefix of the fields by which resources are found by the status of a condition.
pub(super) const CONDITION: &str = "condition/";

/// What people want; what adapters say is kept beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Document {
    pub(crate) spec: Exact,
    /// Counts the changes of spec and labels, and the request to delete, from 1.
    pub(crate) generation: i64,
    /// When the generation last grew, and by which caller.
    pub(crate) updated_time: Timestamp,
    pub(crate) created_by: String,
    pub(crate) updated_by: String,
    pub(crate) deleted_time: Option<Timestamp>,
    pub(crate) deleted_by: Option<String>,
    /// The id of the cluster that a node pool belongs to.
    pub(crate) owner: Option<String>,
}

impl Document {
    pub(crate) fn of(resource: &Resource) -> Result<Self, Error> {
        resource.content.document.read().map_err(|error| {
            let (kind, id) = (&resource.content.kind, &resource.content.id);
            tracing::error!(kind, id, %error, "a stored resource cannot be read");
            Error::Internal
        })
    }

    /// The same of a new generation.
    pub(super) fn next(mut self, by: &str, now: Timestamp) -> Self {
        self.generation += 1;
        self.updated_time = now;
        by.clone_into(&mut self.updated_by);
        self
    }

    /// What is stored of it, with the conditions that it has.
    pub(super) fn content(
        &self,
        sort: &Sort,
        (id, name): (&str, &str),
        labels: BTreeMap<String, String>,
        conditions: &[Condition],
    ) -> Result<Content, Error> {
        let owner = self.owner.iter().map(|owner| (OWNER.to_owned(), owner.clone()));
        let conditions_of =
            |condition: &Condition| (format!("{CONDITION}{}", condition.type_), condition.status.to_string());
        let called = [("name".to_owned(), name.to_owned())].into_iter();
        let reconciled = conditions.iter().find(|condition| condition.type_ == RECONCILED);
        Ok(Content {
            kind: sort.kind.to_owned(),
            id: id.to_owned(),
            name: name.to_owned(),
            state: reconciled.map_or(Status::False, |condition| condition.status).to_string(),
            document: wardroom_store::Document::of(self)?,
            labels,
            fields: owner.chain(called).chain(conditions.iter().map(conditions_of)).collect(),
            keys: BTreeSet::from([Sort::key(self.owner.as_deref(), name)]),
            deleted: false,
            due_at: None,
        })
    }
}

/// The time now, with the microseconds that the store keeps.
pub(super) fn now(app: &App) -> Timestamp {
    let now = app.now();
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
}

/// The tag that an operator's `If-Match` compares: of what people decided, which has a generation of its own. A report
/// never moves it.
pub(crate) fn etag(resource: &Resource, document: &Document) -> Result<String, Error> {
    etag::of(&(&resource.content.id, document.generation))
}

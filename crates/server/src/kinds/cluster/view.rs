//! Clusters and node pools as people and adapters see them.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use wardroom_api::cluster::{AdapterStatus, Cluster, ClusterStatus, ObjectReference};
use wardroom_core::cluster::Condition;
use wardroom_store::Resource;

use super::{
    CLUSTER, Sort,
    document::{self, Document},
    facts::{Facts, Said},
};
use crate::platform::http::{error::Error, etag};

/// A resource as it is shown.
pub(super) fn shown(
    sort: &Sort,
    resource: &Resource,
    document: Document,
    conditions: Vec<Condition>,
) -> Cluster {
    let content = &resource.content;
    let owner = document.owner.as_deref();
    Cluster {
        id: content.id.clone(),
        kind: sort.wire.to_owned(),
        href: Sort::href(owner, &content.id),
        name: content.name.clone(),
        labels: content.labels.clone(),
        generation: document.generation,
        created_time: resource.created_at,
        updated_time: document.updated_time,
        owner_references: owner.map(|owner| ObjectReference {
            id: owner.to_owned(),
            kind: CLUSTER.wire.to_owned(),
            href: Sort::href(None, owner),
        }),
        spec: document.spec,
        created_by: document.created_by,
        updated_by: document.updated_by,
        deleted_time: document.deleted_time,
        deleted_by: document.deleted_by,
        status: ClusterStatus { conditions: conditions.into_iter().map(Into::into).collect() },
    }
}

/// The answer to a request about one resource, with its tag.
pub(super) fn answer(
    status: StatusCode,
    sort: &Sort,
    resource: &Resource,
    conditions: Vec<Condition>,
) -> Result<Response, Error> {
    let document = Document::of(resource)?;
    let tag = document::etag(resource, &document)?;
    let mut response = (status, Json(shown(sort, resource, document, conditions))).into_response();
    etag::set(&mut response, &tag);
    Ok(response)
}

/// The answer with what is known of it.
pub(super) fn answer_of(status: StatusCode, facts: &Facts) -> Result<Response, Error> {
    answer(status, facts.sort, &facts.resource, facts.conditions.clone())
}

impl From<Said> for AdapterStatus {
    fn from(said: Said) -> Self {
        let Said { status, data, metadata, .. } = said;
        Self {
            adapter: status.adapter,
            observed_generation: status.observed_generation,
            created_time: status.created_time,
            last_report_time: status.last_report_time,
            conditions: status.conditions.into_iter().map(Into::into).collect(),
            data,
            metadata,
        }
    }
}

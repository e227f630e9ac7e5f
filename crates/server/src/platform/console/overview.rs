//! The overview, and the page that lists the members with a problem.

use std::collections::BTreeMap;

use axum::response::Response;
use wardroom_api::{
    Page,
    client::Summary,
    found::Found,
    history::{Row, Rows},
    liveness::Incident,
};
use wardroom_console::{
    face::Group,
    overview::{self, Axis, Change, Overview},
};

use super::{inside::optional, visit::Visit};
use crate::platform::http::error::Error;

/// The overview.
pub(super) async fn overview(visit: Visit) -> Result<Response, Error> {
    let summary = visit.summary().await;
    let api = visit.api();
    let mut unread = Vec::new();
    let changes: Option<Rows> = optional(api.read("/api/v1/history", &[("limit", "10")]).await, &mut unread);
    let incidents: Option<Page<Incident>> =
        optional(api.read("/api/v1/incidents", &[("limit", "20")]).await, &mut unread);
    let incidents = incidents.map(|page| page.data).unwrap_or_default();
    let shown = Overview {
        attention: api.one("/api/v1/attention", &[]).await,
        fleet: fleet(&visit, summary.as_ref()),
        changes: named(&visit, changes.map(|rows| rows.data).unwrap_or_default()).await,
        incidents: incidents.into_iter().filter(|incident| incident.ended_at.is_none()).collect(),
        unread,
        places: visit.places(),
        now: visit.console.app.now(),
    };
    let title = match &shown.attention {
        Ok(attention) if !attention.needs.is_empty() => format!("({}) Overview", attention.needs.len()),
        Ok(_) | Err(_) => "Overview".to_owned(),
    };
    visit.page_with(summary.as_ref(), axum::http::StatusCode::OK, "", &title, &overview::page(&shown))
}

/// The rows with what people call their resources.
pub(super) async fn named(visit: &Visit, rows: Vec<Row>) -> Vec<Change> {
    let mut names: BTreeMap<(String, String), Option<String>> = BTreeMap::new();
    let mut changes = Vec::new();
    for row in rows {
        let key = (row.kind.clone(), row.resource_id.clone());
        if !names.contains_key(&key) {
            let query = [("name", &*row.resource_id), ("kind", &*row.kind), ("deleted", "true")];
            let found: Option<Page<Found>> = match visit.console.faces().any(|face| face.kind == row.kind) {
                true => visit.api().read("/api/v1/resources", &query).await.ok(),
                false => None,
            };
            let found =
                found.and_then(|page| page.data.into_iter().find(|found| found.id == row.resource_id));
            names.insert(key.clone(), found.map(|found| found.name));
        }
        changes.push(Change { name: names.get(&key).cloned().flatten(), row });
    }
    changes
}

/// All that needs a person.
pub(super) async fn attention(visit: Visit) -> Result<Response, Error> {
    let shown = Overview {
        attention: visit.api().one("/api/v1/attention", &[]).await,
        fleet: Vec::new(),
        changes: Vec::new(),
        incidents: Vec::new(),
        unread: Vec::new(),
        places: visit.places(),
        now: visit.console.app.now(),
    };
    visit.page("", "Needs a person", &overview::attention(&shown)).await
}

/// The states of each kind of members, in the order of a life.
fn fleet(visit: &Visit, summary: Option<&Summary>) -> Vec<Axis> {
    let Some(summary) = summary else { return Vec::new() };
    let members = visit.console.faces().filter(|face| face.group == Group::Members);
    members
        .map(|face| {
            let counted = summary.kinds.get(face.kind);
            let known = (face.states)();
            let place = |state: &str| known.iter().position(|known| *known == state).unwrap_or(known.len());
            let mut states: Vec<_> =
                counted.into_iter().flatten().map(|(state, count)| (state.clone(), *count)).collect();
            states.retain(|(_, count)| *count > 0);
            states.sort_by_key(|(state, _)| place(state));
            Axis { kind: face.kind, title: face.many, segment: face.segment, states }
        })
        .collect()
}

//! The overview, and the page that lists the members with a problem.

use std::collections::BTreeMap;

use axum::response::Response;
use wardroom_api::{
    Page, Problem,
    attention::{Attention, Need},
    client::Summary,
    found::Found,
    history::{Row, Rows},
    liveness::Incident,
};
use wardroom_console::{
    face::{Group, Selects},
    form,
    overview::{self, Axis, Change, Line, Needs, Overview},
};

use super::{act, inside::optional, visit::Visit};
use crate::platform::http::error::Error;

/// The overview.
pub(super) async fn overview(visit: Visit) -> Result<Response, Error> {
    let summary = visit.summary().await;
    let api = visit.api();
    let mut unread = Vec::new();
    let changes: Option<Rows> = optional(
        api.read("/api/v1/history", &[("limit", "10"), ("without", super::session::KIND)]).await,
        &mut unread,
    );
    let incidents: Option<Page<Incident>> =
        optional(api.read("/api/v1/incidents", &[("limit", "20")]).await, &mut unread);
    let incidents = incidents.map(|page| page.data).unwrap_or_default();
    let shown = Overview {
        attention: needs(&visit).await,
        fleet: fleet(&visit, summary.as_ref()),
        changes: named(&visit, changes.map(|rows| rows.data).unwrap_or_default()).await,
        incidents: incidents.into_iter().filter(|incident| incident.ended_at.is_none()).collect(),
        unread,
        places: visit.places(),
        now: visit.console.app.now(),
    };
    let title = match &shown.attention {
        Ok(needs) if !needs.lines.is_empty() => format!("({}) Overview", needs.lines.len()),
        Ok(_) | Err(_) => "Overview".to_owned(),
    };
    visit.page_with(summary.as_ref(), axum::http::StatusCode::OK, "", &title, &overview::page(&shown))
}

/// What needs a person, with the forms of the next steps that the caller may take.
async fn needs(visit: &Visit) -> Result<Needs, Problem> {
    let found: Attention = visit.api().one("/api/v1/attention", &[]).await?;
    let mut lines = Vec::new();
    for need in found.needs {
        lines.push(line(visit, need).await);
    }
    Ok(Needs { lines, left_out: found.left_out })
}

async fn line(visit: &Visit, mut need: Need) -> Line {
    let face = visit.console.faces().find(|face| face.kind == need.kind);
    let next = need.next.as_ref().filter(|next| next.method != "GET" && act::may(visit, next));
    let form = face.zip(next).map(|(face, next)| act::form_of(face, &need.id, next));
    let by_state = face.filter(|face| face.selects != Selects::Nothing);
    let list = by_state
        .map(|face| format!("/console/{}{}", face.segment, form::query([("state", need.state.as_str())])));
    if face.is_some_and(|face| face.renamed)
        && let Some(name) = name_of(visit, &need.kind, &need.id).await
    {
        need.name = name;
    }
    Line { need, form, list }
}

/// The rows with what people call their resources.
pub(super) async fn named(visit: &Visit, rows: Vec<Row>) -> Vec<Change> {
    let mut names: BTreeMap<(String, String), Option<String>> = BTreeMap::new();
    let mut changes = Vec::new();
    for row in rows {
        let key = (row.kind.clone(), row.resource_id.clone());
        if !names.contains_key(&key) {
            let name = name_of(visit, &row.kind, &row.resource_id).await;
            names.insert(key.clone(), name);
        }
        changes.push(Change { name: names.get(&key).cloned().flatten(), row });
    }
    changes
}

/// What people call a resource; nothing where that is not known.
async fn name_of(visit: &Visit, kind: &str, id: &str) -> Option<String> {
    let face = visit.console.faces().find(|face| face.kind == kind)?;
    if face.renamed {
        let found = visit.api().get(&face.call(id), &[]).await.ok()?;
        return Some((face.member)(&found).name);
    }
    let query = [("name", id), ("kind", kind), ("deleted", "true")];
    let found: Page<Found> = visit.api().read("/api/v1/resources", &query).await.ok()?;
    found.data.into_iter().find(|found| found.id == id).map(|found| found.name)
}

/// All that needs a person.
pub(super) async fn attention(visit: Visit) -> Result<Response, Error> {
    let shown = Overview {
        attention: needs(&visit).await,
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

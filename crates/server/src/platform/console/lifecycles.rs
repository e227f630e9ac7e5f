//! The pages of the lifecycles.

use axum::response::Response;
use wardroom_api::client::Summary;
use wardroom_console::{
    detail::label,
    lifecycles::{self, Lifecycle},
};
use wardroom_core::{
    diagram::{self, Diagram},
    lifecycles as tables,
};

use super::visit::Visit;
use crate::platform::http::{error::Error, path::Path};

/// The part of the path, and the section of the sidebar.
const HERE: &str = "lifecycles";

/// Every lifecycle.
pub(super) async fn all(visit: Visit) -> Result<Response, Error> {
    let summary = visit.summary().await;
    let shown: Vec<_> = diagram::all().iter().map(|one| lifecycle(&visit, summary.as_ref(), one)).collect();
    let content = lifecycles::all(&shown);
    visit.page_with(summary.as_ref(), axum::http::StatusCode::OK, HERE, "Lifecycles", &content)
}

/// One lifecycle, and what can happen in one of its states.
pub(super) async fn one(visit: Visit, Path(name): Path<String>) -> Result<Response, Error> {
    let diagram = diagram::of(&name).ok_or(Error::NoRoute)?;
    let summary = visit.summary().await;
    let shown = lifecycle(&visit, summary.as_ref(), diagram);
    let current = Some(visit.asked("state")).filter(|state| diagram.lifecycle.state(state).is_some());
    // The stages belong to what runs.
    let plans =
        if diagram.lifecycle.name == wardroom_workflow::RUN { tables::published().plans } else { Vec::new() };
    let title = format!("Lifecycle of {}", shown.title);
    let content = lifecycles::one(&shown, current, &plans);
    visit.page_with(summary.as_ref(), axum::http::StatusCode::OK, HERE, &title, &content)
}

fn lifecycle(visit: &Visit, summary: Option<&Summary>, diagram: &'static Diagram) -> Lifecycle {
    let name = diagram.lifecycle.name;
    let face = visit.console.faces().find(|face| face.kind == name);
    let counted = summary.and_then(|summary| summary.kinds.get(name)).into_iter().flatten();
    Lifecycle {
        diagram,
        title: face.map_or_else(|| label(&name.replace('-', "_")), |face| face.many.to_owned()),
        segment: face.map(|face| face.segment),
        counts: counted
            .map(|(state, count)| (state.clone(), u64::try_from(*count).unwrap_or_default()))
            .collect(),
    }
}

//! The list of a kind, and the search over all kinds.

use axum::{http::StatusCode, response::Response};
use wardroom_api::{Page, found::Found};
use wardroom_console::{
    face::{Ask, Face},
    filter::Filter,
    form, list,
};

use super::{answer::see, bulk, visit::Visit};
use crate::platform::http::{error::Error, path::Path};

/// Members on a page.
const PAGE: usize = 100;

/// The list of a kind.
pub(super) async fn list(visit: Visit, Path(section): Path<String>) -> Result<Response, Error> {
    let face = visit.console.face(&section).ok_or(Error::NoRoute)?;
    let (typed, state, after) = (visit.asked("q"), visit.asked("state"), visit.asked("after"));
    let filter = Filter::of(typed, face.fields);
    let some = |text| Some(text).filter(|text: &&str| !text.is_empty());
    let asked = Ask {
        state: some(state),
        labels: filter.labels.as_deref(),
        fields: filter.fields.as_deref(),
        after: some(after),
        limit: PAGE,
    };
    let query = (face.ask)(&asked);
    let query: Vec<_> = query.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let found = visit.api().get(face.path, &query).await;
    let summary = visit.summary().await;
    let states = summary.as_ref().map(|summary| summary.kinds.get(face.kind).cloned().unwrap_or_default());
    let total = states.as_ref().map(|states| states.values().sum::<i64>());
    let counts = states.filter(|_| typed.is_empty()).map(|states| states.into_iter().collect());
    let (found, problem) = match found {
        Ok(value) => ((face.read)(value, &asked), None),
        Err(problem) => (Default::default(), Some(problem)),
    };
    let status = problem
        .as_ref()
        .map_or(StatusCode::OK, |problem| StatusCode::from_u16(problem.status).unwrap_or_default());
    let rows: Vec<_> = found.items.iter().map(face.member).collect();
    let is_empty =
        problem.is_none() && rows.is_empty() && typed.is_empty() && state.is_empty() && after.is_empty();
    let trail =
        visit.asked("trail").split(',').filter(|cursor| !cursor.is_empty()).map(str::to_owned).collect();
    let shown = list::List {
        face,
        rows,
        counts,
        filter: typed.to_owned(),
        state: state.to_owned(),
        next: found.next,
        after: after.to_owned(),
        trail,
        // Commands know a kind by its name on the wire, and by its plural.
        command: filter
            .command(if face.segment.starts_with(face.kind) { face.segment } else { face.kind }, state),
        problem,
        is_empty,
        total,
        verbs: bulk::verbs(&visit, face),
        now: visit.console.app.now(),
    };
    visit.page_with(summary.as_ref(), status, face.segment, face.many, &list::page(&shown))
}

/// Leads to the member of this name or id; to the candidates where there are several.
pub(super) async fn find(visit: Visit) -> Result<Response, Error> {
    let name = visit.asked("name").trim().to_owned();
    if name.is_empty() {
        return Ok(see("/console"));
    }
    let found: Page<Found> = match visit.api().read("/api/v1/resources", &[("name", &name)]).await {
        Ok(found) => found,
        Err(problem) => return visit.refused("", &problem).await,
    };
    let face = |found: &Found| visit.console.faces().find(|face| face.kind == found.kind);
    let pages: Vec<(&Face, &Found)> =
        found.data.iter().filter_map(|found| Some((face(found)?, found))).collect();
    if let [(face, only)] = pages[..] {
        return Ok(see(&face.page(&only.id)));
    }
    let pages: Vec<_> = pages.into_iter().map(|(face, found)| (face, found.clone())).collect();
    visit.page("", "Find", &list::candidates(&name, &pages)).await
}

/// The page of a member that another page leads to, by its id.
pub(super) fn page_of(face: &Face, id: &str, rest: &[(&str, &str)]) -> String {
    format!("{}{}", face.page(id), form::query(rest.iter().copied()))
}

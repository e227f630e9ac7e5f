//! The page of one member.

use axum::response::Response;
use serde_json::Value;
use wardroom_api::{
    Page, Problem,
    client::Explained,
    found::Found,
    history::{Row, Rows},
};
use wardroom_console::{
    detail::{self, Tab},
    face::{Ask, Face, Member},
};
use wardroom_core::tone;

use super::{act, inside::optional, visit::Visit};
use crate::platform::http::{error::Error, path::Path};

/// Rows of history on the first tab, and on the tab of history.
const FEW: &str = "10";
/// Rows of a member and of the work on it together.
const SHOWN: usize = 14;
const MANY: &str = "100";

/// What is now.
pub(super) async fn now(
    visit: Visit,
    Path((section, id)): Path<(String, String)>,
) -> Result<Response, Error> {
    show(&visit, &section, &id, Tab::Now).await
}

/// Another tab.
pub(super) async fn tab(
    visit: Visit,
    Path((section, id, tab)): Path<(String, String, String)>,
) -> Result<Response, Error> {
    let tab = Tab::of(&tab).filter(|tab| *tab != Tab::Now).ok_or(Error::NoRoute)?;
    show(&visit, &section, &id, tab).await
}

async fn show(visit: &Visit, section: &str, id: &str, tab: Tab) -> Result<Response, Error> {
    let face = visit.console.face(section).ok_or(Error::NoRoute)?;
    let json = match read(visit, face, id).await {
        Ok(json) => json,
        Err(problem) => return visit.refused(face.segment, &problem).await,
    };
    let member = (face.member)(&json);
    let api = visit.api();
    let mut unread = Vec::new();
    let explained: Option<Explained> = match tab {
        Tab::Now => {
            let path = format!(
                "/api/v1/resources/{}/{}/why",
                face.kind,
                wardroom_console::form::encoded(&member.id)
            );
            optional(api.read(&path, &[]).await, &mut unread)
        }
        Tab::History | Tab::Labels | Tab::Json => None,
    };
    let more = match (tab, face.more) {
        (Tab::Now, Some(more)) => {
            optional(api.get(&format!("{}/{more}", face.call(&member.id)), &[]).await, &mut unread)
        }
        _ => None,
    };
    let mut has_no_history = false;
    let history: Option<Rows> = match tab {
        Tab::Now | Tab::History => {
            let limit = if tab == Tab::Now { FEW } else { MANY };
            let asked = [
                ("kind", face.kind),
                ("id", &member.id),
                ("limit", limit),
                ("continue", visit.asked("after")),
            ];
            let read = api.read("/api/v1/history", &asked).await;
            // What is derived was never registered.
            has_no_history = read.as_ref().is_err_and(|problem: &Problem| problem.status == 404);
            optional(read, &mut unread)
        }
        Tab::Labels | Tab::Json => None,
    };
    let work = work_on(visit, face, &member, tab, &mut unread).await;
    let hides_history =
        history.is_none() && !has_no_history && unread.is_empty() && matches!(tab, Tab::Now | Tab::History);
    let (mut history, older) = history.map_or_else(Default::default, |rows| (rows.data, rows.next));
    if !work.is_empty() {
        history.extend(work);
        history.sort_by_key(|row| std::cmp::Reverse((row.created_at, row.sequence)));
        history.truncate(SHOWN);
    }
    let offers = act::offers(visit, face, &member, &json, explained.as_ref());
    let title = format!("{} · {}", member.name, tone::word(face.kind, &member.state));
    let done = visit.asked("done");
    let shown = detail::Detail {
        face,
        facts: (face.facts)(&json, more.as_ref()),
        layers: (face.layers)(&json, more.as_ref()),
        panels: (face.panels)(&json, more.as_ref()),
        member,
        json,
        tab,
        why: explained,
        history,
        older,
        hides_history,
        offers,
        role: visit.identity()?.role.to_string(),
        unread,
        done: (!done.is_empty()).then(|| done.chars().take(40).collect()),
        now: visit.console.app.now(),
    };
    visit.page(face.segment, &title, &detail::page(&shown)).await
}

/// The newest history of the work on a member, which is shown beside its own.
async fn work_on(
    visit: &Visit,
    face: &Face,
    member: &Member,
    tab: Tab,
    unread: &mut Vec<Problem>,
) -> Vec<Row> {
    let (Tab::Now, Some(kind), Some(id)) = (tab, face.work, &member.work) else { return Vec::new() };
    let asked = [("kind", kind), ("id", id), ("limit", FEW)];
    let read: Option<Rows> = optional(visit.api().read("/api/v1/history", &asked).await, unread);
    // That a stage begins is of interest to the engine; how it went is told by its attempt.
    let rows = read.map(|rows| rows.data).unwrap_or_default();
    rows.into_iter().filter(|row| row.type_ != "intent").collect()
}

/// Reads a member by its id, or by what people call it.
pub(super) async fn read(visit: &Visit, face: &Face, id: &str) -> Result<Value, Problem> {
    let api = visit.api();
    let missing = match api.get(&face.call(id), &[]).await {
        Ok(value) => return Ok(inner(value)),
        // Some are listed, and not read one by one.
        Err(problem) if matches!(problem.status, 404 | 405) => Problem { status: 404, ..problem },
        Err(problem) => return Err(problem),
    };
    if let Some(listed) = listed(visit, face, id).await? {
        return Ok(listed);
    }
    let found: Result<Page<Found>, _> =
        api.read("/api/v1/resources", &[("name", id), ("kind", face.kind)]).await;
    // What has no name to be found by is not found.
    let Ok(found) = found else { return Err(missing) };
    match &found.data[..] {
        [only] if only.id != id => api.get(&face.call(&only.id), &[]).await.map(inner),
        _ => Err(missing),
    }
}

/// The id of a member that a path names; the path's own word where there is none.
pub(super) async fn id_of(visit: &Visit, face: &Face, key: &str) -> String {
    match read(visit, face, key).await {
        Ok(found) => (face.member)(&found).id,
        Err(_) => key.to_owned(),
    }
}

/// Reads a resource that the API lists, and does not answer by itself.
async fn listed(visit: &Visit, face: &Face, id: &str) -> Result<Option<Value>, Problem> {
    if visit.console.app.routes.at("GET", &face.call(id)).is_some() {
        return Ok(None);
    }
    let mut after: Option<String> = None;
    loop {
        let asked = Ask { after: after.as_deref(), limit: 1000, ..Ask::default() };
        let query = (face.ask)(&asked);
        let query: Vec<_> = query.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let page = (face.read)(visit.api().get(face.path, &query).await?, &asked);
        if let Some(found) = page.items.into_iter().find(|item| (face.member)(item).key == id) {
            return Ok(Some(found));
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(None),
        }
    }
}

/// The object of an answer, without its envelope.
fn inner(mut value: Value) -> Value {
    if value["success"] == Value::Bool(true) { value["data"].take() } else { value }
}

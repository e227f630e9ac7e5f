//! One verb on many members: the page of its dry run, and the run that follows it.
//!
//! The form of the run names the members and the versions that the dry run showed, so that nothing else is changed.

use std::collections::BTreeMap;

use axum::{http::StatusCode, response::Response};
use serde_json::{Map, Value};
use wardroom_api::{
    Envelope, Problem,
    action::Action,
    bulk::{BulkMember, BulkReport, BulkRequest},
};
use wardroom_console::{
    bulk::{self, Bulk, TYPED, Verb},
    face::{Ask, Face},
    filter::Filter,
};
use wardroom_core::{action::Call, lifecycles};

use super::{
    act,
    answer::see,
    inside::Asked,
    visit::{Posted, Visit},
};
use crate::platform::{
    http::{error::Error, path::Path},
    identity::secret,
};

/// The route that does verbs on many members.
const PATH: &str = "/api/v1/bulk";

/// What stands for the member in a request.
const MEMBER: &str = "{id}";

/// What the dry run writes as the reason; it is stored nowhere.
const TRIED: &str = "dry run";

/// The verbs of a kind that take nothing but a comment, as far as the caller may use them.
pub(super) fn verbs(visit: &Visit, face: &Face) -> Vec<Verb> {
    let all = lifecycles::all();
    let moves = all.iter().filter(|one| one.name == face.kind).flat_map(|one| &one.moves);
    let calls = moves.filter_map(|row| row.call).chain(face.calls.iter().copied());
    let mut verbs: Vec<Verb> = Vec::new();
    for call in calls.filter(|call| call.kind == face.kind && takes_a_comment_at_most(call)) {
        let action: Action = call.of(MEMBER).into();
        let key = act::key(&action);
        let is_new = verbs.iter().all(|verb| {
            let known = &verb.action;
            (&known.method, &known.path, &known.body) != (&action.method, &action.path, &action.body)
        });
        // A secret is shown for one member at a time.
        let route = visit.console.app.routes.at(&action.method, &action.path);
        let is_secret = route.is_none_or(|route| route.shows_secret);
        if action.path.contains(MEMBER) && act::may(visit, &action) && is_new && !is_secret {
            let effect = (face.effect)(&action.action).unwrap_or_default().to_owned();
            verbs.push(Verb { key, action, effect });
        }
    }
    verbs
}

fn takes_a_comment_at_most(call: &Call) -> bool {
    call.method != "GET" && call.named_by.is_none() && call.needs.iter().all(|need| *need == "comment")
}

/// The page of the dry run.
pub(super) async fn tried(visit: Visit, Path(section): Path<String>) -> Result<Response, Error> {
    let face = visit.console.face(&section).ok_or(Error::NoRoute)?;
    let key = visit.asked("verb");
    let Some(verb) = verbs(&visit, face).into_iter().find(|verb| verb.key == key) else {
        return Ok(see(&back(&visit, face)));
    };
    let is_all = visit.asked("who") == "all";
    let ids = visit.all("member");
    if !is_all && ids.is_empty() {
        let none =
            Error::invalid("member", "no member is ticked: tick some in the list, or take all that match");
        let problem = visit.api().problem(&none);
        return show(&visit, face, verb, String::new(), Err(problem), None).await;
    }
    let members = ids.iter().map(|id| BulkMember { id: (*id).to_owned(), version: None }).collect();
    let (members, select) = if is_all { (Vec::new(), Some(select(&visit, face))) } else { (members, None) };
    let asked = BulkRequest { dry_run: true, members, select, ..request(&visit, &verb, &BTreeMap::new()) };
    let report = ask(&visit, &asked, None).await;
    let selected = if is_all { "all that match".to_owned() } else { format!("{} ticked", ids.len()) };
    show(&visit, face, verb, selected, report, None).await
}

/// Does what the dry run showed, to the members that it showed.
pub(super) async fn run(
    visit: Visit,
    Path(section): Path<String>,
    Posted(given): Posted,
) -> Result<Response, Error> {
    let face = visit.console.face(&section).ok_or(Error::NoRoute)?;
    let key = visit.asked("verb");
    let field = |name: &str| given.get(name).map_or("", String::as_str);
    let members = members(field("members"));
    let Some(verb) =
        verbs(&visit, face).into_iter().find(|verb| verb.key == key).filter(|_| !members.is_empty())
    else {
        return Ok(see(&back(&visit, face)));
    };
    let selected = format!("{} members", members.len());
    let asked = request(&visit, &verb, &given);
    if given.contains_key("of") && field("count").trim() != field("of") {
        let report = ask(&visit, &BulkRequest { dry_run: true, members, ..asked }, None).await;
        return show(&visit, face, verb, selected, report, Some(&given)).await;
    }
    let report = ask(&visit, &BulkRequest { members, ..asked }, given.get("once").map(String::as_str)).await;
    show(&visit, face, verb, selected, report, Some(&given)).await
}

/// The members and versions of a form.
fn members(text: &str) -> Vec<BulkMember> {
    let parts: Vec<_> = text.split('*').collect();
    let member = |pair: &[&str]| match pair {
        [id, version] => Some(BulkMember { id: (*id).to_owned(), version: Some(version.parse().ok()?) }),
        _ => None,
    };
    parts.chunks(2).filter_map(member).collect()
}

/// The filter of the list, as the parameters that the API takes.
fn select(visit: &Visit, face: &Face) -> BTreeMap<String, String> {
    let filter = Filter::of(visit.asked("q"), face.fields);
    let state = Some(visit.asked("state")).filter(|state| !state.is_empty());
    let asked = Ask {
        state,
        labels: filter.labels.as_deref(),
        fields: filter.fields.as_deref(),
        after: None,
        limit: 1,
    };
    let query = (face.ask)(&asked).into_iter().filter(|(name, _)| *name != "limit");
    query.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The request of a verb, with what a form fills in.
fn request(visit: &Visit, verb: &Verb, given: &BTreeMap<String, String>) -> BulkRequest {
    let Action { method, path, body, .. } = &verb.action;
    let mut fixed: Map<String, Value> = body.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
    let takes_comment = act::fields(visit, &verb.action, given).iter().any(|field| field.name == "comment");
    if takes_comment {
        let comment = given.get("comment").map_or(TRIED, |comment| comment.trim());
        if !comment.is_empty() {
            fixed.insert("comment".to_owned(), comment.into());
        }
    }
    let body = (!fixed.is_empty() || method != "DELETE").then_some(Value::Object(fixed));
    BulkRequest { method: method.clone(), path: path.clone(), body, ..BulkRequest::default() }
}

async fn ask(visit: &Visit, request: &BulkRequest, once: Option<&str>) -> Result<BulkReport, Problem> {
    let api = visit.api();
    let internal = |_| api.problem(&Error::Internal);
    let body = serde_json::to_value(request).map_err(internal)?;
    let asked = Asked { method: "POST", path: PATH, body: Some(body), once, condition: None };
    let answer: Envelope<BulkReport> = serde_json::from_value(api.ask(asked).await?).map_err(internal)?;
    Ok(answer.data)
}

/// The list that the members were selected from.
fn back(visit: &Visit, face: &Face) -> String {
    let pairs = [("q", visit.asked("q")), ("state", visit.asked("state"))];
    format!("/console/{}{}", face.segment, wardroom_console::form::query(pairs))
}

async fn show(
    visit: &Visit,
    face: &Face,
    verb: Verb,
    selected: String,
    report: Result<BulkReport, Problem>,
    given: Option<&BTreeMap<String, String>>,
) -> Result<Response, Error> {
    let (report, problem) = match report {
        Ok(report) => (Some(report), None),
        Err(problem) => (None, Some(problem)),
    };
    let status = problem
        .as_ref()
        .map_or(StatusCode::OK, |problem| StatusCode::from_u16(problem.status).unwrap_or_default());
    let empty = BTreeMap::new();
    let fields = act::fields(visit, &verb.action, given.unwrap_or(&empty));
    let is_miscounted = given.is_some()
        && report.as_ref().is_some_and(|report| report.dry_run && report.fleet.percent > TYPED);
    let title = format!("{} · {}", verb.name(), face.many);
    let items = report.iter().flat_map(|report| &report.items);
    let secrets = items.flat_map(|item| {
        let shown = item.answer.as_ref().map(act::secrets).unwrap_or_default();
        shown.into_iter().map(|(name, value)| (item.name.clone(), name, value))
    });
    let secrets = secrets.collect();
    let shown = Bulk {
        face,
        fields: fields.into_iter().filter(|field| field.name == "comment").collect(),
        verb,
        selected,
        back: back(visit, face),
        report,
        problem,
        secrets,
        is_miscounted,
        csrf: visit.session.csrf.clone(),
        once: secret::random_text(),
    };
    let summary = visit.summary().await;
    visit.page_with(summary.as_ref(), status, face.segment, &title, &bulk::page(&shown))
}

#[cfg(test)]
mod tests {
    use super::members;

    #[test]
    fn members_are_read_with_their_versions() {
        let read = members("edge-1*3*edge.2*14");
        let read: Vec<_> = read.iter().map(|member| (&*member.id, member.version)).collect();
        assert_eq!(read, [("edge-1", Some(3)), ("edge.2", Some(14))]);
        assert_eq!(members(""), []);
        assert_eq!(members("a*b*c"), []);
    }
}

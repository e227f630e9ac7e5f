//! Actions from forms. A form names one of the actions that the API offers for its member; it names no request.

use std::collections::BTreeMap;

use axum::{http::StatusCode, response::Response};
use serde_json::{Map, Value};
use wardroom_api::{
    Problem,
    action::Action,
    client::{Explained, Next},
};
use wardroom_console::{
    detail::Offer,
    dialog::{self, Dialog, Field, Input},
    face::{self, Ask, Face, Member},
    form::encoded,
};

use super::{
    answer::see,
    detail::read,
    inside::{Asked, optional},
    list::page_of,
    visit::{Posted, Visit},
};
use crate::platform::{
    http::{access, error::Error, path::Path},
    identity::secret,
};

/// The fields of an answer that are shown once.
const SECRETS: &[&str] = &["token", "join_token", "secret", "token_expires_at", "expires_at"];

type Named = Path<(String, String, String)>;

/// Everything that can be asked of a member, each request once: its own list, what its explanation offers, and what can be
/// asked of all of its kind.
pub(super) fn offers(
    visit: &Visit,
    face: &Face,
    member: &Member,
    json: &Value,
    explained: Option<&Explained>,
) -> Vec<Offer> {
    let own: Vec<Action> = face::typed(&json["actions"]).unwrap_or_default();
    let of_kind: Vec<Action> = match member.deleted {
        true => Vec::new(),
        false => face.calls.iter().map(|call| call.of(&encoded(&member.key)).into()).collect(),
    };
    let steps = explained.iter().flat_map(|explained| {
        let brief = &explained.brief;
        [&brief.next].into_iter().chain(&brief.others)
    });
    let of_steps = steps.filter_map(|step| Some((step.action.as_ref()?, &*step.what)));
    let of_whys = explained.iter().flat_map(|explained| &explained.data).flat_map(|why| {
        let exits = why.exits.iter().filter_map(|exit| Some((exit.call.as_ref()?, &*exit.when)));
        let fixes = why.blockers.iter().filter_map(|blocker| Some((blocker.fix.as_ref()?, &*blocker.what)));
        let next = match &why.next {
            Next::Call(action) => Some((&**action, "")),
            Next::Nothing | Next::Wait { .. } | Next::Mend { .. } => None,
        };
        exits.chain(fixes).chain(next)
    });
    let plain =
        |actions: &[Action]| actions.iter().map(|action| (action.clone(), String::new())).collect::<Vec<_>>();
    let said = of_whys.chain(of_steps).map(|(action, effect)| (action.clone(), effect.to_owned()));
    let all = plain(&own).into_iter().chain(said).chain(plain(&of_kind));
    let mut offers: Vec<Offer> = Vec::new();
    for (action, effect) in all.filter(|(action, _)| action.method != "GET") {
        add(visit, face, member, &mut offers, &action, &effect);
    }
    offers
}

/// Adds an action, unless its request is there already.
fn add(visit: &Visit, face: &Face, member: &Member, offers: &mut Vec<Offer>, action: &Action, effect: &str) {
    let same = |offer: &&mut Offer| {
        (&offer.action.method, &offer.action.path, &offer.action.body)
            == (&action.method, &action.path, &action.body)
            && offer.action.action == action.action
    };
    if let Some(known) = offers.iter_mut().find(same) {
        if known.effect.is_empty() {
            known.effect = effect.to_owned();
        }
        return;
    }
    let key = key(action);
    let known = Some((face.effect)(&action.action).unwrap_or_default()).filter(|_| effect.is_empty());
    let effect = known.unwrap_or(effect);
    let path = may(visit, action).then(|| form_of(face, &member.key, action));
    offers.push(Offer { action: action.clone(), key, path, effect: effect.to_owned() });
}

/// The path of the form of an action, on the page of its member.
pub(super) fn form_of(face: &Face, member: &str, action: &Action) -> String {
    format!("{}/act/{}", face.page(member), encoded(&key(action)))
}

/// Names an action among those of its member: its verb, and what its body fixes.
pub(super) fn key(action: &Action) -> String {
    let values = action.body.as_ref().and_then(Value::as_object).into_iter().flatten();
    let words = values.filter_map(|(field, value)| match value {
        Value::String(text) if *text == action.id => None,
        Value::String(text) => Some(text.clone()),
        Value::Bool(true) => Some(field.clone()),
        Value::Null => Some(format!("no_{field}")),
        Value::Bool(false) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    });
    let kind = [action.kind.clone(), action.action.clone()];
    kind.into_iter().chain(words).collect::<Vec<_>>().join("~").chars().take(120).collect()
}

/// Whether the caller's role and kinds suffice, by the table that the API itself asks.
pub(super) fn may(visit: &Visit, action: &Action) -> bool {
    let app = &visit.console.app;
    let route = app.routes.at(&action.method, &action.path);
    route.is_some_and(|route| access::check(app, route, &visit.caller).is_ok())
}

/// A member with what can be asked of it.
struct Subject {
    face: &'static Face,
    member: Member,
    offers: Vec<Offer>,
}

async fn subject(visit: &Visit, section: &str, id: &str) -> Result<Result<Subject, Problem>, Error> {
    let face = visit.console.face(section).ok_or(Error::NoRoute)?;
    let json = match read(visit, face, id).await {
        Ok(json) => json,
        Err(problem) => return Ok(Err(problem)),
    };
    let member = (face.member)(&json);
    let path = format!("/api/v1/resources/{}/{}/why", face.kind, encoded(&member.id));
    // Not every kind explains its states.
    let mut unread = Vec::new();
    let explained: Option<Explained> = optional(visit.api().read(&path, &[]).await, &mut unread);
    if let Some(problem) = unread.pop() {
        return Ok(Err(problem));
    }
    let offers = offers(visit, face, &member, &json, explained.as_ref());
    Ok(Ok(Subject { face, member, offers }))
}

/// The form of an action.
pub(super) async fn form(visit: Visit, Path((section, id, key)): Named) -> Result<Response, Error> {
    let subject = match subject(&visit, &section, &id).await? {
        Ok(subject) => subject,
        Err(problem) => return visit.refused("", &problem).await,
    };
    match subject.offers.iter().find(|offer| offer.key == key) {
        Some(offer) => show(&visit, &subject, offer, &BTreeMap::new(), None).await,
        None => Ok(see(&page_of(subject.face, &subject.member.key, &[]))),
    }
}

/// Does what the form asks for, if it is still offered.
pub(super) async fn act(
    visit: Visit,
    Path((section, id, key)): Named,
    Posted(given): Posted,
) -> Result<Response, Error> {
    let subject = match subject(&visit, &section, &id).await? {
        Ok(subject) => subject,
        Err(problem) => return visit.refused("", &problem).await,
    };
    let Some(offer) = subject.offers.iter().find(|offer| offer.key == key) else {
        return gone(&visit, &subject, &key, &given).await;
    };
    let asked = Asked {
        method: &offer.action.method,
        path: &offer.action.path,
        body: body(&visit, &offer.action, &given),
        once: given.get("once").map(String::as_str),
        condition: None,
    };
    let back = page_of(subject.face, &subject.member.key, &[]);
    match visit.api().ask(asked).await {
        Ok(answer) => {
            let shown = secrets(&answer);
            if shown.is_empty() {
                let done = page_of(subject.face, &subject.member.key, &[("done", &offer.action.action)]);
                return Ok(see(&done));
            }
            let content = dialog::secret(&subject.member.name, &back, &shown);
            visit.page(subject.face.segment, &subject.member.name, &content).await
        }
        Err(problem) => show(&visit, &subject, offer, &given, Some(problem)).await,
    }
}

/// The body of a request: what the action fixes, and what the form fills in.
fn body(visit: &Visit, action: &Action, given: &BTreeMap<String, String>) -> Option<Value> {
    visit.console.fields.of_action(action)?;
    let mut body = action.body.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
    for Field { name, value, input, .. } in fields(visit, action, given) {
        let value = value.trim();
        // The API itself refuses what is not of its type.
        let typed = match input {
            Input::Flag => Value::Bool(value == "true"),
            Input::Number => {
                value.parse::<i64>().map_or_else(|_| Value::String(value.to_owned()), Value::from)
            }
            Input::Text(_) | Input::Time | Input::Choice(_) => Value::String(value.to_owned()),
        };
        if !value.is_empty() {
            body.insert(name, typed);
        }
    }
    (!body.is_empty() || action.method != "DELETE").then_some(Value::Object(body))
}

/// What an answer shows only once.
pub(super) fn secrets(answer: &Value) -> Vec<(String, String)> {
    let of = |object: Option<&Map<String, Value>>| -> Vec<(String, String)> {
        let fields = SECRETS.iter().filter_map(|name| Some((*name, object?.get(*name)?.as_str()?)));
        fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let found = [of(answer.as_object()), of(answer["data"].as_object())];
    let has_secret =
        |found: &&Vec<(String, String)>| found.iter().any(|(name, _)| SECRETS[..3].contains(&&**name));
    found.iter().find(has_secret).cloned().unwrap_or_default()
}

async fn show(
    visit: &Visit,
    subject: &Subject,
    offer: &Offer,
    given: &BTreeMap<String, String>,
    problem: Option<Problem>,
) -> Result<Response, Error> {
    let status =
        problem.as_ref().and_then(|problem| StatusCode::from_u16(problem.status).ok()).unwrap_or_default();
    let mut instead = Vec::new();
    let allowed = problem.iter().flat_map(|problem| problem.allowed_actions.iter().flatten());
    for action in allowed.filter(|action| action.method != "GET") {
        add(visit, subject.face, &subject.member, &mut instead, action, "");
    }
    let dialog = Dialog {
        name: subject.member.name.clone(),
        back: page_of(subject.face, &subject.member.key, &[]),
        fields: with_names(visit, fields(visit, &offer.action, given)).await,
        command: wardroom_console::detail::command_of(subject.face, &subject.member, &offer.action),
        offer: offer.clone(),
        csrf: visit.session.csrf.clone(),
        once: secret::random_text(),
        problem,
        instead,
    };
    let title = format!("{} {}", wardroom_console::detail::words(&offer.action), subject.member.name);
    let summary = visit.summary().await;
    visit.page_with(summary.as_ref(), status, subject.face.segment, &title, &dialog::page(&dialog))
}

/// The fields that a person fills in: those that the action needs, other texts that its request takes, a comment.
pub(super) fn fields(visit: &Visit, action: &Action, given: &BTreeMap<String, String>) -> Vec<Field> {
    let Some(taken) = visit.console.fields.of_action(action) else { return Vec::new() };
    let fixed = |name: &str| action.body.as_ref().is_some_and(|body| body.get(name).is_some());
    // A move names its state, and a change of a resource only the fields that its action is about.
    let is_verb = action.method == "POST";
    let is_needed = |name: &str| action.needs.iter().any(|needed| needed == name);
    let is_asked = |name: &str| !fixed(name) && (is_needed(name) || name == "comment" || is_verb);
    let mut fields: Vec<_> = taken
        .into_iter()
        .filter(|(name, _)| is_asked(name))
        .filter_map(|(name, field)| {
            Some(Field {
                name: name.to_owned(),
                hint: field.hint.clone(),
                input: field.input.clone()?,
                value: given.get(name).cloned().unwrap_or_default(),
                is_needed: is_needed(name),
            })
        })
        .collect();
    // The comment is the last.
    fields.sort_by_key(|field| (field.name == "comment", !field.is_needed));
    fields
}

/// The most names that a field suggests.
const NAMES: usize = 200;

/// The fields with the names that the server knows for them: those of sites for a site.
async fn with_names(visit: &Visit, mut fields: Vec<Field>) -> Vec<Field> {
    for field in &mut fields {
        let face = visit.console.faces().find(|face| face.named_by.contains(&&*field.name));
        if let (Input::Text(known), Some(face)) = (&mut field.input, face) {
            *known = names(visit, face).await;
        }
    }
    fields
}

/// The names of the first of a kind; nothing where the caller may not read them.
async fn names(visit: &Visit, face: &Face) -> Vec<String> {
    let asked = Ask { limit: NAMES, ..Ask::default() };
    let query = (face.ask)(&asked);
    let query: Vec<_> = query.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let page = visit.api().get(face.path, &query).await.map(|page| (face.read)(page, &asked));
    page.map(|page| page.items.iter().map(|item| (face.member)(item).key).collect()).unwrap_or_default()
}

/// Says that an action is not offered any more, keeps what was typed, and shows what is.
async fn gone(
    visit: &Visit,
    subject: &Subject,
    key: &str,
    given: &BTreeMap<String, String>,
) -> Result<Response, Error> {
    let open: Vec<_> = subject.offers.iter().filter(|offer| offer.is_open()).cloned().collect();
    let comment = given.get("comment").map_or("", String::as_str);
    let verb = key.split('~').nth(1).unwrap_or_default();
    let content = dialog::gone(
        verb,
        &subject.member,
        subject.face.kind,
        &page_of(subject.face, &subject.member.key, &[]),
        comment,
        &open,
    );
    let summary = visit.summary().await;
    visit.page_with(
        summary.as_ref(),
        StatusCode::CONFLICT,
        subject.face.segment,
        &subject.member.name,
        &content,
    )
}

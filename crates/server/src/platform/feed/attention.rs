//! What needs a person, over all kinds.
//!
//! Members in a calm state are not looked at, so that the question costs what is wrong and not what is there.

use axum::{Extension, Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;
use wardroom_api::{
    Envelope,
    attention::{Attention, Need as Shown},
};
use wardroom_core::{
    attention::{Member, Need, Urgency, merged, need},
    liveness::{Phase, Zone},
    tone::{self, Tone},
};
use wardroom_store::{List, Resource, StateCount};

use crate::platform::{
    app::App,
    feed::events,
    http::{error::Error, list::ListQuery, problems::Problems},
    identity::auth::Caller,
    kind::{Derive, Derived, Explain, Kind, Stored},
    liveness::incident,
};

/// Members of one state that are looked at, the oldest first.
const MOST: usize = 200;

/// Which kind is asked about.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// Only members of this kind; of every kind unless told.
    kind: Option<String>,
}

/// Lists what needs a person: one line for each cause, the longest overdue first. Members that fell silent together are
/// one line, their incident.
#[utoipa::path(
    get, path = "/api/v1/attention", params(Wanted),
    responses((status = 200, body = Envelope<Attention>), Problems)
)]
pub(crate) async fn attention(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    ListQuery(Wanted { kind }): ListQuery<Wanted>,
) -> Result<Json<Envelope<Attention>>, Error> {
    let members = || app.kinds.iter().filter_map(|row| member(row));
    let derived = || app.kinds.iter().flat_map(|row| derived_of(row));
    if let Some(kind) = &kind {
        let known: Vec<_> =
            members().map(|(stored, _)| stored).chain(derived().map(|(stored, ..)| stored)).collect();
        if !known.iter().any(|stored| stored.kind == kind) {
            let known: Vec<_> = known.iter().map(|stored| stored.kind).collect();
            return Err(Error::invalid("kind", format!("must be one of: {}", known.join(", "))));
        }
        if !events::may_see(&caller, kind) {
            return Err(Error::Forbidden(format!("the token does not cover {kind}")));
        }
    }
    let wanted = |stored: &Stored| kind.as_ref().is_none_or(|kind| stored.kind == kind);
    let counts = app.store.count_by_state().await?;
    let (mut needs, mut left_out) = (Vec::new(), 0);
    for (stored, explain) in members().filter(|(stored, _)| wanted(stored)) {
        if !events::may_see(&caller, stored.kind) {
            continue;
        }
        for StateCount { state, count, .. } in counts.iter().filter(|count| count.kind == stored.kind) {
            let tone = tone::of(stored.kind, state);
            if is_calm(tone) {
                continue;
            }
            let list = List {
                kind: stored.kind.to_owned(),
                state: Some(state.clone()),
                limit: MOST,
                ..List::default()
            };
            let found = app.store.list(&list).await?.items;
            let mut here = Vec::new();
            for resource in &found {
                here.extend(of(&app, stored, explain, resource, tone).await?);
            }
            let rest = usize::try_from(*count).unwrap_or_default().saturating_sub(found.len());
            // All of the state wait for the same decision.
            if is_decision(&here) {
                here.iter_mut().take(1).for_each(|first| first.count += rest);
            } else {
                left_out += rest;
            }
            needs.extend(here);
        }
    }
    for (stored, explain, derive) in derived().filter(|(stored, ..)| wanted(stored)) {
        if events::may_see(&caller, stored.kind) {
            needs.extend(of_derived(&app, stored, explain, derive).await?);
        }
    }
    let mut incidents = Vec::new();
    if events::may_see(&caller, incident::KIND) {
        for (zone, need) in open(&app).await? {
            incidents.push(zone);
            needs.extend(kind.is_none().then_some(need));
        }
    }
    let needs = merged(needs, &incidents).into_iter().map(shown).collect();
    Ok(Json(Envelope::new(Attention { needs, left_out })))
}

/// The members of a kind, and what explains them.
fn member(row: &'static Kind) -> Option<(&'static Stored, Explain)> {
    let stored = row.stores.iter().find(|stored| stored.kind == row.name)?;
    Some((stored, stored.why?))
}

/// What is derived by kinds instead of stored, and what explains it.
fn derived_of(row: &'static Kind) -> impl Iterator<Item = (&'static Stored, Explain, Derive)> {
    row.stores.iter().filter_map(|stored| Some((stored, stored.why?, stored.derived?)))
}

/// What the members of a derived kind need.
async fn of_derived(
    app: &App,
    stored: &Stored,
    explain: Explain,
    derive: Derive,
) -> Result<Vec<Need>, Error> {
    let mut needs = Vec::new();
    for Derived { name, state, since } in derive(app).await? {
        let tone = tone::of(stored.kind, &state);
        if is_calm(tone) {
            continue;
        }
        let explained = explain(app, &name).await?;
        let (kind, id, zone, since) =
            (stored.kind.to_owned(), name.clone(), None, since.unwrap_or(app.now()));
        needs.extend(need(Member { kind, id, name, state, tone, since, zone }, &explained, app.now()));
    }
    Ok(needs)
}

/// Whether no member in a state of this tone needs a person.
const fn is_calm(tone: Tone) -> bool {
    matches!(tone, Tone::Good | Tone::Over | Tone::Unknown)
}

/// Whether all wait for one and the same decision, which is that of their state.
fn is_decision(needs: &[Need]) -> bool {
    let why = needs.first().map(|need| &need.why);
    why.is_some() && needs.iter().all(|need| need.urgency == Urgency::Person && Some(&need.why) == why)
}

/// What a member needs; nothing of one that was deleted meanwhile.
async fn of(
    app: &App,
    stored: &Stored,
    explain: Explain,
    resource: &Resource,
    tone: Tone,
) -> Result<Option<Need>, Error> {
    let explained = match explain(app, &resource.content.id).await {
        Err(Error::NotFound { .. }) => return Ok(None),
        explained => explained?,
    };
    let member = Member {
        kind: stored.kind.to_owned(),
        id: resource.content.id.clone(),
        name: stored.title(app, resource).await?,
        state: resource.content.state.clone(),
        tone,
        since: resource.state_changed_at,
        zone: app.liveness.zone_named(resource).map(str::to_owned),
    };
    Ok(need(member, &explained, app.now()))
}

/// The open incidents with their zones.
async fn open(app: &App) -> Result<Vec<(Zone, Need)>, Error> {
    let mut found = Vec::new();
    for phase in [Phase::Holding, Phase::Releasing] {
        let state = Some(phase.as_str().to_owned());
        let list = List { kind: incident::KIND.to_owned(), state, limit: MOST, ..List::default() };
        for open in app.store.list(&list).await?.items {
            let incident::Document { zone, why, silent, .. } = open.content.document.read()?;
            let member = Member {
                kind: incident::KIND.to_owned(),
                id: open.content.id.clone(),
                name: open.content.name.clone(),
                state: open.content.state.clone(),
                tone: Tone::Warn,
                since: open.created_at,
                zone: zone.clone(),
            };
            // It stands for its members: it is not covered by itself.
            let count = usize::try_from(silent).unwrap_or(usize::MAX);
            let need = Need { member, urgency: Urgency::Stuck, overdue_since: None, why, next: None, count };
            found.push((zone, need));
        }
    }
    Ok(found)
}

fn shown(need: Need) -> Shown {
    let Need { member, urgency, overdue_since, why, next, count } = need;
    let Member { kind, id, name, state, since, .. } = member;
    let (urgency, next) = (urgency.to_string(), next.map(Into::into));
    Shown { kind, id, name, state, urgency, since, overdue_since, why, next, count }
}

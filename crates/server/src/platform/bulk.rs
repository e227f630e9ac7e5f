//! One verb on many members: `POST /api/v1/bulk`.
//!
//! Each member's request runs through the API itself, as its caller, under a condition of the store: a dry run stops before
//! the first write, and a run commits only while the member is at the version that the dry run saw. So every refusal is the one
//! that the single request gets ([decision 025](../../../../docs/decisions/025-a-dry-run-is-the-request-without-its-write.md)).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use axum::{
    Extension, Json, Router,
    extract::State,
    response::{IntoResponse as _, Response},
};
use futures_util::{StreamExt as _, stream};
use utoipa_axum::{router::OpenApiRouter, routes};
use wardroom_api::{
    Envelope,
    bulk::{BulkMember, BulkReport, BulkRequest, BulkResultWord as Word, BulkShare},
};
use wardroom_store::Resource;

use crate::platform::{
    app::App,
    console::inside::Api,
    http::{
        body::Body,
        error::Error,
        idempotency::{self, ShownOnce},
        problems::Problems,
    },
    identity::auth::Caller,
};

mod one;
mod select;
mod verb;

use verb::Verb;

/// The most members of one request.
pub(crate) const MOST: usize = 1000;

/// How many run at once; more would only wait in the store's queue.
const AT_ONCE: usize = 32;

/// The API, for the requests of single members.
#[derive(Clone)]
pub(crate) struct Single(pub(crate) Router);

/// The route; its router needs [`Single`] as an extension.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(bulk))
}

/// Does one verb on many members, or says what it would do; each succeeds or fails separately.
#[utoipa::path(
    post, path = "/api/v1/bulk", operation_id = "bulk", request_body = BulkRequest,
    responses((status = 200, body = Envelope<BulkReport>), Problems)
)]
pub(crate) async fn bulk(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(Single(router)): Extension<Single>,
    Body(request): Body<BulkRequest>,
) -> Result<Response, Error> {
    let verb = Verb::of(&app, &caller, &request)?;
    let api = Api { app: &app, router: &router, caller: &caller };
    let members = members(&api, &verb, &request).await?;
    let ids: Vec<_> = members.iter().map(|member| member.id.clone()).collect();
    let found = app.store.get_all(verb.kind, &ids).await?;
    let found: HashMap<&str, &Resource> =
        found.iter().filter(|one| !one.content.deleted).map(|one| (&*one.content.id, one)).collect();
    let one = |member: BulkMember| {
        let found = found.get(&*member.id).copied();
        one::one(&api, &verb, &request, member, found)
    };
    let all = stream::iter(members).map(one).buffered(AT_ONCE).collect();
    let done: Vec<one::Done> = idempotency::in_parts(all).await;
    let has_secret = done.iter().any(|one| one.has_secret);
    let mut report = BulkReport {
        kind: verb.kind.to_owned(),
        dry_run: request.dry_run,
        changed: 0,
        unchanged: 0,
        refused: 0,
        overtaken: 0,
        fleet: BulkShare::default(),
        zones: BTreeMap::new(),
        items: done.into_iter().map(|one| one.outcome).collect(),
    };
    count(&app, verb.kind, &mut report).await?;
    let said = said(&report);
    let mut response = Json(Envelope::said(report, said)).into_response();
    if has_secret {
        response.extensions_mut().insert(ShownOnce);
    }
    Ok(response)
}

/// The members of a request: those that it names, or those that it selects.
async fn members(api: &Api<'_>, verb: &Verb, request: &BulkRequest) -> Result<Vec<BulkMember>, Error> {
    let named = &request.members;
    match &request.select {
        Some(_) if !request.dry_run => Err(Error::invalid(
            "select",
            "is for dry runs: name the members and versions that a dry run answered in `members`",
        )),
        Some(_) if !named.is_empty() => {
            Err(Error::invalid("select", "cannot be given together with `members`"))
        }
        Some(select) => select::members(api, verb.kind, select).await,
        None => {
            if named.is_empty() || named.len() > MOST {
                return Err(Error::invalid("members", format!("must name 1 to {MOST} members")));
            }
            if !request.dry_run && named.iter().any(|member| member.version.is_none()) {
                return Err(Error::invalid("members", "need the `version` that a dry run answered for each"));
            }
            let mut ids = BTreeSet::new();
            match named.iter().find(|member| !ids.insert(&*member.id)) {
                Some(_) => Err(Error::invalid("members", "name a member more than once")),
                None => Ok(named.clone()),
            }
        }
    }
}

/// Counts the results, and the shares of the fleet and of the zones.
async fn count(app: &App, kind: &str, report: &mut BulkReport) -> Result<(), Error> {
    let of = |word| report.items.iter().filter(|item| item.result == word).count();
    let (changed, unchanged) = (of(Word::Changed), of(Word::Unchanged));
    let (refused, overtaken) = (of(Word::Refused), of(Word::Overtaken));
    let mut zones: BTreeMap<&str, i64> = BTreeMap::new();
    for item in report.items.iter().filter(|item| item.result == Word::Changed) {
        if let Some(zone) = &item.zone {
            *zones.entry(zone).or_default() += 1;
        }
    }
    let states = app.store.count_by_state().await?;
    let all = states.iter().filter(|state| state.kind == kind).map(|state| state.count).sum();
    let label = &app.config.liveness.zone_label;
    let counted: BTreeMap<_, _> = app.store.count_by_zone(kind, label, "site").await?.into_iter().collect();
    let share = |(zone, members): (&str, i64)| {
        (zone.to_owned(), BulkShare::new(members, counted.get(zone).copied().unwrap_or(members)))
    };
    let zones = zones.into_iter().map(share).collect();
    let fleet = BulkShare::new(i64::try_from(changed).unwrap_or(i64::MAX), all);
    *report = BulkReport {
        changed,
        unchanged,
        refused,
        overtaken,
        fleet,
        zones,
        items: std::mem::take(&mut report.items),
        ..report.clone()
    };
    Ok(())
}

fn said(report: &BulkReport) -> String {
    let BulkReport { changed, unchanged, refused, overtaken, .. } = report;
    if report.dry_run {
        return format!(
            "Nothing was done: {changed} would be changed, {unchanged} stay as they are, {refused} would be refused."
        );
    }
    format!(
        "{changed} changed, {unchanged} unchanged, {refused} refused, {overtaken} left alone because they changed meanwhile."
    )
}

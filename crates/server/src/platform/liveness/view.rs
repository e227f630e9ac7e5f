//! Views for people: the guard's state, incidents, and why a member is held.

use std::{borrow::Cow, collections::BTreeMap, sync::atomic::Ordering::Relaxed};

use axum::{Extension, Json, extract::State};
use jiff::Timestamp;
use wardroom_api::{
    Envelope, Page,
    liveness::{self as api, Deaf, Flush, Sweeper},
};
use wardroom_core::{
    liveness::{Guard, Phase, Silence, Standing, Zone},
    why::{Blocker, length},
};
use wardroom_store::Resource;

use super::{Liveness, incident};
use crate::platform::{
    app::App,
    feed::events,
    http::{
        error::Error,
        list::{self, ListQuery, Pages},
        path::Path,
        problems::Problems,
    },
    identity::auth::Caller,
};

/// Periods that are shown.
const PERIODS: usize = 10;

/// Whether this server listens, which server judges, and which marks are held back.
#[utoipa::path(get, path = "/api/v1/liveness", responses((status = 200, body = Envelope<api::Liveness>), Problems))]
pub(crate) async fn liveness(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Json<Envelope<api::Liveness>> {
    let mut view = app.liveness.view();
    view.members.retain(|kind, _| events::may_see(&caller, kind));
    Json(Envelope::new(view))
}

/// Lists incidents, the oldest first.
#[utoipa::path(get, path = "/api/v1/incidents", params(Pages), responses((status = 200, body = Page<api::Incident>), Problems))]
pub(crate) async fn incidents(
    State(app): State<App>,
    ListQuery(pages): ListQuery<Pages>,
) -> Result<Json<Page<api::Incident>>, Error> {
    let page = list::page(&app, pages.of(incident::KIND)?).await?;
    let data = page.items.iter().map(shown).collect::<Result<_, _>>()?;
    Ok(Json(Page { success: true, data, next: page.next }))
}

/// Reads one incident.
#[utoipa::path(get, path = "/api/v1/incidents/{id}", params(("id" = String, Path)), responses((status = 200, body = Envelope<api::Incident>), Problems))]
pub(crate) async fn get_incident(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<Envelope<api::Incident>>, Error> {
    let found = app.store.get(incident::KIND, &id).await?;
    let found = found.ok_or_else(|| Error::not_found(incident::KIND, &id))?;
    Ok(Json(Envelope::new(shown(&found)?)))
}

fn shown(found: &Resource) -> Result<api::Incident, Error> {
    let incident::Document { zone, why, silent, watched, held_until, ended_at } =
        found.content.document.read()?;
    let (id, state, raised_at) = (found.content.id.clone(), found.content.state.clone(), found.created_at);
    Ok(api::Incident { id, zone, state, why, silent, watched, raised_at, held_until, ended_at })
}

/// Reads from the table when these members were last heard, unless memory knows: another replica may have heard them.
pub(crate) async fn refresh(app: &App, kind: &'static str, members: &[Resource]) -> Result<(), Error> {
    let ids: Vec<_> = members.iter().map(|member| member.content.id.clone()).collect();
    refresh_ids(app, kind, &ids).await
}

/// The same of members with these ids.
pub(crate) async fn refresh_ids(app: &App, kind: &'static str, ids: &[String]) -> Result<(), Error> {
    let live = &app.liveness;
    let Some(number) = live.kind(kind).filter(|_| !live.knows_all.load(Relaxed) && !ids.is_empty()) else {
        return Ok(());
    };
    for seen in app.store.seen_of(kind, ids).await? {
        live.learn(number, &seen);
    }
    Ok(())
}

/// The same of all members of a kind.
pub(crate) async fn refresh_kind(app: &App, kind: &'static str) -> Result<(), Error> {
    let live = &app.liveness;
    let Some(number) = live.kind(kind).filter(|_| !live.knows_all.load(Relaxed)) else { return Ok(()) };
    for seen in app.store.seen(kind).await? {
        live.learn(number, &seen);
    }
    Ok(())
}

/// Returns why a watched member is not judged yet, or the rule that judges it, with the incident that holds
/// it.
pub(crate) async fn blockers(app: &App, kind: &'static str, id: &str) -> Result<Vec<Blocker>, Error> {
    refresh_ids(app, kind, &[id.to_owned()]).await?;
    let Some(silence) = app.liveness.standing(kind, id) else { return Ok(Vec::new()) };
    let incident = match silence.standing {
        Standing::Heard if !silence.spared => return Ok(Vec::new()),
        Standing::Late => None,
        // A member within the grace may be in an incident from before the outage.
        Standing::Heard | Standing::Suspected | Standing::Due => held_by(app, kind, id).await?,
    };
    let what = sentence(&silence, incident.as_deref());
    Ok(vec![Blocker { what: what.into(), fix: None }])
}

/// Returns when a watched member was heard, if it is heard as it should be.
pub(crate) fn heard(app: &App, kind: &str, id: &str) -> Option<Cow<'static, str>> {
    let silence = app.liveness.standing(kind, id)?;
    let ago = app.now().duration_since(silence.heard);
    let is_heard = silence.standing == Standing::Heard && !silence.spared;
    is_heard.then(|| format!("it was heard {} ago", length(ago)).into())
}

fn sentence(silence: &Silence, incident: Option<&str>) -> String {
    match incident {
        Some(incident) if silence.spared => format!("{silence} Incident {incident} is open from before."),
        Some(incident) => format!("{silence} It is held by incident {incident}."),
        None => silence.to_string(),
    }
}

/// The open incident over a member; another server may have raised it.
async fn held_by(app: &App, kind: &str, id: &str) -> Result<Option<String>, Error> {
    if let Some(known) = app.liveness.incident_of(kind, id) {
        return Ok(Some(known));
    }
    let zone = app.liveness.zone_of(kind, id);
    let zones: Vec<Zone> = if zone.is_some() { vec![zone, None] } else { vec![None] };
    for zone in zones {
        if let Some(open) = incident::open(app, &zone).await? {
            return Ok(Some(open.content.id));
        }
    }
    Ok(None)
}

impl Liveness {
    /// Returns the state of the guard for people, in wall time.
    #[must_use]
    pub fn view(&self) -> api::Liveness {
        let judge = self.judge_state();
        let guard = |zone: Zone, guard: &Guard| api::Guard {
            phase: guard.phase().to_string(),
            since: (guard.phase() != Phase::Watching).then(|| self.clock.wall_of(guard.since())),
            incident: judge.incidents.get(&zone).cloned(),
            watched: guard.facts().watched,
            silent: guard.facts().silent,
            due: guard.facts().due,
        };
        let zones =
            judge.fleet.zones().iter().map(|(label, of)| (label.clone(), guard(Some(label.clone()), of)));
        let (zones, mut fleet) = (zones.collect(), guard(None, judge.fleet.whole()));
        let listening = self.listening(&judge);
        drop(judge);
        let (members, status) = (self.members(), self.status());
        // The guard does not count while no member is late.
        fleet.watched = members.values().sum::<u64>().try_into().unwrap_or(u32::MAX);
        (fleet.silent, fleet.due) = (status.silent, status.due);
        let wall = |at: Timestamp| self.clock.wall_of(at);
        api::Liveness {
            listening,
            sweeper: Sweeper {
                this_server: status.sweeping.is_some(),
                since: status.sweeping.map(wall),
                last_sweep: status.swept.map(|(at, _)| wall(at)),
                last_sweep_micros: status
                    .swept
                    .map(|(_, took)| u64::try_from(took.as_micros()).unwrap_or(u64::MAX)),
            },
            members,
            silent: status.silent,
            due: status.due,
            suspected: status.held,
            fleet,
            zones,
            flush: Flush {
                at: status.flushed.at,
                rows: status.flushed.rows,
                millis: u64::try_from(status.flushed.took.as_millis()).unwrap_or(u64::MAX),
                failed: status.flush_failed,
            },
        }
    }

    fn listening(&self, judge: &super::judge::Judge) -> api::Listening {
        let shown = |period: &wardroom_core::liveness::Period| Deaf {
            cause: period.cause.to_string(),
            from: (period.from > Timestamp::MIN).then(|| self.clock.wall_of(period.from)),
            to: self.clock.wall_of(period.to),
        };
        let mut periods: Vec<_> =
            judge.listening.periods().iter().chain(judge.listening.elsewhere()).collect();
        periods.sort_unstable_by_key(|period| std::cmp::Reverse(period.to));
        api::Listening {
            since: self.clock.wall_of(judge.since),
            deaf: judge.listening.deaf_now().map(|cause| cause.to_string()),
            periods: periods.into_iter().take(PERIODS).map(shown).collect(),
        }
    }

    /// Counts watched members, by kind.
    pub(crate) fn members(&self) -> BTreeMap<String, u64> {
        let mut counts = vec![0_u64; self.kinds.len()];
        self.slab.watched(|kind, _, _| {
            if let Some(count) = counts.get_mut(usize::from(kind)) {
                *count += 1;
            }
        });
        self.kinds.iter().map(|row| row.kind.to_owned()).zip(counts).collect()
    }

    fn zone_of(&self, kind: &str, id: &str) -> Zone {
        let record = self.find(kind, id).and_then(|seat| self.slab.record(seat));
        record.and_then(|record| self.zones.name(record.zone))
    }
}

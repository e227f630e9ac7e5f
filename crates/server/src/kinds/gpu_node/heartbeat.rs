//! Heartbeats of agents: they keep a node active, bring it back, and renew the leases of its tasks.
//!
//! A heartbeat of an active node that repeats the previous one, while no run works on the node, is answered
//! from memory: a look-up, an atomic store and a reply.

use std::time::Duration;

use axum::{
    Extension, Json,
    extract::State as Shared,
    response::{IntoResponse as _, Response},
};
use wardroom_api::gpu_node::agent::{Beat, Check, Heartbeat, Holding};
use wardroom_core::{
    gpu_node::{Event, State, mapping, task::State as TaskState},
    liveness::Interval,
};
use wardroom_store::{Change, Error as StoreError, Held, Resource, Seen, TRANSITION};

use super::{
    begin,
    document::{self, Document, KIND},
    enroll::{by_agent, spoken},
    identity::{Agents, KnownAgent},
    proof::{self, Health, Reports},
    task,
};
use crate::kinds::gpu_node::identity;
use crate::kinds::gpu_node::settings::Settings;
use crate::platform::{
    app::App,
    clock::Moment,
    http::{
        body::{Facts, Ignored, Report},
        error::Error,
        path::Path,
        problems::Problems,
        text,
    },
    identity::auth::Caller,
    liveness::NewSeat,
};

/// Checks of one heartbeat at most.
const MOST_CHECKS: usize = 64;

/// The heartbeat of an agent: the results of its checks, and the tasks it is executing.
#[utoipa::path(
    post, path = "/api/v1/gpu-nodes/{id}/heartbeat", request_body = Option<Heartbeat>, params(("id" = String, Path)),
    responses((status = 200, body = Beat), Problems)
)]
pub(crate) async fn heartbeat(
    Shared(app): Shared<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    report: Facts<Heartbeat>,
) -> Result<Response, Error> {
    let caller = identity::speaks_for(&caller, &id)?;
    app.liveness.takes_beats()?;
    let Facts { value: mut heartbeat, mut ignored } = report;
    let said = check(&mut heartbeat, &mut ignored);
    let began = app.moment();
    let agent = Agents::of(&app).standing(&app, caller).await?;
    if !ignored.misses("checks")
        && let Some(beat) = repeated(&app, &id, &agent, &heartbeat, said)?
    {
        return Ok(answered(beat, &ignored));
    }
    let node = super::find(&app, &id).await?;
    // Before a commit that may make it active, so that no replica finds it active with an old beat.
    let is_first = document::state(&node)? != State::Active && app.liveness.hear(KIND, &id, said);
    let node = match ignored.misses("checks") {
        // Unreadable checks prove nothing, so the last report stays, with its time.
        true if has_spoken(&app, &node).await? => node,
        // Without an earlier report the node is not healthy.
        unread => {
            heartbeat.checks.extend(unread.then(unreadable));
            hear(&app, node, &heartbeat, said).await?
        }
    };
    let beat = if document::state(&node)? == State::Active {
        let seat = app.liveness.find(KIND, &id);
        let seat = seat.unwrap_or_else(|| super::seat(&app, &node, NewSeat::default()));
        let beat = app.liveness.beat(seat, said);
        app.liveness.takes_beats()?;
        (beat.next, beat.server_time)
    } else {
        if is_first {
            // The first beat is stored at once, so that a crash before the next flush does not lose it.
            let every = said.map_or(0, Interval::seconds);
            let seen = Seen { id: id.as_str().into(), age: Duration::ZERO, every };
            app.store.note_seen(KIND, vec![seen]).await?;
        }
        (app.config.liveness.interval, app.now())
    };
    let lost = renew(&app, &id, &heartbeat.tasks).await?;
    let open = task::open(&app, &id).await?;
    // Claimed tasks that the agent does not name are offered too: an agent that was restarted during a task
    // gets it back.
    let held = |task: &Resource| heartbeat.tasks.iter().any(|holding| holding.task == task.content.id);
    let has_tasks = open.iter().any(|task| !held(task));
    if open.is_empty() && heartbeat.tasks.is_empty() && !ignored.misses("checks") {
        note_quiet(&app, &agent, &node, &heartbeat, said, began).await?;
    }
    let state = node.content.state.clone();
    let beat = Beat { state, next: spoken(beat.0), server_time: beat.1, has_tasks, lost };
    Ok(answered(beat, &ignored))
}

fn answered(beat: Beat, ignored: &Ignored) -> Response {
    let mut response = Json(beat).into_response();
    ignored.warn(&mut response);
    response
}

/// Answers a heartbeat that changes nothing from memory; none for any other.
fn repeated(
    app: &App,
    id: &str,
    agent: &KnownAgent,
    heartbeat: &Heartbeat,
    said: Option<Interval>,
) -> Result<Option<Beat>, Error> {
    if !agent.is_active || !heartbeat.tasks.is_empty() {
        return Ok(None);
    }
    let health = Health { checks: heartbeat.checks.clone(), epoch: agent.epoch, interval: said };
    if agent.unhealthy == health.is_healthy() || !agent.repeats(app, health.digest()?) {
        return Ok(None);
    }
    // An unwatched node is about to be marked, or was.
    let Some(seat) = app.liveness.find(KIND, id) else { return Ok(None) };
    let beat = app.liveness.beat(seat, said);
    app.liveness.takes_beats()?;
    let (state, next) = (State::Active.to_string(), spoken(beat.next));
    Ok(Some(Beat { state, next, server_time: beat.server_time, has_tasks: false, lost: Vec::new() }))
}

/// Allows the next heartbeat to be answered from memory, if this one changed nothing and no run works on the
/// node. A run begins with a change of the node, which ends this on every server.
async fn note_quiet(
    app: &App,
    agent: &KnownAgent,
    node: &Resource,
    heartbeat: &Heartbeat,
    said: Option<Interval>,
    began: Moment,
) -> Result<(), Error> {
    let health = Health { checks: heartbeat.checks.clone(), epoch: agent.epoch, interval: said };
    let is_settled = agent.is_active && agent.is_of(node) && agent.unhealthy != health.is_healthy();
    if is_settled && begin::open_run(app, node).await?.is_none() {
        agent.set_quiet(health.digest()?, began);
    }
    Ok(())
}

/// A heartbeat must count regardless of the output of commands and drivers.
impl Report for Heartbeat {
    const NEEDED: &'static [&'static str] = &[];
}

/// Whether the current agent has reported checks before.
async fn has_spoken(app: &App, node: &Resource) -> Result<bool, Error> {
    let epoch = Document::of(node)?.agent.map_or(0, |agent| agent.epoch);
    let known = proof::latest(app, &node.content.id).await?.health;
    Ok(known.is_some_and(|(health, _)| health.epoch == epoch))
}

fn unreadable() -> Check {
    let message = Some("the results of the checks are not valid".to_owned());
    Check { name: "checks".to_owned(), ok: false, message }
}

/// Bounds the kept fields. Outputs of commands are cut, not refused; of too many checks the failed ones are
/// kept first.
fn check(heartbeat: &mut Heartbeat, ignored: &mut Ignored) -> Option<Interval> {
    if heartbeat.checks.len() > MOST_CHECKS {
        heartbeat.checks.sort_by_key(|check| check.ok);
        heartbeat.checks.truncate(MOST_CHECKS);
    }
    for check in &mut heartbeat.checks {
        text::scrub(&mut check.name, 100);
        check.message.iter_mut().for_each(|message| text::scrub(message, 1000));
    }
    heartbeat.tasks.truncate(MOST_CHECKS);
    let interval = heartbeat.interval.as_deref().map(|text| Interval::parse("interval", text));
    interval.and_then(|interval| interval.inspect_err(|_| ignored.add("interval")).ok())
}

/// Stores the report, and moves the node if it becomes active again.
async fn hear(
    app: &App,
    node: Resource,
    heartbeat: &Heartbeat,
    interval: Option<Interval>,
) -> Result<Resource, Error> {
    let (id, state, document) = (node.content.id.clone(), document::state(&node)?, Document::of(&node)?);
    let epoch = document.agent.as_ref().map_or(0, |agent| agent.epoch);
    let health = Health { checks: heartbeat.checks.clone(), epoch, interval };
    let known = proof::latest(app, &id).await?.health;
    let same = known.as_ref().is_some_and(|(known, _)| *known == health);
    let healthy = health.is_healthy();
    let event = (state == State::Offline && healthy).then_some(Event::Heartbeat);
    let flips = document.unhealthy == healthy;
    match (state, same) {
        // A repeated report of a watched node is only a beat in memory.
        (State::Active, true) => {}
        // Health did not change, so the report can be written later.
        (State::Active, false) if !flips => Reports::of(app).0.keep(&id, health.clone(), app.now()),
        _ => proof::keep(app, &id, &health, app.now()).await?,
    }
    if event.is_none() && !flips {
        return Ok(node);
    }
    report(app, node, document, &health, event).await
}

/// Commits the changes of a heartbeat. If another writer was faster, the next heartbeat repeats them.
async fn report(
    app: &App,
    node: Resource,
    mut document: Document,
    health: &Health,
    event: Option<Event>,
) -> Result<Resource, Error> {
    let state = document::state(&node)?;
    let mut to = event.and_then(|event| super::moved(state, event)).unwrap_or(state);
    let run = begin::newest_run(app, &node).await?;
    let current = run.as_ref().map(|run| (run.record.plan.kind, run.state));
    // A node goes to quarantine by way of `offline`, in two commits; until the second, health must not bring
    // it back. The run is a precondition, so that nothing happens in between.
    let is_set_aside = run.as_ref().is_some_and(|run| run.record.hold.quarantine_pending);
    if is_set_aside || mapping::check(to, current).is_err() {
        to = state;
    }
    document.unhealthy = !health.is_healthy();
    if to == state && document == Document::of(&node)? {
        return Ok(node);
    }
    let metadata = serde_json::json!({"healthy": health.is_healthy(), "complaints": health.complaints(), "event": event});
    let entry = by_agent(app, if to == state { "status" } else { TRANSITION }, metadata);
    let after = document.into_content_of(&node, to)?;
    let holds = run.iter().map(|run| Held::at(&run.resource)).collect();
    let change = Change { before: Some(node.clone()), after, entry, effects: Vec::new(), fence: None, holds };
    match app.store.commit(change).await {
        Ok(committed) => {
            super::watch(app, &committed.resource)?;
            Ok(committed.resource)
        }
        Err(StoreError::Conflict) => Ok(node),
        Err(error) => Err(error.into()),
    }
}

/// Renews the leases of the agent's tasks; returns those that it no longer has.
async fn renew(app: &App, node: &str, tasks: &[Holding]) -> Result<Vec<String>, Error> {
    let mut lost = Vec::new();
    for holding in tasks {
        let found = app.store.get(task::KIND, &holding.task).await?;
        let document: Option<task::Document> =
            found.as_ref().map(|found| found.content.document.read()).transpose()?;
        let mut is_ours = document
            .is_some_and(|document| document.node == node && document.epoch == holding.epoch)
            && found.as_ref().is_some_and(|found| found.content.state == TaskState::Dispatched.as_str());
        // A task that its run no longer wants must be stopped.
        if let Some(found) = found.filter(|_| is_ours) {
            is_ours = task::wanted(app, &found).await?.is_some();
        }
        let name = task::lease(&holding.task);
        let lease = if is_ours { app.store.lease(&name).await? } else { None };
        let renewed = match lease.filter(|lease| lease.epoch == holding.epoch) {
            Some(lease) => {
                app.store.acquire_lease(&name, &lease.holder, Settings::of(&app.config).task_lease).await?
            }
            None => None,
        };
        // An expired lease is taken in a new epoch, which is not the agent's.
        if renewed.is_none_or(|renewed| renewed.epoch != holding.epoch) {
            lost.push(holding.task.clone());
        }
    }
    Ok(lost)
}

//! What the agent on a GPU node says: it enrols, beats, takes tasks and answers them.

use std::collections::BTreeMap;

use axum::{
    Extension, Json,
    extract::{FromRequestParts, State},
    http::{StatusCode, request::Parts},
    response::{IntoResponse as _, Response},
};
use serde_json::json;
use wardroom_api::gpu_node::{AgentTask, Enrolled, NodeBeat, NodeHeartbeat, TaskResult};
use wardroom_core::{
    gpu_node::{Event, State as NodeState, moves},
    liveness::Interval,
    run::{
        plan::Stage,
        task::{self, State as TaskState},
    },
};
use wardroom_store::{Entry, Observation, Resource, TRANSITION};
use wardroom_workflow::{NODE, RUN};

use super::{
    document::{self, AGENT, Agent, Document, Health},
    owner::{self, Decision},
};
use crate::{
    agent_task,
    app::{App, by_system},
    auth::{Caller, Who},
    body::Reported,
    error::Error,
    liveness::NewSeat,
    path::Path,
    problems::Problems,
    secret, text,
};

const BAD_TOKEN: Error =
    Error::Unauthenticated("the enrolment token is not valid: it is unknown, was used, or has expired");
const BAD_CREDENTIAL: Error = Error::Unauthenticated("the credential is not that of this node's agent");

/// An agent shows its one-time token and gets a credential of its own.
#[utoipa::path(post, path = "/api/v1/gpu-nodes/enroll", responses((status = 200, body = Enrolled), Problems))]
pub(crate) async fn enroll(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Enrolled>, Error> {
    let Who::Machine(token) = &caller.who else { return Err(BAD_TOKEN) };
    let hash = secret::hash_token(token);
    let found = app.store.get_by_key(NODE, &document::token_key(&hash)).await?.ok_or(BAD_TOKEN)?;
    let (id, credential) = (found.content.id.clone(), secret::new_credential());
    let now = app.now();
    owner::change(&app, &id, |node, run| {
        let document = Document::of(node)?;
        let valid = document.token.as_ref().is_some_and(|token| token.hash == hash && now < token.expires_at);
        let expected = run.is_some_and(|run| {
            let plan = run.record.kind.plan();
            run.state.is_open() && plan.iter().any(|step| step.stage == Stage::WaitForAgentEnrollment)
        });
        if !valid || !expected {
            return Err(BAD_TOKEN);
        }
        let from = document::state(node)?;
        let event = (from == NodeState::BootstrapIssued).then_some(Event::EnrollmentStarted);
        let to = event.and_then(|event| moves::target(from, event)).unwrap_or(from);
        let agent = Some(Agent { hash: secret::hash_token(&credential), enrolled_at: now });
        let content = Document { agent, token: None, ..document }.into_content_of(node, to)?;
        let entry_type = if to == from { "credential" } else { TRANSITION };
        Ok(Decision::Commit(Box::new((content, by_agent(&app, entry_type, json!({"event": event}))))))
    })
    .await?;
    wake(&app, &id).await?;
    let interval = app.config.liveness.interval.to_string();
    Ok(Json(Enrolled { id, credential, interval }))
}

/// An agent is there, and says whether it is healthy.
#[utoipa::path(
    post, path = "/api/v1/gpu-nodes/{id}/heartbeat", request_body = NodeHeartbeat, params(("id" = String, Path)),
    responses((status = 200, body = NodeBeat), Problems)
)]
pub(crate) async fn heartbeat(
    State(app): State<App>,
    AgentOf(mut node): AgentOf,
    report: Reported<NodeHeartbeat>,
) -> Result<Response, Error> {
    let id = node.content.id.clone();
    let said = report.value.interval.as_deref().map(|text| Interval::parse("interval", text));
    let said = said.transpose().map_err(|invalid| Error::invalid("interval", invalid.to_string()))?;
    let problems = report.value.problems.into_iter().take(20).map(|text| text.chars().take(200).collect());
    let health = Health { healthy: report.value.healthy, problems: problems.collect() };
    if note(&app, &node, &health).await? {
        wake(&app, &id).await?;
    }
    if health.healthy && document::state(&node)? == NodeState::Offline {
        node = come_back(&app, &id).await?;
    }
    let state = document::state(&node)?;
    let (interval, server_time) = if state == NodeState::Active {
        let seat =
            app.liveness.find(NODE, &id).unwrap_or_else(|| app.liveness.seat(NODE, &id, NewSeat::default()));
        let beat = app.liveness.beat(seat, said);
        (beat.next, beat.server_time)
    } else {
        (app.config.liveness.interval, app.now())
    };
    let beat = NodeBeat { interval: interval.to_string(), server_time, state: state.to_string() };
    let mut response = Json(beat).into_response();
    report.ignored.warn(&mut response);
    Ok(response)
}

/// Keeps what the agent says of its health; whether that is news.
///
/// The same word again is news when it is the first since the agent enrolled, or since the node entered its state:
/// what brings a node forward, or back, is what its agent says from then on.
async fn note(app: &App, node: &Resource, health: &Health) -> Result<bool, Error> {
    let id = &node.content.id;
    let enrolled = Document::of(node)?.agent.map(|agent| agent.enrolled_at);
    let since = enrolled.map_or(node.state_changed_at, |enrolled| enrolled.max(node.state_changed_at));
    loop {
        let known = document::health(app, id).await?;
        if known.as_ref().is_some_and(|(known, seen)| known == health && seen.received_at >= since) {
            return Ok(false);
        }
        let now = app.now();
        let seen = Observation {
            kind: NODE.to_owned(),
            resource_id: id.clone(),
            source: AGENT.to_owned(),
            version: known.map_or(1, |(_, seen)| seen.version + 1),
            document: wardroom_store::Document::of(health)?,
            observed_at: now,
            received_at: now,
        };
        if app.store.observe(&seen).await? {
            return Ok(true);
        }
    }
}

async fn come_back(app: &App, id: &str) -> Result<Resource, Error> {
    owner::change(app, id, |node, _| {
        let from = document::state(node)?;
        let Some(to) = moves::target(from, Event::Heartbeat) else { return Ok(Decision::Nothing) };
        let content = Document::of(node)?.into_content_of(node, to)?;
        Ok(Decision::Commit(Box::new((
            content,
            by_agent(app, TRANSITION, json!({"event": Event::Heartbeat})),
        ))))
    })
    .await
}

/// Gives the agent its next task, or nothing. Claiming again keeps the task it has.
#[utoipa::path(
    post, path = "/api/v1/gpu-nodes/{id}/tasks/claim", params(("id" = String, Path)),
    responses((status = 200, body = AgentTask), (status = 204, description = "There is nothing to do"), Problems)
)]
pub(crate) async fn claim(State(app): State<App>, AgentOf(node): AgentOf) -> Result<Response, Error> {
    let id = node.content.id.clone();
    let agent = Document::of(&node)?.agent.ok_or(BAD_CREDENTIAL)?;
    let holder = format!("agent {id} {}", agent.enrolled_at);
    let Some((found, lease)) = agent_task::claim(&app, &id, &holder).await? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let task = AgentTask {
        id: found.resource.content.id,
        kind: found.task.kind.to_string(),
        epoch: lease.epoch,
        lease_seconds: agent_task::LEASE.as_secs(),
    };
    Ok(Json(task).into_response())
}

/// An agent says what came of a task.
#[utoipa::path(
    post, path = "/api/v1/gpu-nodes/{id}/tasks/{task}/result", request_body = TaskResult,
    params(("id" = String, Path), ("task" = String, Path)),
    responses((status = 204, description = "It is kept"), Problems)
)]
pub(crate) async fn result(
    State(app): State<App>,
    AgentOf(node): AgentOf,
    Path((_, task)): Path<(String, String)>,
    report: Reported<TaskResult>,
) -> Result<Response, Error> {
    let id = node.content.id;
    let outcome: TaskState = report.value.outcome.parse().map_err(|_| wrong_outcome())?;
    if outcome.is_open() || outcome == TaskState::Withdrawn {
        return Err(wrong_outcome());
    }
    text::check_prose("output", report.value.output.as_deref(), 16_000)?;
    let found = agent_task::find(&app, &task).await?.filter(|found| found.task.node == id);
    let found = found.ok_or_else(|| Error::not_found("agent task", &task))?;
    let uninstalled = found.task.kind == task::Kind::Uninstall && outcome == TaskState::Succeeded;
    agent_task::answer(&app, found, report.value.epoch, outcome, report.value.output).await?;
    if uninstalled {
        app.liveness.unseat(NODE, &id);
    }
    wake(&app, &id).await?;
    let mut response = StatusCode::NO_CONTENT.into_response();
    report.ignored.warn(&mut response);
    Ok(response)
}

fn wrong_outcome() -> Error {
    Error::invalid("outcome", "must be succeeded, failed or refused")
}

/// The node whose agent is calling; checked before anything else of the request is read.
pub(crate) struct AgentOf(Resource);

impl FromRequestParts<App> for AgentOf {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        let Path(named) = Path::<BTreeMap<String, String>>::from_request_parts(parts, app).await?;
        let id = named.get("id").ok_or(Error::Internal)?;
        let caller = parts.extensions.get::<Caller>().ok_or(Error::Internal)?;
        let Who::Machine(credential) = &caller.who else { return Err(BAD_CREDENTIAL) };
        let given = secret::hash_token(credential);
        // Whether there is such a node is nobody's business but its agent's.
        let found = app.store.get(NODE, id).await?.filter(|found| !found.content.deleted);
        let node = found.ok_or(BAD_CREDENTIAL)?;
        let agent = Document::of(&node)?.agent.ok_or(BAD_CREDENTIAL)?;
        if secret::same(given.as_bytes(), agent.hash.as_bytes()) {
            Ok(Self(node))
        } else {
            Err(BAD_CREDENTIAL)
        }
    }
}

/// Has somebody look at the node's run now.
async fn wake(app: &App, id: &str) -> Result<(), Error> {
    let Some(run) = app.store.get_by_key(RUN, &format!("node/{id}")).await? else { return Ok(()) };
    if run.content.due_at.is_some() {
        // Whoever changed it meanwhile has made it due.
        app.store.put_off(RUN, &run.content.id, run.version, app.now()).await?;
    }
    Ok(())
}

pub(crate) fn by_agent(app: &App, entry_type: &str, metadata: serde_json::Value) -> Entry {
    Entry { triggered_by: "agent_report".to_owned(), ..by_system(app, entry_type, metadata) }
}

//! Tasks of agents: created by runs, claimed under a lease, ended by their result.
//!
//! What must stay true: a run creates at most one task for a stage in a round; a result counts only in the
//! newest epoch of the task's lease; a task that ended never changes again; a task that its run no longer
//! wants is not begun, continued or ended, because its effect on a node cannot be undone.

use std::collections::{BTreeMap, BTreeSet};

use axum::{Extension, Json, extract::State as Shared};
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use wardroom_api::{
    gpu_node::agent::{ClaimRequest, Claimed, Recorded, Task, TaskResult},
    run::RunTask,
};
use wardroom_core::{
    gpu_node::task::{Kind, Outcome, State},
    run::{State as RunState, action::Goal, plan::Stage},
};
use wardroom_store::{
    Change, Content, Error as StoreError, Fence, Held, List, Resource, TRANSITION, attempts,
};
use wardroom_workflow::{RUN, Run};

use super::{data::Data, enroll::by_agent};
use crate::kinds::gpu_node::identity;
use crate::kinds::gpu_node::settings::Settings;
use crate::platform::{
    app::{App, by_system},
    http::{body::Reported, error::Error, path::Path, problems::Problems, text},
    identity::auth::Caller,
};

pub(crate) const KIND: &str = "task";

/// How many bytes of a result are kept.
const MOST_OUTPUT: usize = 16 << 10;
const MOST_DETAILS: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Document {
    pub(crate) node: String,
    pub(crate) run: String,
    pub(crate) stage: Stage,
    pub(crate) kind: Kind,
    pub(crate) force: bool,
    /// The epoch of its last dispatch.
    pub(crate) epoch: i64,
    pub(crate) result: Option<TaskResult>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) node: &'a str,
    pub(crate) run: &'a str,
    pub(crate) stage: Stage,
    pub(crate) kind: Kind,
    pub(crate) round: u32,
    pub(crate) force: bool,
}

/// The unique key of a task: a run orders one task for a stage in a round.
pub(crate) fn key(run: &str, stage: Stage, round: u32) -> String {
    format!("{run}/{stage}/{round}")
}

pub(crate) fn lease(id: &str) -> String {
    format!("{KIND}/{id}")
}

/// Returns the task that a run orders, created if it does not exist.
pub(crate) async fn ensure(app: &App, ask: Ask<'_>) -> Result<Resource, Error> {
    let key = key(ask.run, ask.stage, ask.round);
    if let Some(found) = app.store.get_by_key(KIND, &key).await? {
        return Ok(found);
    }
    let Ask { node, run, stage, kind, force, .. } = ask;
    let (node, run) = (node.to_owned(), run.to_owned());
    let fields = BTreeMap::from([("node".to_owned(), node.clone()), ("run".to_owned(), run.clone())]);
    let document = Document { node, run, stage, kind, force, epoch: 0, result: None };
    let content = Content {
        kind: KIND.to_owned(),
        id: Uuid::now_v7().to_string(),
        name: format!("{kind} of {}", document.node),
        state: State::Queued.as_str().to_owned(),
        document: wardroom_store::Document::of(&document)?,
        labels: BTreeMap::new(),
        fields,
        keys: BTreeSet::from([key.clone()]),
        deleted: false,
        due_at: None,
    };
    match app.create(content, by_system(app, "registered", serde_json::Value::Null)).await {
        Ok(task) => Ok(task),
        // Another worker was faster: use its task.
        Err(StoreError::KeyTaken { .. }) => app
            .store
            .get_by_key(KIND, &key)
            .await?
            .ok_or(Error::Unavailable("another request is creating the task: retry")),
        Err(error) => Err(error.into()),
    }
}

/// Whether the agent completed a task of a run.
pub(crate) async fn has_succeeded(app: &App, run: &str, stage: Stage, round: u32) -> Result<bool, Error> {
    let Some(found) = app.store.get_by_key(KIND, &key(run, stage, round)).await? else { return Ok(false) };
    Ok(state(&found)? == State::Succeeded)
}

/// Withdraws a task; an ended one stays as it is.
pub(crate) async fn withdraw(app: &App, run: &str, stage: Stage, round: u32) -> Result<(), Error> {
    let Some(found) = app.store.get_by_key(KIND, &key(run, stage, round)).await? else { return Ok(()) };
    take_back(app, &found.content.id).await
}

async fn take_back(app: &App, id: &str) -> Result<(), Error> {
    let withdrawn = |task: &Resource| {
        if !state(task)?.is_open() {
            return Ok(crate::platform::app::Decided::Nothing(()));
        }
        let content = Content { state: State::Withdrawn.as_str().to_owned(), ..task.content.clone() };
        let entry = by_system(app, TRANSITION, serde_json::Value::Null);
        Ok(crate::platform::app::Decided::Commit(Box::new((content, entry)), ()))
    };
    app.change(KIND, id, withdrawn).await.map(drop)
}

/// Withdraws the unwanted tasks of a node. An agent learns of a running one with its next heartbeat.
pub(crate) async fn tidy(app: &App, node: &str) -> Result<(), Error> {
    for task in open(app, node).await? {
        weed(app, &task).await?;
    }
    Ok(())
}

async fn weed(app: &App, task: &Resource) -> Result<(), Error> {
    let wanted = wanted(app, task).await?.is_some();
    if wanted { Ok(()) } else { take_back(app, &task.content.id).await }
}

/// Does [`tidy`] for a caller that changed a run, and only logs a failure: the sweeper repeats it.
pub(crate) async fn tidy_up(app: &App, node: &str) {
    if let Err(error) = tidy(app, node).await {
        tracing::warn!(node, %error, "tasks of an ended run not withdrawn; the sweeper withdraws them");
    }
}

pub(crate) async fn sweep(app: &App) -> Result<(), Error> {
    for state in [State::Dispatched, State::Queued] {
        let state = Some(state.as_str().to_owned());
        let mut list = List { kind: KIND.to_owned(), state, limit: 500, ..List::default() };
        loop {
            let page = app.store.list(&list).await?;
            for task in &page.items {
                if let Err(error) = weed(app, task).await {
                    // One unreadable task must not delay the others.
                    tracing::warn!(task = task.content.id, %error, "task not checked; the next sweep tries again");
                }
            }
            match page.next {
                Some(next) => list.after = Some(next),
                None => break,
            }
        }
    }
    Ok(())
}

/// Returns the run of a task if it still wants the task: the run is in progress, not being undone, and at the
/// task's stage and round. A run that waits for a person is frozen, and wants no task.
pub(crate) async fn wanted(app: &App, task: &Resource) -> Result<Option<Run<Data>>, Error> {
    let document: Document = task.content.document.read()?;
    let Some(found) = app.store.get(RUN, &document.run).await? else { return Ok(None) };
    let run = Run::<Data>::read(found)?;
    let turns = run.record.progress.undoing || run.record.plan.goal != Goal::Run;
    let onward = run.state.is_worked_on() && run.state != RunState::Compensating && !turns;
    let stage = run.record.progress.stage;
    let asked = key(run.id(), stage, run.record.data.task_round(stage));
    let is_asked = document.stage == stage && task.content.keys.contains(&asked);
    Ok((onward && is_asked && document.node == run.subject()).then_some(run))
}

pub(crate) fn state(task: &Resource) -> Result<State, Error> {
    task.content.state.parse().map_err(|error| {
        tracing::error!(id = task.content.id, %error, "the stored task has an unknown state");
        Error::Internal
    })
}

/// A task as agents and people see it.
pub(crate) fn view(task: &Resource) -> Result<Task, Error> {
    let document: Document = task.content.document.read()?;
    Ok(Task {
        id: task.content.id.clone(),
        kind: document.kind.to_string(),
        state: task.content.state.clone(),
        run: document.run,
        epoch: document.epoch,
        time_limit: u64::try_from(document.kind.time_limit().as_secs()).unwrap_or(0),
        force: document.force,
    })
}

/// The tasks of a node that are not ended, oldest first.
pub(crate) async fn open(app: &App, node: &str) -> Result<Vec<Resource>, Error> {
    let mut open = Vec::new();
    for wanted in [State::Dispatched, State::Queued] {
        let fields = BTreeMap::from([("node".to_owned(), node.to_owned())]);
        let state = Some(wanted.as_str().to_owned());
        let list = List { kind: KIND.to_owned(), state, fields, limit: 100, ..List::default() };
        open.extend(app.store.list(&list).await?.items);
    }
    open.sort_by(|one, other| one.content.id.cmp(&other.content.id));
    Ok(open)
}

/// How many tasks are shown with a run.
const MOST_SHOWN: usize = 20;

pub(crate) async fn of_run(app: &App, run: &str) -> Result<Vec<RunTask>, Error> {
    let fields = BTreeMap::from([("run".to_owned(), run.to_owned())]);
    let mut list = List { kind: KIND.to_owned(), fields, limit: 100, ..List::default() };
    let mut newest = Vec::new();
    loop {
        let page = app.store.list(&list).await?;
        newest.extend(page.items);
        newest.drain(..newest.len().saturating_sub(MOST_SHOWN));
        match page.next {
            Some(next) => list.after = Some(next),
            None => return Ok(newest.iter().filter_map(|task| told(task).ok()).collect()),
        }
    }
}

/// Shows an unreadable task as such, so that it hides neither the others nor the run.
fn told(task: &Resource) -> Result<RunTask, StoreError> {
    let unread =
        |error: &StoreError| tracing::warn!(task = task.content.id, %error, "a task cannot be shown");
    let Document { stage, kind, result, .. } = task.content.document.read().inspect_err(unread)?;
    Ok(RunTask {
        id: task.content.id.clone(),
        kind: kind.to_string(),
        stage: stage.to_string(),
        state: task.content.state.clone(),
        result,
        created_at: task.created_at,
        updated_at: task.updated_at,
    })
}

/// Claims the oldest free task: queued, or with an expired lease. A repeated claim gets its own task back.
#[utoipa::path(
    post, path = "/api/v1/gpu-nodes/{id}/tasks/claim", request_body = ClaimRequest, params(("id" = String, Path)),
    responses((status = 200, body = Claimed), Problems)
)]
pub(crate) async fn claim(
    Shared(app): Shared<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Reported { value: request, .. }: Reported<ClaimRequest>,
) -> Result<Json<Claimed>, Error> {
    identity::speaks_for(&caller, &id)?;
    text::check("holder", &request.holder, 1..=128)?;
    let holder = format!("agent {id} {}", request.holder);
    let task = attempts(|| offer(&app, &id, &holder)).await?;
    Ok(Json(Claimed { task: task.as_ref().map(view).transpose()? }))
}

/// Hands out the oldest task that its run wants and that has no holder; none if it was taken, withdrawn or
/// ended meanwhile, or its run moved.
async fn offer(app: &App, node: &str, holder: &str) -> Result<Option<Option<Resource>>, Error> {
    for task in open(app, node).await? {
        let Some(run) = wanted(app, &task).await? else {
            take_back(app, &task.content.id).await?;
            continue;
        };
        let lease = app
            .store
            .acquire_lease(&lease(&task.content.id), holder, Settings::of(&app.config).task_lease)
            .await?;
        let Some(lease) = lease else { continue };
        match dispatch(app, task, lease.epoch, lease.fence(), Held::at(&run.resource)).await {
            Ok(task) => return Ok(Some(Some(task))),
            Err(StoreError::Conflict | StoreError::Fenced { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Some(None))
}

async fn dispatch(
    app: &App,
    task: Resource,
    epoch: i64,
    fence: Fence,
    run: Held,
) -> Result<Resource, StoreError> {
    let document: Document = task.content.document.read()?;
    if document.epoch == epoch && task.content.state == State::Dispatched.as_str() {
        return Ok(task);
    }
    let mut after = task.content.clone();
    State::Dispatched.as_str().clone_into(&mut after.state);
    after.document = wardroom_store::Document::of(&Document { epoch, ..document })?;
    let entry_type = if after.state == task.content.state { "attempt" } else { TRANSITION };
    let entry = by_agent(app, entry_type, serde_json::json!({"epoch": epoch}));
    let change = Change {
        before: Some(task),
        after,
        entry,
        effects: Vec::new(),
        fence: Some(fence),
        holds: vec![run],
    };
    Ok(app.store.commit(change).await?.resource)
}

/// Reports the result of a task. Repeating a recorded result succeeds; the result of another epoch does not
/// count.
#[utoipa::path(
    post, path = "/api/v1/gpu-nodes/{id}/tasks/{task}/result", request_body = TaskResult,
    params(("id" = String, Path), ("task" = String, Path)),
    responses((status = 200, body = Recorded), Problems)
)]
pub(crate) async fn result(
    Shared(app): Shared<App>,
    Extension(caller): Extension<Caller>,
    Path((id, task)): Path<(String, String)>,
    Reported { value: mut result, .. }: Reported<TaskResult>,
) -> Result<Json<Recorded>, Error> {
    identity::speaks_for(&caller, &id)?;
    let outcome: Outcome = result
        .outcome
        .parse()
        .map_err(|error: wardroom_core::UnknownName| Error::invalid("outcome", error.to_string()))?;
    bound(&mut result);
    attempts(|| end(&app, &id, &task, outcome, &result)).await.map(Json)
}

/// Ends a task with its agent's result; none if the task or its run changed meanwhile.
async fn end(
    app: &App,
    node: &str,
    id: &str,
    outcome: Outcome,
    result: &TaskResult,
) -> Result<Option<Recorded>, Error> {
    let found = app.store.get(KIND, id).await?;
    let before = found.ok_or_else(|| Error::not_found(KIND, id))?;
    let document: Document = before.content.document.read()?;
    if document.node != node {
        return Err(Error::not_found(KIND, id));
    }
    let at = state(&before)?;
    if document.result.as_ref() == Some(result) {
        return Ok(Some(Recorded { state: at.to_string(), repeated: true }));
    }
    if at != State::Dispatched || document.epoch != result.epoch {
        return Err(not_yours(at));
    }
    let Some(run) = wanted(app, &before).await? else {
        take_back(app, id).await?;
        return Err(not_yours(State::Withdrawn));
    };
    let fence = Some(Fence { lease: lease(id), epoch: result.epoch, beat: None });
    let to = State::from(outcome);
    let metadata = serde_json::json!({"outcome": outcome, "exit_code": result.exit_code});
    let mut after = before.content.clone();
    to.as_str().clone_into(&mut after.state);
    after.document = wardroom_store::Document::of(&Document { result: Some(result.clone()), ..document })?;
    let entry = by_agent(app, TRANSITION, metadata);
    let holds = vec![Held::at(&run.resource)];
    let change = Change { before: Some(before), after, entry, effects: Vec::new(), fence, holds };
    match app.store.commit(change).await {
        Ok(_) => Ok(Some(Recorded { state: to.to_string(), repeated: false })),
        Err(StoreError::Conflict) => Ok(None),
        Err(StoreError::Fenced { .. }) => Err(not_yours(at)),
        Err(error) => Err(error.into()),
    }
}

/// Bounds the kept fields. Outputs of commands are cut, not refused; of too many details the failed ones are
/// kept first.
fn bound(result: &mut TaskResult) {
    if result.output.len() > MOST_OUTPUT {
        // Keep the end, which shows the result.
        let mut from = result.output.len() - MOST_OUTPUT;
        while !result.output.is_char_boundary(from) {
            from += 1;
        }
        result.output = format!("…{}", &result.output[from..]);
    }
    result.output.retain(|character| character != '\0');
    if result.details.len() > MOST_DETAILS {
        result.details.sort_by_key(|detail| detail.ok);
        result.details.truncate(MOST_DETAILS);
    }
    for detail in &mut result.details {
        text::scrub(&mut detail.name, 255);
        text::scrub(&mut detail.method, 255);
    }
}

fn not_yours(state: State) -> Error {
    Error::Conflict {
        code: "task_lost",
        detail: format!("the task is {state} and no longer belongs to this agent: claim again"),
        allowed: Vec::new(),
    }
}

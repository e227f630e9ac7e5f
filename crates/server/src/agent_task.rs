//! Tasks for the agents of GPU nodes: given by a run, taken under a lease, answered once.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use wardroom_core::run::{
    plan::Stage,
    task::{Kind, State},
};
use wardroom_store::{Change, Content, Document, Entry, Error as StoreError, Fence, Lease, List, Resource};

use crate::{
    app::{App, by_system},
    error::Error,
};

/// The kind under which tasks are stored.
pub(crate) const TASK: &str = "agent-task";

/// How long a task is an agent's before it may be taken again.
pub(crate) const LEASE: Duration = Duration::from_secs(300);

/// What is stored of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) node: String,
    pub(crate) run: String,
    pub(crate) stage: Stage,
    pub(crate) kind: Kind,
    /// What the agent said.
    pub(crate) output: Option<String>,
}

/// A stored task.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) resource: Resource,
    pub(crate) state: State,
    pub(crate) task: Task,
}

impl Found {
    fn read(resource: Resource) -> Result<Self, Error> {
        let state = resource.content.state.parse().map_err(|_| Error::Internal)?;
        let task = resource.content.document.read()?;
        Ok(Self { resource, state, task })
    }
}

pub(crate) async fn find(app: &App, id: &str) -> Result<Option<Found>, Error> {
    app.store.get(TASK, id).await?.map(Found::read).transpose()
}

/// Queues a task under an id that the run has recorded; queued twice, it is there once.
pub(crate) async fn queue(app: &App, id: &str, task: &Task) -> Result<(), Error> {
    let content = Content {
        kind: TASK.to_owned(),
        id: id.to_owned(),
        name: format!("{} of {}", task.kind, task.node),
        state: State::Queued.to_string(),
        document: Document::of(task)?,
        labels: BTreeMap::new(),
        fields: BTreeMap::from([("node".to_owned(), task.node.clone())]),
        keys: BTreeSet::new(),
        deleted: false,
        due_at: None,
    };
    match app.create(content, by_workflow(app, "registered")).await {
        Ok(_) | Err(StoreError::Conflict) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The run does not want the task any more; an agent that has it will find its result refused.
pub(crate) async fn withdraw(app: &App, id: &str) -> Result<(), Error> {
    while let Some(found) = find(app, id).await?.filter(|found| found.state.is_open()) {
        let task = found.task.clone();
        match finish(app, found, State::Withdrawn, task, by_workflow(app, "transition"), None).await {
            Err(StoreError::Conflict) => {}
            done => return Ok(done.map(drop)?),
        }
    }
    Ok(())
}

/// Gives the agent of a node its next task: the one it has, or else the oldest that waits or was lost.
pub(crate) async fn claim(app: &App, node: &str, holder: &str) -> Result<Option<(Found, Lease)>, Error> {
    for state in [State::Dispatched, State::Queued] {
        let fields = BTreeMap::from([("node".to_owned(), node.to_owned())]);
        let list = List {
            kind: TASK.to_owned(),
            state: Some(state.to_string()),
            fields,
            limit: 10,
            ..List::default()
        };
        for resource in app.store.list(&list).await?.items {
            let name = format!("{TASK}/{}", resource.content.id);
            let Some(lease) = app.store.acquire_lease(&name, holder, LEASE).await? else { continue };
            let found = Found::read(resource)?;
            if found.state == State::Dispatched {
                return Ok(Some((found, lease)));
            }
            let (task, fence) = (found.task.clone(), Some(lease.fence()));
            let entry = by_agent(app, "transition");
            match finish(app, found, State::Dispatched, task, entry, fence).await {
                Ok(resource) => return Ok(Some((Found::read(resource)?, lease))),
                // Withdrawn meanwhile, or in other hands.
                Err(StoreError::Conflict | StoreError::Fenced { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(None)
}

/// Keeps what an agent says came of a task. Repeated, the same result succeeds without effect.
pub(crate) async fn answer(
    app: &App,
    found: Found,
    epoch: i64,
    outcome: State,
    output: Option<String>,
) -> Result<Resource, Error> {
    if found.state == outcome && found.task.output == output {
        return Ok(found.resource);
    }
    if found.state != State::Dispatched {
        return Err(not_yours(&format!("the task is {}", found.state)));
    }
    let task = Task { output, ..found.task.clone() };
    let fence = Some(Fence { lease: format!("{TASK}/{}", found.resource.content.id), epoch });
    match finish(app, found, outcome, task, by_agent(app, "transition"), fence).await {
        Ok(resource) => Ok(resource),
        Err(StoreError::Conflict | StoreError::Fenced { .. }) => {
            Err(not_yours("it was claimed again since, or withdrawn"))
        }
        Err(error) => Err(error.into()),
    }
}

fn not_yours(why: &str) -> Error {
    Error::Conflict {
        code: "task_not_yours",
        detail: format!("the result comes too late: {why}; claim the next task"),
        allowed: Vec::new(),
    }
}

async fn finish(
    app: &App,
    found: Found,
    state: State,
    task: Task,
    entry: Entry,
    fence: Option<Fence>,
) -> Result<Resource, StoreError> {
    let mut after = found.resource.content.clone();
    after.state = state.to_string();
    after.document = Document::of(&task)?;
    let before = Some(found.resource);
    let change = Change { before, after, entry, effects: Vec::new(), fence, holds: Vec::new() };
    Ok(app.store.commit(change).await?.resource)
}

fn by_workflow(app: &App, entry_type: &str) -> Entry {
    Entry { triggered_by: "workflow".to_owned(), ..by_system(app, entry_type, serde_json::Value::Null) }
}

fn by_agent(app: &App, entry_type: &str) -> Entry {
    Entry { triggered_by: "agent_report".to_owned(), ..by_system(app, entry_type, serde_json::Value::Null) }
}

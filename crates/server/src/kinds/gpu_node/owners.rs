//! Checks that each node in a state of work in progress has an open run, and repairs it.

use wardroom_core::{
    gpu_node::{State, mapping},
    run::{self, action::Action as RunAction, plan::Stage},
};
use wardroom_store::{List, Resource};
use wardroom_workflow::{Actor, Adoption, Ask, Problem, Run};

use super::{
    begin::{self, Plan},
    data::Data,
    document::{self, Document, KIND},
    proof, resume, task,
};
use crate::platform::{
    app::{App, by_system},
    http::error::Error,
};

/// States that need a run, and active nodes, whose heartbeats a server must watch.
const STATES: &[State] =
    &[State::BootstrapIssued, State::Enrolling, State::Draining, State::Removing, State::Active];

/// Checks every node in such a state.
pub(crate) async fn sweep(app: &App) -> Result<(), Error> {
    for state in STATES {
        let state = Some(state.as_str().to_owned());
        let mut list = List { kind: KIND.to_owned(), state, limit: 500, ..List::default() };
        loop {
            let page = app.store.list(&list).await?;
            for node in &page.items {
                if let Err(error) = look_after(app, node).await {
                    // One node that cannot be repaired must not delay the others.
                    tracing::warn!(node = node.content.id, %error, "node not checked for a missing run; the next sweep tries again");
                }
            }
            match page.next {
                Some(next) => list.after = Some(next),
                None => break,
            }
        }
    }
    task::sweep(app).await
}

pub(crate) async fn look_after(app: &App, node: &Resource) -> Result<(), Error> {
    let id = &node.content.id;
    let state = document::state(node)?;
    if state == State::Active {
        if app.liveness.find(KIND, id).is_none() {
            super::watch_from(app, node, proof::heard(app, id).await?)?;
        }
        return Ok(());
    }
    let run = begin::newest_run(app, node).await?;
    if let Some(run) = run.as_ref().filter(|run| run.state.is_open()) {
        if let Err(misfit) = mapping::check(state, Some((run.record.plan.kind, run.state))) {
            tracing::error!(node = id, run = run.id(), %misfit, "the states of a node and its run contradict each other");
        }
        return wake(app, node, run).await;
    }
    if !state.needs_owner() || !is_still(app, node).await? {
        return Ok(());
    }
    let reason = Some("no run worked on the node".to_owned());
    let plan = Plan { reason, ..resume::owner_for(state, node)? };
    tracing::warn!(node = id, %state, kind = %plan.kind, "no run works on a node that needs one; one is started");
    begin::begin(app, &by_system(app, "changed", serde_json::Value::Null), id, &plan).await?;
    Ok(())
}

/// Whether a node is unchanged since it was listed: if its run ended meanwhile, it needs no other.
async fn is_still(app: &App, node: &Resource) -> Result<bool, Error> {
    let now = app.store.get(KIND, &node.content.id).await?;
    Ok(now.is_some_and(|now| now.version == node.version))
}

/// Continues a run that gave up waiting for its agent, once the agent has enrolled.
async fn wake(app: &App, node: &Resource, run: &Run<Data>) -> Result<(), Error> {
    let stuck = run.state == run::State::FailedRetryable
        && run.record.progress.stage == Stage::WaitForAgentEnrollment;
    let enrolled = Document::of(node)?.agent.is_some_and(|agent| agent.run == run.id());
    if !stuck || !enrolled {
        return Ok(());
    }
    let comment = Some("the agent enrolled after all".to_owned());
    let actor = Actor { user: None, comment, request_id: None };
    let (action, at) = (RunAction::Resume, Some(run.resource.version));
    let ask = Ask { action, abandon: false, adoption: Adoption::Nothing, at, actor };
    match wardroom_workflow::act::<Data>(&app.store, run.id(), &ask, app.now()).await {
        // It was handled meanwhile.
        Ok(_) | Err(Problem::Refused { .. } | Problem::NotFound | Problem::Busy) => Ok(()),
        Err(problem) => Err(super::action::problem(run.id(), problem)),
    }
}

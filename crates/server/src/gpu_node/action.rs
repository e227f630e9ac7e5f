//! What operators do to GPU nodes. Whatever moves a node in the middle of its work goes through the run that owns it.

use std::collections::BTreeMap;

use wardroom_api::gpu_node::NodeAction;
use wardroom_core::{
    gpu_node::{Event, State, moves},
    run::{
        action::Action,
        plan::{Kind, Stage},
    },
};
use wardroom_store::{Resource, TRANSITION};
use wardroom_workflow::{Actor, Adoption, Ask, Did, Run, act};

use super::{
    document::{self, Document},
    find, new_token,
    owner::{self, Decision, Start},
};
use crate::{
    app::{App, by_person},
    auth::Caller,
    error::Error,
    run::{self, data::Known},
};

/// The node as it is now, what was done, and a token to show.
type Done = (Resource, String, Option<String>);

/// Every action there is.
const ACTIONS: &[&str] =
    &["quarantine", "recover", "retire", "stop-drain", "reactivate", "remove", "rollback-remove", "resume"];

pub(super) async fn carry_out(
    app: &App,
    caller: &Caller,
    id: &str,
    action: &str,
    wanted: NodeAction,
) -> Result<Done, Error> {
    let skip = |stage| skipped(stage, &wanted);
    match action {
        "quarantine" => shift(app, caller, id, Event::Quarantine, wanted.reason).await,
        "recover" => recover(app, caller, id, wanted.reason).await,
        "reactivate" => reactivate(app, caller, id, wanted.reason).await,
        "retire" => {
            let skip = skip(Stage::DrainNode)?;
            begin(app, caller, id, Kind::Retire, skip, State::Retired, wanted.reason).await
        }
        "remove" => {
            let skip = skip(Stage::RemoveGpuaasNodeRecord)?;
            begin(app, caller, id, Kind::Remove, skip, State::Deleted, wanted.reason).await
        }
        "stop-drain" => stop(app, caller, id, State::Draining, State::Offline, wanted.reason).await,
        "rollback-remove" => stop(app, caller, id, State::Removing, State::Retired, wanted.reason).await,
        "resume" => resume(app, caller, id, wanted.reason).await,
        _ => Err(Error::invalid("action", format!("must be one of: {}", ACTIONS.join(", ")))),
    }
}

fn skipped(stage: Stage, wanted: &NodeAction) -> Result<BTreeMap<Stage, String>, Error> {
    match (&wanted.reason, wanted.skip_agent) {
        (_, false) => Ok(BTreeMap::new()),
        (Some(reason), true) if !reason.trim().is_empty() => Ok(BTreeMap::from([(stage, reason.clone())])),
        (_, true) => Err(Error::invalid("reason", "is needed when the agent is not asked")),
    }
}

/// Moves the node by an event of its table; a node that is there already was moved before.
async fn shift(
    app: &App,
    caller: &Caller,
    id: &str,
    event: Event,
    reason: Option<String>,
) -> Result<Done, Error> {
    let target = wardroom_core::gpu_node::TABLE.0.iter().find(|row| row.on == event).map(|row| row.to);
    let before = find(app, id).await?;
    if Some(document::state(&before)?) == target {
        return Ok((before, "already_there".to_owned(), None));
    }
    let node = owner::change(app, id, |node, _| {
        let from = document::state(node)?;
        let Some(to) = moves::target(from, event) else {
            return Err(owner::not_now(from, &format!("{event} does not move it")));
        };
        let content = Document::of(node)?.into_content_of(node, to)?;
        let mut entry = by_person(app, caller, TRANSITION, reason.clone());
        entry.metadata = serde_json::json!({"event": event});
        Ok(Decision::Commit(Box::new((content, entry))))
    })
    .await?;
    if document::state(&node)? != State::Active {
        app.liveness.unseat(wardroom_workflow::NODE, id);
    }
    Ok((node, event.to_string(), None))
}

/// Back to service, for a node whose agent has said since the quarantine that it is healthy.
async fn recover(app: &App, caller: &Caller, id: &str, reason: Option<String>) -> Result<Done, Error> {
    let node = find(app, id).await?;
    let state = document::state(&node)?;
    if state == State::Quarantined {
        let heard = app.liveness.last_seen(wardroom_workflow::NODE, id);
        let health = document::health(app, id).await?;
        let healthy = health.is_some_and(|(health, seen)| {
            health.healthy && heard.max(Some(seen.received_at)) > Some(node.state_changed_at)
        });
        if !healthy {
            return Err(owner::not_now(state, "its agent has not said since that it is healthy"));
        }
        let onboarding = owner::run_of(app, &node).await?;
        if onboarding.is_some_and(|run| run.state.is_open() && run.record.kind.is_onboarding()) {
            return Err(owner::not_now(state, "its onboarding is still open"));
        }
    }
    shift(app, caller, id, Event::Recover, reason).await
}

/// Back into use under the old identity, which must still be there.
async fn reactivate(app: &App, caller: &Caller, id: &str, reason: Option<String>) -> Result<Done, Error> {
    let node = find(app, id).await?;
    let state = document::state(&node)?;
    if state == State::Retired {
        if Document::of(&node)?.agent.is_none() {
            return Err(owner::not_now(state, "its identity was not kept"));
        }
        if owner::run_of(app, &node).await?.is_some_and(|run| run.state.is_open()) {
            return Err(owner::not_now(state, "a run is open on it"));
        }
    }
    shift(app, caller, id, Event::Reactivate, reason).await
}

/// Starts a run; a node that is where the run would bring it was brought there before.
async fn begin(
    app: &App,
    caller: &Caller,
    id: &str,
    kind: Kind,
    skip: BTreeMap<Stage, String>,
    end: State,
    reason: Option<String>,
) -> Result<Done, Error> {
    let node = find(app, id).await?;
    if document::state(&node)? == end {
        return Ok((node, "already_there".to_owned(), None));
    }
    let mut entry = by_person(app, caller, "changed", reason);
    entry.metadata = serde_json::json!({"kind": kind, "skip": skip});
    let (node, _, new) = owner::start(app, id, &Start { kind, skip, event: None }, &entry).await?;
    Ok((node, if new { "started" } else { "already_started" }.to_owned(), None))
}

/// Cancels the run that brought the node where it is; the node goes back in the commit that ends the run.
async fn stop(
    app: &App,
    caller: &Caller,
    id: &str,
    from: State,
    to: State,
    reason: Option<String>,
) -> Result<Done, Error> {
    loop {
        let node = find(app, id).await?;
        let state = document::state(&node)?;
        if state == to {
            return Ok((node, "already_there".to_owned(), None));
        }
        let run = owner::run_of(app, &node).await?.filter(|run| run.state.is_open());
        if let Some(run) = run.filter(|_| state == from) {
            let did = press(app, caller, &run, Action::Cancel, reason).await?;
            return Ok((find(app, id).await?, did, None));
        }
        // The run may have ended, and taken the node along, after the node was read.
        if find(app, id).await?.version == node.version {
            return Err(owner::not_now(state, &format!("there is nothing that leads from {from} to stop")));
        }
    }
}

/// Gets work going again: another token for a node that has not enrolled, the owning run for one at work, a new run
/// for one whose run was lost.
async fn resume(app: &App, caller: &Caller, id: &str, reason: Option<String>) -> Result<Done, Error> {
    let node = find(app, id).await?;
    let state = document::state(&node)?;
    let entry = by_person(app, caller, "credential", reason.clone());
    if state == State::BootstrapIssued {
        let (secret, token) = new_token(app.now());
        let node = owner::change(app, id, |node, _| {
            let token = Some(token.clone());
            let state = document::state(node)?;
            let content = Document { token, ..Document::of(node)? }.into_content_of(node, state)?;
            Ok(Decision::Commit(Box::new((content, entry.clone()))))
        })
        .await?;
        if let Some(run) = owner::run_of(app, &node).await?.filter(|run| run.state.is_open()) {
            press(app, caller, &run, Action::Resume, reason).await?;
        }
        return Ok((node, "token_issued".to_owned(), Some(secret)));
    }
    if !state.needs_owner() {
        return Err(owner::not_now(state, "there is no work in progress to resume"));
    }
    let run = owner::run_of(app, &node).await?.filter(|run| run.state.is_open());
    let did = match run {
        Some(run) => press(app, caller, &run, Action::Resume, reason).await?,
        None => {
            let adopted = owner::adopt_orphan(app, id, &entry).await?;
            if adopted { "started" } else { "already_started" }.to_owned()
        }
    };
    Ok((find(app, id).await?, did, None))
}

async fn press(
    app: &App,
    caller: &Caller,
    run: &Run<Known>,
    action: Action,
    reason: Option<String>,
) -> Result<String, Error> {
    let actor =
        Actor { user: caller.name().to_owned(), reason, request: Some(caller.request_id.to_string()) };
    let ask = Ask { action, abandon: false, adoption: Adoption::Nothing, actor };
    let answer = act::<Known>(&app.store, run.id(), &ask, app.now()).await;
    let answer = answer.map_err(|problem| run::refused(run.id(), problem))?;
    Ok(match answer.did {
        Did::Moved(event) => event.to_string(),
        Did::Headed(goal) => format!("heading for {goal}"),
        Did::Requeued => "requeued".to_owned(),
        Did::Already(already) => already.to_string(),
    })
}

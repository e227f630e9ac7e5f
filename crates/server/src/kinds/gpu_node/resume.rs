//! `resume` of a node: gives work in progress its run back, and never a second one.
//!
//! The branches, and the word that names the one that was taken:
//!
//! | what is found                                  | what is done                  | word                             |
//! |------------------------------------------------|-------------------------------|----------------------------------|
//! | no run works on the node                       | a new one is started          | `run_created`                    |
//! | its run failed                                 | the run goes on               | `run_resumed`                    |
//! | its run lost its worker                        | the run is queued again       | `run_resumed`                    |
//! | its run waits for its next attempt             | the run is queued for now     | `run_resumed`                    |
//! | the agent's task is queued                     | nothing                       | `task_queued`                    |
//! | the agent has the task under a live lease      | nothing                       | `task_live`                      |
//! | the lease of the task lapsed                   | its holder is fenced off, the task queued again | `task_requeued` |
//! | the run is on its way without a task           | nothing                       | `run_in_progress`, `run_queued`  |
//! | a token was issued and no agent enrolled       | a new token, the old is void  | `token_issued`                   |
//! | another request issued a new one meanwhile     | nothing                       | `token_fresh`                    |

use std::time::Duration;

use wardroom_core::{
    gpu_node::{
        Event, State,
        action::Action,
        task::{Kind as TaskKind, State as TaskState},
    },
    run::{
        action::{Action as RunAction, Goal},
        plan::Kind,
    },
};
use wardroom_store::{
    Change, Content, Entry, Error as StoreError, Held, Lease, Resource, TRANSITION, attempts, unless_conflict,
};
use wardroom_workflow::{Did, Run};

use super::{
    action::{Done, Order, not_allowed, refused, word},
    begin::{self, Plan, begin},
    data::Data,
    document::{self, Document},
    enroll, task,
};
use crate::platform::{
    app::{App, by_person},
    http::error::Error,
    identity::auth::Caller,
};

pub(crate) async fn resume(order: &Order<'_>) -> Result<Done, Error> {
    let node = super::find(order.app, order.id).await?;
    let state = document::state(&node)?;
    if !order.action.is_allowed(state) {
        return Err(refused(order.app, &node, order.action).await?);
    }
    let Some(run) = begin::open_run(order.app, &node).await? else {
        let plan = owner_for(state, &node)?;
        let token = (plan.kind == Kind::Bootstrap).then(|| enroll::expiry(order.app));
        let plan = Plan { reason: order.reason.clone(), token, ..plan };
        let node = begin(order.app, &order.entry(), order.id, &plan).await?;
        let did = if state == State::BootstrapIssued { "token_issued" } else { "run_created" };
        return match token {
            Some(_) => Ok(Done { did, ..token_of(order.app, &node)? }),
            None => Ok(Done::only(did)),
        };
    };
    if waits_by_hand(&run, &node)? {
        // The token first; otherwise the run would fail on the expired one again.
        let done = reissue(order, &node).await?;
        order.ask(run.id(), RunAction::Resume).await?;
        return Ok(done);
    }
    let answer = order.ask(run.id(), RunAction::Resume).await?;
    if let Did::Already(_) = answer.did
        && let Some(did) = requeue(order.app, order.caller, &run).await?
    {
        return Ok(Done::only(did));
    }
    Ok(Done::only(word(answer.did)))
}

/// Whether a run waits for an agent that enrols by hand, so that a new token is all it needs.
fn waits_by_hand(run: &Run<Data>, node: &Resource) -> Result<bool, Error> {
    let enrolled = Document::of(node)?.agent.is_some_and(|agent| agent.run == run.id());
    Ok(run.record.plan.kind == Kind::Bootstrap && !enrolled)
}

/// Returns the run that a node in this state should have, valid only while the node stays in the state.
pub(crate) fn owner_for(state: State, node: &Resource) -> Result<Plan, Error> {
    let site = Document::of(node)?.site;
    let plan = match state {
        State::Enrolling if site.is_some() => Plan::of(Kind::Onboarding),
        State::Enrolling | State::BootstrapIssued => Plan::of(Kind::Bootstrap),
        State::Draining => Plan::of(Kind::Retire),
        // A removal starts from retired; its run goes back to removing with its first stage.
        State::Removing => Plan { event: Some(Event::UninstallFailed), ..Plan::of(Kind::Remove) },
        State::Active | State::Offline | State::Quarantined | State::Retired | State::Deleted => {
            return Err(Error::Internal);
        }
    };
    Ok(Plan { only_in: Some(state), ..plan })
}

fn token_of(app: &App, node: &Resource) -> Result<Done, Error> {
    let token = enroll::issued(app, node)?.map(|(token, _)| token);
    Ok(Done { did: "token_issued", token })
}

/// Issues a new token for the run that waits for the agent, which voids the previous one. If another request
/// issued one meanwhile, that token stays.
pub(crate) async fn reissue(order: &Order<'_>, seen: &Resource) -> Result<Done, Error> {
    let app = order.app;
    let before = Document::of(seen)?;
    attempts(async || {
        let node = super::find(app, order.id).await?;
        let (state, mut document) = (document::state(&node)?, Document::of(&node)?);
        let run = begin::open_run(app, &node).await?;
        if let Some(run) = &run
            && !waits_by_hand(run, &node)?
        {
            let detail = format!("the node is {state}, and no run of it waits for a token");
            return Err(not_allowed(app, &node, detail).await?);
        }
        if (&document.run, &document.enrollment) != (&before.run, &before.enrollment) {
            return Ok(Some(Done::only("token_fresh")));
        }
        let run = run.ok_or(Error::Unavailable("the run of the node has just ended: retry"))?;
        if run.record.progress.undoing || run.record.plan.goal != Goal::Run {
            return Err(begin::busy(&run));
        }
        let round = document.issued.max(document.enrollment.as_ref().map_or(0, |token| token.round)) + 1;
        let expires_at = enroll::expiry(app);
        let issue = enroll::Issue { run: run.id().to_owned(), round, expires_at };
        enroll::issue(&app.key, &mut document, order.id, issue);
        let mut entry = order.entry();
        "credential".clone_into(&mut entry.entry_type);
        entry.metadata = serde_json::json!({"token": "issued", "expires_at": expires_at});
        let after = document.into_content_of(&node, state)?;
        let (effects, fence, holds) = (Vec::new(), None, vec![Held::at(&run.resource)]);
        let change = Change { before: Some(node), after, entry, effects, fence, holds };
        // At a conflict an agent enrolled, or the run moved.
        let committed = unless_conflict(app.store.commit(change).await)?;
        committed.map(|committed| token_of(app, &committed.resource)).transpose()
    })
    .await
}

/// Issues another token when a bootstrap with an expired one is continued: otherwise the run would fail on it
/// again.
pub(crate) async fn renew(
    app: &App,
    caller: &Caller,
    run: &str,
    action: RunAction,
    reason: Option<&String>,
) -> Result<Option<String>, Error> {
    let run = crate::kinds::gpu_node::run::find(app, run).await?;
    let stands = run.state.is_open() && !run.state.is_worked_on();
    let onward = !run.record.progress.undoing && run.record.plan.goal == Goal::Run;
    let sent_on = matches!(action, RunAction::RetryStage | RunAction::Resume);
    if run.record.plan.kind != Kind::Bootstrap || !(stands && onward && sent_on) {
        return Ok(None);
    }
    let node = begin::read(app, run.subject()).await?;
    let token = Document::of(&node)?.enrollment;
    let lives = token.is_some_and(|token| token.expires_at > app.now());
    if lives || !waits_by_hand(&run, &node)? {
        return Ok(None);
    }
    if !crate::platform::feed::events::may_see(caller, document::KIND) {
        return Err(Error::Forbidden(
            "the token does not cover gpu-node, whose bootstrap token has expired".to_owned(),
        ));
    }
    let order = Order {
        app,
        caller,
        id: &node.content.id,
        action: Action::Resume,
        reason: reason.cloned(),
        unproven: false,
    };
    Ok(reissue(&order, &node).await?.token)
}

/// Queues the task that a run waits for again, if its lease expired; returns the finding, or none without a
/// task.
async fn requeue(app: &App, caller: &Caller, run: &Run<Data>) -> Result<Option<&'static str>, Error> {
    let stage = run.record.progress.stage;
    if TaskKind::of(stage).is_none() || run.record.progress.undoing {
        return Ok(None);
    }
    let key = task::key(run.id(), stage, run.record.data.task_round(stage));
    attempts(async || {
        let Some(found) = app.store.get_by_key(task::KIND, &key).await? else { return Ok(Some(None)) };
        match task::state(&found)? {
            TaskState::Queued => return Ok(Some(Some("task_queued"))),
            TaskState::Dispatched => {}
            TaskState::Succeeded | TaskState::Failed | TaskState::Refused | TaskState::Withdrawn => {
                return Ok(Some(None));
            }
        }
        // Taking an expired lease begins a new epoch: results of the earlier holder are refused.
        let lease = task::lease(&found.content.id);
        let Some(lease) = app.store.acquire_lease(&lease, "resume", FENCING).await? else {
            return Ok(Some(Some("task_live")));
        };
        match queue(app, found, lease, by_person(app, caller, TRANSITION, None)).await {
            Ok(()) => Ok(Some(Some("task_requeued"))),
            // The task was claimed or ended meanwhile: read it again.
            Err(StoreError::Conflict | StoreError::Fenced { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    })
    .await
}

/// How long the fencing lease is held; short, because the next claim waits for it.
const FENCING: Duration = Duration::from_millis(1);

/// Queues a dispatched task again, as it was read and in the epoch that fenced its holder off.
pub(crate) async fn queue(app: &App, task: Resource, lease: Lease, entry: Entry) -> Result<(), StoreError> {
    let after = Content { state: TaskState::Queued.as_str().to_owned(), ..task.content.clone() };
    let (fence, effects, holds) = (Some(lease.fence()), Vec::new(), Vec::new());
    let change = Change { before: Some(task), after, entry, effects, fence, holds };
    app.store.commit(change).await.map(drop)
}

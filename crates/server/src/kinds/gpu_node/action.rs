//! The actions of operators on a node. Each is idempotent, also when two operators give it at once.

use std::collections::BTreeMap;

use axum::{Extension, Json, extract::State as Shared};
use wardroom_api::{
    Envelope,
    gpu_node::{ActionRequest, ActionResult},
};
use wardroom_core::{
    action::Action as Offered,
    gpu_node::{self as core, Event, REIMAGE, State, TABLE, action::Action, facts::Facts, mapping},
    run::{
        action::{Action as RunAction, Already},
        plan::{Kind, Stage},
    },
};
use wardroom_store::{Change, Entry, Held, Resource, TRANSITION, attempts, unless_conflict};
use wardroom_workflow::{Actor, Adoption, Answer, Ask, Did, Problem, Run};

use super::{
    begin::{self, Plan, begin},
    data::Data,
    document::{self, Document, KIND},
    facts, proof, resume, set_aside, silence, skip, task,
};
use crate::platform::{
    app::{App, by_person},
    http::{body::Body, error::Error, path::Path, problems::Problems, text},
    identity::auth::Caller,
};

/// Asks something of a node: `quarantine`, `recover`, `retire`, `stop_drain`, `reactivate`, `remove`,
/// `rollback_remove` or `resume`. A repeat succeeds without another effect.
#[utoipa::path(
    post, path = "/api/v1/gpu-nodes/{id}/actions/{action}", request_body = ActionRequest,
    params(("id" = String, Path), ("action" = String, Path)),
    responses((status = 200, body = Envelope<ActionResult>), Problems)
)]
pub(crate) async fn act(
    Shared(app): Shared<App>,
    Extension(caller): Extension<Caller>,
    Path((id, action)): Path<(String, String)>,
    Body(request): Body<ActionRequest>,
) -> Result<axum::response::Response, Error> {
    let action: Action = action
        .parse()
        .map_err(|error: wardroom_core::UnknownName| Error::invalid("action", error.to_string()))?;
    text::check_prose("comment", request.comment.as_deref(), 2000)?;
    let kind = match action {
        Action::Retire => Some(Kind::Retire),
        Action::Remove => Some(Kind::Remove),
        Action::Quarantine
        | Action::Recover
        | Action::StopDrain
        | Action::Reactivate
        | Action::RollbackRemove
        | Action::Resume => None,
    };
    let skip = match kind {
        Some(kind) => begin::skips(kind, &request.skip)?,
        None if request.skip.is_empty() => Default::default(),
        None => return Err(Error::invalid("skip", format!("{action} has no stages to skip"))),
    };
    if request.unproven && action != Action::Recover {
        return Err(Error::invalid("unproven", format!("{action} does not take it: only recover does")));
    }
    if request.unproven && request.comment.as_deref().is_none_or(|comment| comment.trim().is_empty()) {
        return Err(Error::invalid("comment", "is required with `unproven: true`"));
    }
    let unproven = request.unproven;
    let order =
        Order { app: &app, caller: &caller, id: &id, action, reason: request.comment.clone(), unproven };
    let done = match action {
        Action::Retire | Action::Remove => {
            let kind = kind.ok_or(Error::Internal)?;
            let event = (kind == Kind::Retire).then_some(Event::Drain);
            order.start(Plan { event, skip, reason: request.comment, ..Plan::of(kind) }).await?
        }
        Action::Quarantine | Action::Recover | Action::Reactivate => order.shift().await?,
        Action::StopDrain | Action::RollbackRemove => order.stop().await?,
        Action::Resume => resume::resume(&order).await?,
    };
    answer(&app, &id, done).await
}

/// An operator's order.
pub(crate) struct Order<'a> {
    pub(crate) app: &'a App,
    pub(crate) caller: &'a Caller,
    pub(crate) id: &'a str,
    pub(crate) action: Action,
    pub(crate) reason: Option<String>,
    /// Whether a node is used without a proof that it is clean; for `recover` only.
    pub(crate) unproven: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) did: &'static str,
    pub(crate) token: Option<String>,
}

impl Done {
    pub(crate) fn only(did: &'static str) -> Self {
        Self { did, token: None }
    }
}

impl Order<'_> {
    /// Starts a run, unless the node is already in the run's target state or on its way there. A caller that
    /// loses a race decides again, so that concurrent orders have one effect and all succeed.
    async fn start(&self, plan: Plan) -> Result<Done, Error> {
        attempts(async || self.try_start(&plan).await).await
    }

    /// Starts the run once; none if another request changed the node or began a run since it was read.
    async fn try_start(&self, plan: &Plan) -> Result<Option<Done>, Error> {
        let node = begin::read(self.app, self.id).await?;
        let state = document::state(&node)?;
        let owner = begin::open_run(self.app, &node).await?;
        let done = self.action.is_done(state);
        if done && owner.is_none() {
            return Ok(Some(Done::only("already_there")));
        }
        refuse_skips(self.app, &node, &plan.skip).await?;
        let Some(run) = owner else {
            return match begin(self.app, &self.entry(), self.id, plan).await {
                Ok(_) => Ok(Some(Done::only("run_created"))),
                Err(error) if self.is_overtaken(&node, &error).await? => Ok(None),
                Err(error) => Err(error),
            };
        };
        let same = run.record.plan.kind == plan.kind;
        if same && !plan.skip.is_empty() {
            return skip::also(self, &run, &plan.skip).await.map(Some);
        }
        // A failed run needs an operator's decision, unless the node is in the target state already.
        let on_its_way = same && (done || run.state.is_worked_on());
        if on_its_way { Ok(Some(Done::only("run_in_progress"))) } else { Err(begin::busy(&run)) }
    }

    /// Whether a refusal is due to a change since the node was read.
    async fn is_overtaken(&self, node: &Resource, error: &Error) -> Result<bool, Error> {
        if !matches!(error, Error::Conflict { .. }) {
            return Ok(false);
        }
        let now = begin::read(self.app, self.id).await?;
        Ok(now.version != node.version)
    }

    /// Moves the node itself.
    async fn shift(&self) -> Result<Done, Error> {
        let event = self.action.event().ok_or(Error::Internal)?;
        attempts(async || {
            let node = super::find(self.app, self.id).await?;
            let state = document::state(&node)?;
            if self.action.is_done(state) && !self.takes_over(&node)? {
                return Ok(Some(Done::only("already_there")));
            }
            if self.action.is_done(state) {
                let taken_over = self.commit(node, state, None, Vec::new()).await?;
                return Ok(taken_over.map(|_| Done::only("already_there")));
            }
            if TABLE.find(state, event).is_none() {
                return Err(refused(self.app, &node, self.action).await?);
            }
            let event = begin::origin(self.app, &node).await?.instead_of(event, state);
            let to = super::moved(state, event).ok_or(Error::Internal)?;
            let run = begin::newest_run(self.app, &node).await?;
            self.preconditions(&node, run.as_ref()).await?;
            let current = run.as_ref().map(|run| (run.record.plan.kind, run.state));
            if let (Err(_), Some(run)) = (mapping::check(to, current), &run) {
                return Err(begin::busy(run));
            }
            let holds = run.iter().map(|run| Held::at(&run.resource)).collect();
            // An action of a person is no beat.
            let heard = proof::heard(self.app, self.id).await?;
            let Some(node) = self.commit(node, to, Some(event), holds).await? else { return Ok(None) };
            super::watch_from(self.app, &node, heard)?;
            Ok(Some(Done::only("moved")))
        })
        .await
    }

    async fn preconditions(&self, node: &Resource, run: Option<&Run<Data>>) -> Result<(), Error> {
        let open = run.filter(|run| run.state.is_open());
        match self.action {
            Action::Recover => {
                if let Some(run) = open {
                    return Err(begin::busy(run));
                }
                let facts = facts::gather(self.app, node).await?;
                match core::proof::unproven(&facts) {
                    Some(run) if !self.unproven => Err(set_aside::not_clean(self.id, run)),
                    _ => core::proof::healthy(&facts)
                        .map_err(|detail| proof::missing(self.id, detail, Action::Retire)),
                }
            }
            Action::Reactivate => {
                if let Some(run) = open {
                    return Err(begin::busy(run));
                }
                let facts = facts::gather(self.app, node).await?;
                if !facts.identity_kept {
                    return Err(gone(self.id, &facts));
                }
                core::proof::still_there(&facts)
                    .map_err(|detail| proof::missing(self.id, detail, Action::Remove))
            }
            Action::Quarantine
            | Action::Retire
            | Action::StopDrain
            | Action::Remove
            | Action::RollbackRemove
            | Action::Resume => Ok(()),
        }
    }

    /// Whether a person quarantines a node that the reconciler has already quarantined: then only a person
    /// ends it.
    fn takes_over(&self, node: &Resource) -> Result<bool, Error> {
        let drift = Document::of(node)?.drift;
        Ok(self.action == Action::Quarantine && drift.is_some_and(|drift| drift.quarantined))
    }

    /// Commits the decision of a person; returns nothing if another writer was faster.
    async fn commit(
        &self,
        node: Resource,
        to: State,
        event: Option<Event>,
        holds: Vec<Held>,
    ) -> Result<Option<Resource>, Error> {
        let entry_type = if event.is_some() { TRANSITION } else { "changed" };
        let mut entry = by_person(self.app, self.caller, entry_type, self.reason.clone());
        entry.metadata = serde_json::json!({"event": event, "action": self.action});
        let mut document = Document { drift: None, ..Document::of(&node)? };
        if self.action == Action::Recover
            && let Some(run) = core::proof::unproven(&facts::gather(self.app, &node).await?)
        {
            entry.metadata["unproven"] = serde_json::json!(run.id);
            document.accepted = Some(run.id.clone());
        }
        let after = document.into_content_of(&node, to)?;
        let change = Change { before: Some(node), after, entry, effects: Vec::new(), fence: None, holds };
        let committed = unless_conflict(self.app.store.commit(change).await)?;
        Ok(committed.map(|committed| committed.resource))
    }

    /// Stops the work in progress: cancels its run; the node goes back in the commit that ends the run.
    async fn stop(&self) -> Result<Done, Error> {
        let node = super::find(self.app, self.id).await?;
        let state = document::state(&node)?;
        if self.action.is_done(state) {
            return Ok(Done::only("already_there"));
        }
        if !self.action.is_allowed(state) {
            return Err(refused(self.app, &node, self.action).await?);
        }
        match begin::open_run(self.app, &node).await? {
            Some(run) => {
                self.ask(run.id(), RunAction::Cancel).await?;
                Ok(Done::only("run_cancelling"))
            }
            None => self.shift().await,
        }
    }

    /// Returns a history entry for the caller; its user sets the type.
    pub(crate) fn entry(&self) -> Entry {
        by_person(self.app, self.caller, "changed", self.reason.clone())
    }

    /// Carries out an operator's action on a run.
    pub(crate) async fn ask(&self, run: &str, action: RunAction) -> Result<Answer, Error> {
        let actor = Actor {
            user: Some(self.caller.name().to_owned()),
            comment: self.reason.clone(),
            request_id: Some(self.caller.request_id.to_string()),
        };
        let ask = Ask { action, abandon: false, adoption: Adoption::Nothing, at: None, actor };
        let acted = wardroom_workflow::act::<Data>(&self.app.store, run, &ask, self.app.now()).await;
        let answer = acted.map_err(|refused| problem(run, refused))?;
        task::tidy_up(self.app, self.id).await;
        Ok(answer)
    }
}

/// Refuses to skip stages that the agent can run: stages are only skipped for a silent host, and nothing may
/// be erased while work runs on a live one.
pub(crate) async fn refuse_skips(
    app: &App,
    node: &Resource,
    skip: &BTreeMap<Stage, String>,
) -> Result<(), Error> {
    match skip.keys().next() {
        Some(stage) if silence::is_heard(app, node).await? => {
            let detail = format!(
                "the agent of the node sends heartbeats, or did until this server started, so it can run \
                 {stage}: skip it only when the agent is silent"
            );
            Err(not_allowed(app, node, detail).await?)
        }
        Some(_) | None => Ok(()),
    }
}

/// The word for a completed action on a run.
pub(crate) fn word(did: Did) -> &'static str {
    match did {
        Did::Moved(_) | Did::Headed(_) | Did::Requeued => "run_resumed",
        Did::Already(Already::InProgress) => "run_in_progress",
        Did::Already(Already::Queued) => "run_queued",
        Did::Already(
            Already::Clean | Already::Undoing | Already::Cancelled | Already::Reconciled | Already::Frozen,
        ) => "run_in_progress",
    }
}

/// Returns the refusal of an action on a node by its run, with the actions that the run allows.
pub(crate) fn problem(run: &str, problem: Problem) -> Error {
    let refused = crate::kinds::gpu_node::run::refused(run, problem);
    let Error::Conflict { code, detail, allowed } = refused else { return refused };
    let detail = detail.replacen("the run", &format!("the run {run}"), 1);
    Error::Conflict { code, detail, allowed }
}

async fn answer(app: &App, id: &str, done: Done) -> Result<axum::response::Response, Error> {
    let node = begin::read(app, id).await?;
    let owner = begin::open_run(app, &node).await?.map(|run| run.id().to_owned());
    let (did, shown) = (done.did.to_owned(), done.token.is_some());
    let result = ActionResult { node: super::view(app, &node).await?, did, owner, token: done.token };
    Ok(super::shown(Json(Envelope::new(result)), shown))
}

/// The state does not allow the action.
pub(crate) async fn refused(app: &App, node: &Resource, action: Action) -> Result<Error, Error> {
    let state = document::state(node)?;
    not_allowed(app, node, format!("the node is {state}, which does not allow {action}")).await
}

/// Returns the refusal of an action that the node does not allow, with the allowed ones.
pub(crate) async fn not_allowed(app: &App, node: &Resource, detail: String) -> Result<Error, Error> {
    let allowed = allowed_now(&node.content.id, &facts::gather(app, node).await?);
    Ok(Error::Conflict { code: "no_such_move", detail, allowed })
}

/// The actions that would be accepted now.
pub(crate) fn allowed_now(id: &str, facts: &Facts) -> Vec<Offered> {
    core::proof::possible(facts).map(|action| action.call().of(id)).collect()
}

/// An offered action with the reason why it is not possible now, if it is an action on the node itself and there is one.
pub(crate) fn judged(facts: &Facts, offered: Offered) -> Offered {
    let Some(action) = offered.action.parse().ok().filter(|_| offered.kind == KIND) else {
        return offered;
    };
    // An order with `skip` goes to the open run, and one with `unproven` needs no proof, so neither is judged
    // here.
    if offered.body.contains_key("skip") || offered.body.contains_key("unproven") {
        return offered;
    }
    offered.unless(core::proof::objection(facts, action))
}

fn gone(id: &str, facts: &Facts) -> Error {
    let call = if facts.can_be_reimaged() { REIMAGE } else { Action::Remove.call() };
    Error::Conflict {
        code: "identity_gone",
        detail: core::proof::identity_gone(facts),
        allowed: vec![call.of(id)],
    }
}

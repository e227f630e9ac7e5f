//! The actions of operators on a node. Pressed twice, or by two at once, each has one effect.

use std::collections::BTreeMap;

use axum::{Extension, Json, extract::State as Shared};
use wardroom_api::gpu_node::{ActionRequest, ActionResult};
use wardroom_core::{
    gpu_node::{
        Event, State, TABLE,
        action::{self, Action},
        mapping,
    },
    run::{
        action::{Action as RunAction, Already},
        plan::{Kind, Stage},
    },
};
use wardroom_store::{Change, Entry, Error as StoreError, Held, Resource, TRANSITION};
use wardroom_workflow::{Actor, Adoption, Answer, Ask, Did, Problem, Run};

use super::{
    begin::{self, Plan, begin},
    data::Data,
    document::{self, Document},
    proof, resume, set_aside, silence, skip, task,
};
use crate::{
    app::{App, by_person},
    auth::Caller,
    body::Body,
    error::Error,
    path::Path,
    problems::Problems,
    text,
};

/// Asks something of a node: `quarantine`, `recover`, `retire`, `stop-drain`, `reactivate`, `remove`,
/// `rollback-remove` or `resume`. A repeat succeeds without another effect.
#[utoipa::path(
    post, path = "/api/v1/gpu-nodes/{id}/actions/{action}", request_body = ActionRequest,
    params(("id" = String, Path), ("action" = String, Path)),
    responses((status = 200, body = ActionResult), Problems)
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
    text::check_prose("reason", request.reason.as_deref(), 2000)?;
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
        None => return Err(Error::invalid("skip", format!("{action} skips nothing"))),
    };
    if request.unproven && action != Action::Recover {
        return Err(Error::invalid("unproven", format!("{action} proves nothing: only recover takes it")));
    }
    if request.unproven && request.reason.as_deref().is_none_or(|reason| reason.trim().is_empty()) {
        return Err(Error::invalid("reason", "must say why a node is used that nobody has proven clean"));
    }
    let unproven = request.unproven;
    let order =
        Order { app: &app, caller: &caller, id: &id, action, reason: request.reason.clone(), unproven };
    let done = match action {
        Action::Retire | Action::Remove => {
            let kind = kind.ok_or(Error::Internal)?;
            let event = (kind == Kind::Retire).then_some(Event::Drain);
            order.start(Plan { event, skip, reason: request.reason, ..Plan::of(kind) }).await?
        }
        Action::Quarantine | Action::Recover | Action::Reactivate => order.shift().await?,
        Action::StopDrain | Action::RollbackRemove => order.stop().await?,
        Action::Resume => resume::resume(&order).await?,
    };
    answer(&app, &id, done).await
}

/// What an operator asks.
pub(crate) struct Order<'a> {
    pub(crate) app: &'a App,
    pub(crate) caller: &'a Caller,
    pub(crate) id: &'a str,
    pub(crate) action: Action,
    pub(crate) reason: Option<String>,
    /// Whether a node that nobody has proven clean is used all the same; for `recover` only.
    pub(crate) unproven: bool,
}

/// What came of it.
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
    /// Starts a run, unless the node is where the run leads, or on its way there.
    async fn start(&self, plan: Plan) -> Result<Done, Error> {
        let node = begin::read(self.app, self.id).await?;
        let state = document::state(&node)?;
        let owner = begin::open_run(self.app, &node).await?;
        let done = self.action.is_done(state);
        if done && owner.is_none() {
            return Ok(Done::only("already_there"));
        }
        refuse_skips(self.app, &node, &plan.skip).await?;
        if let Some(run) = owner.as_ref().filter(|run| run.record.kind == plan.kind && !plan.skip.is_empty())
        {
            return skip::also(self, run, &plan.skip).await;
        }
        if let Some(run) = owner.as_ref().filter(|_| done) {
            let same = run.record.kind == plan.kind;
            return if same { Ok(Done::only("run_in_progress")) } else { Err(begin::busy(run)) };
        }
        if let Some(run) = owner.filter(|run| run.record.kind == plan.kind) {
            // Accepted, and nothing done yet; or failed, which is for the operator to see to.
            let on_its_way = run.state.is_worked_on();
            return if on_its_way { Ok(Done::only("run_in_progress")) } else { Err(begin::busy(&run)) };
        }
        begin(self.app, &self.entry(), self.id, &plan).await?;
        Ok(Done::only("run_created"))
    }

    /// Moves the node itself.
    async fn shift(&self) -> Result<Done, Error> {
        let event = self.action.event().ok_or(Error::Internal)?;
        for _ in 0..DECISIONS {
            let node = super::find(self.app, self.id).await?;
            let state = document::state(&node)?;
            if self.action.is_done(state) && !self.takes_over(&node)? {
                return Ok(Done::only("already_there"));
            }
            if self.action.is_done(state) {
                match self.commit(node, state, None, Vec::new()).await? {
                    Some(_) => return Ok(Done::only("already_there")),
                    None => continue,
                }
            }
            if TABLE.find(state, event).is_none() {
                return Err(refused(self.app, &node, self.action).await?);
            }
            let event = begin::came(self.app, &node).await?.instead_of(event, state);
            let to = super::moved(state, event).ok_or(Error::Internal)?;
            let run = begin::newest_run(self.app, &node).await?;
            self.preconditions(&node, run.as_ref()).await?;
            let current = run.as_ref().map(|run| (run.record.kind, run.state));
            if let (Err(_), Some(run)) = (mapping::check(to, current), &run) {
                return Err(begin::busy(run));
            }
            let holds = run.iter().map(|run| Held::at(&run.resource)).collect();
            // Nobody is heard by what a person does.
            let heard = proof::heard(self.app, self.id).await?;
            if let Some(node) = self.commit(node, to, Some(event), holds).await? {
                super::watch_from(self.app, &node, heard)?;
                return Ok(Done::only("moved"));
            }
        }
        Err(Error::Unavailable("the node is changed by too many at once: repeat"))
    }

    async fn preconditions(&self, node: &Resource, run: Option<&Run<Data>>) -> Result<(), Error> {
        let open = run.filter(|run| run.state.is_open());
        match self.action {
            Action::Recover => {
                if let Some(run) = open {
                    return Err(begin::busy(run));
                }
                match set_aside::unproven(self.app, node).await? {
                    Some(run) if !self.unproven => Err(set_aside::refused(&run)),
                    _ => proof::healthy_again(self.app, node).await,
                }
            }
            Action::Reactivate => {
                if let Some(run) = open {
                    return Err(begin::busy(run));
                }
                if !Document::of(node)?.identity_kept {
                    return Err(gone(node)?);
                }
                proof::still_there(self.app, node).await
            }
            Action::Quarantine
            | Action::Retire
            | Action::StopDrain
            | Action::Remove
            | Action::RollbackRemove
            | Action::Resume => Ok(()),
        }
    }

    /// Whether a person quarantines what the reconciler has quarantined already: then it stays until a person says.
    fn takes_over(&self, node: &Resource) -> Result<bool, Error> {
        let drift = Document::of(node)?.drift;
        Ok(self.action == Action::Quarantine && drift.is_some_and(|drift| drift.quarantined))
    }

    /// Commits what a person decided; nothing when somebody was faster.
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
            && let Some(run) = set_aside::unproven(self.app, &node).await?
        {
            entry.metadata["unproven"] = serde_json::json!(run.id());
            document.accepted = Some(run.id().to_owned());
        }
        let after = document.into_content_of(&node, to)?;
        let change = Change { before: Some(node), after, entry, effects: Vec::new(), fence: None, holds };
        match self.app.store.commit(change).await {
            Ok(committed) => Ok(Some(committed.resource)),
            Err(StoreError::Conflict) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Stops the work in progress: its run is cancelled, and the node goes back in the commit that ends it.
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

    /// A history entry for whoever asks; its type is set by who uses it.
    pub(crate) fn entry(&self) -> Entry {
        by_person(self.app, self.caller, "changed", self.reason.clone())
    }

    /// Carries out an operator's action on a run.
    pub(crate) async fn ask(&self, run: &str, action: RunAction) -> Result<Answer, Error> {
        let actor = Actor {
            user: Some(self.caller.name().to_owned()),
            reason: self.reason.clone(),
            request: Some(self.caller.request_id.to_string()),
        };
        let ask = Ask { action, abandon: false, adoption: Adoption::Nothing, at: None, actor };
        let acted = wardroom_workflow::act::<Data>(&self.app.store, run, &ask, self.app.now()).await;
        let answer = acted.map_err(|refused| problem(run, refused))?;
        task::tidy_up(self.app, self.id).await;
        Ok(answer)
    }
}

/// A host that answers can be asked: only one that does not is given up as it is, and nothing is erased under what runs
/// on another, whatever its state and whether its run is under way.
pub(crate) async fn refuse_skips(
    app: &App,
    node: &Resource,
    skip: &BTreeMap<Stage, String>,
) -> Result<(), Error> {
    match skip.keys().next() {
        Some(stage) if silence::is_heard(app, node).await? => {
            let detail = format!(
                "the agent of the node is heard, or was when this server began to listen, so it can do {stage}: only a \
                 silent host's is skipped"
            );
            Err(not_allowed(app, node, detail).await?)
        }
        Some(_) | None => Ok(()),
    }
}

const DECISIONS: usize = 50;

/// What an operator's action on a run is called when it is done.
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

/// Why a run does not do what was asked for through its node; what it allows is asked of the run itself.
pub(crate) fn problem(run: &str, problem: Problem) -> Error {
    let refused = crate::run::refused(run, problem);
    let Error::Conflict { code, detail, allowed } = refused else { return refused };
    let detail = detail.replacen("the run", &format!("the run {run}"), 1);
    let call = |action: &String| format!("POST /api/v1/runs/{run}/actions/{action}");
    Error::Conflict { code, detail, allowed: allowed.iter().map(call).collect() }
}

async fn answer(app: &App, id: &str, done: Done) -> Result<axum::response::Response, Error> {
    let node = begin::read(app, id).await?;
    let owner = begin::open_run(app, &node).await?.map(|run| run.id().to_owned());
    let (did, shown) = (done.did.to_owned(), done.token.is_some());
    let result = ActionResult { node: super::view(app, &node)?, did, owner, token: done.token };
    Ok(super::shown(Json(result), shown))
}

/// The state does not allow the action.
pub(crate) async fn refused(app: &App, node: &Resource, action: Action) -> Result<Error, Error> {
    let state = document::state(node)?;
    not_allowed(app, node, format!("the node is {state}, which does not allow {action}")).await
}

/// The node does not allow what was asked for; says what it does.
pub(crate) async fn not_allowed(app: &App, node: &Resource, detail: String) -> Result<Error, Error> {
    let run = begin::newest_run(app, node).await?;
    let allowed = allowed_now(app, node, document::state(node)?, run.as_ref()).await?;
    Ok(Error::Conflict { code: "no_such_move", detail, allowed })
}

/// What would be accepted now, as words for the path.
pub(crate) async fn allowed_now(
    app: &App,
    node: &Resource,
    state: State,
    run: Option<&Run<Data>>,
) -> Result<Vec<String>, Error> {
    let mut now = Vec::new();
    for action in action::allowed_beside(state, run.map(|run| (run.record.kind, run.state))) {
        let proven = match action {
            Action::Recover => set_aside::proven(app, node).await,
            Action::Reactivate if !Document::of(node)?.identity_kept => continue,
            Action::Reactivate => proof::still_there(app, node).await,
            Action::Quarantine
            | Action::Retire
            | Action::StopDrain
            | Action::Remove
            | Action::RollbackRemove
            | Action::Resume => Ok(()),
        };
        match proven {
            Ok(()) => now.push(action.to_string()),
            Err(Error::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(now)
}

fn gone(node: &Resource) -> Result<Error, Error> {
    let id = &node.content.id;
    let (way, call) = if Document::of(node)?.can_be_reimaged() {
        ("reimage the machine, or register it anew", r#"decommissions {"mode":"reimage"}"#)
    } else {
        ("remove the node, and register it anew", "actions/remove")
    };
    Ok(Error::Conflict {
        code: "identity_gone",
        detail: format!(
            "the agent on the host was uninstalled, released or revoked, so there is no identity to take back into \
             use: {way}"
        ),
        allowed: vec![format!("POST /api/v1/gpu-nodes/{id}/{call}")],
    })
}

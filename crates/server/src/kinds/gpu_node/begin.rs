//! Starting a run on a node: the node and its owning run are committed together, or neither is.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use uuid::Uuid;
use wardroom_api::{gpu_node::Skip, site::Budget};
use wardroom_core::{
    Named as _,
    gpu_node::{
        Event, State, mapping,
        moves::{self, Origin},
        proof,
    },
    run::{
        self,
        action::Action as RunAction,
        plan::{Kind, Stage, When},
    },
};
use wardroom_store::{Change, Content, Entry, Error as StoreError, Resource, TRANSITION, attempts};
use wardroom_workflow::{Actor, Order, RUN, Run, SubjectRef};

use super::{
    data::Data,
    document::{self, Document, KIND},
    enroll::{self, Issue},
    facts, site,
};
use crate::{
    kinds::gpu_node::sites::SITES,
    platform::{
        app::App,
        deleted,
        http::{error::Error, text},
    },
};

/// What to start.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    /// The move of the node that goes with it.
    pub(crate) event: Option<Event>,
    pub(crate) site: Option<String>,
    pub(crate) force: bool,
    pub(crate) skip: BTreeMap<Stage, String>,
    pub(crate) reason: Option<String>,
    /// The state that the decision depends on, if any: in another state the run is not started.
    pub(crate) only_in: Option<State>,
    /// The node's state, or that before it was taken out of use; set when the run begins.
    pub(crate) origin: Origin,
    /// Stages of earlier runs that began to erase and were not proven; set when the run begins.
    pub(crate) unproven: BTreeSet<Stage>,
    /// The budgets of its site's stages; set when the run begins.
    pub(crate) budgets: BTreeMap<String, Budget>,
    /// The expiry of the token that is issued with a bootstrap by hand.
    pub(crate) token: Option<Timestamp>,
}

impl Plan {
    pub(crate) fn of(kind: Kind) -> Self {
        Self {
            kind,
            event: None,
            site: None,
            force: false,
            skip: BTreeMap::new(),
            reason: None,
            only_in: None,
            origin: Origin::FromUse,
            unproven: BTreeSet::new(),
            budgets: BTreeMap::new(),
            token: None,
        }
    }

    pub(crate) fn order(&self, id: &str, node: &str, document: &Document, entry: &Entry) -> Order<Data> {
        let with = self.kind.plan().iter().filter(|step| match step.when {
            When::OnRequest => self.force,
            // The site's policy is read when the stage is reached.
            When::ByPolicy => true,
            When::Always | When::OnFailure => false,
        });
        Order {
            id: id.to_owned(),
            kind: self.kind,
            subject: node.to_owned(),
            site: self.site.clone().or_else(|| document.site.clone()),
            with: with.map(|step| step.stage).collect::<BTreeSet<_>>(),
            skip: self.skip.clone(),
            origin: self.origin,
            unproven: self.unproven.clone(),
            requested_by: Actor {
                user: entry.user_id.clone(),
                comment: self.reason.clone(),
                request_id: entry.request_id.clone(),
            },
            data: Data { force: self.force, budgets: self.budgets.clone(), round: 1, ..Data::default() },
        }
    }
}

/// Starts a run for the actor of the entry. The returned node names the run.
pub(crate) async fn begin(app: &App, entry: &Entry, id: &str, plan: &Plan) -> Result<Resource, Error> {
    attempts(async || {
        let node = super::find(app, id).await?;
        let open = open_run(app, &node).await?;
        if let Some(run) = open {
            return Err(busy(&run));
        }
        let state = document::state(&node)?;
        if let Some(only) = plan.only_in.filter(|only| *only != state) {
            let detail = format!("the node was {only} a moment ago and is {state} now");
            return Err(super::action::not_allowed(app, &node, detail).await?);
        }
        let Some(to) = target(state, plan.kind, plan.event) else {
            return Err(not_now(app, &node, plan.kind).await?);
        };
        let origin = origin(app, &node).await?;
        let unproven = match origin {
            Origin::FromQuarantine => {
                let facts = facts::gather(app, &node).await?;
                proof::unproven(&facts).map(|run| run.unproven.clone())
            }
            Origin::FromUse => None,
        };
        let unproven = unproven.unwrap_or_default();
        let site = plan.site.clone().or(Document::of(&node)?.site);
        let budgets = site::budgets(app, site.as_deref()).await?;
        let plan = &Plan { origin, unproven, budgets, ..plan.clone() };
        let mut changes = changes(app, entry, node, to, plan)?;
        if let (Some(site), Some(node)) = (&plan.site, changes.first_mut()) {
            node.holds.push(SITES.held(app, "site", site).await?);
        }
        match app.commit_together(changes).await {
            Ok(committed) => {
                let node = committed.into_iter().next().ok_or(Error::Internal)?;
                tracing::info!(node = id, kind = %plan.kind, "a run was accepted");
                Ok(Some(node))
            }
            Err(StoreError::Conflict | StoreError::KeyTaken { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    })
    .await
}

/// The state of a node after a run is accepted with this move; none if its state does not allow the run.
pub(crate) fn target(state: State, kind: Kind, event: Option<Event>) -> Option<State> {
    let to = event.map_or(Some(state), |event| moves::target(state, event));
    to.filter(|to| mapping::check(*to, Some((kind, run::State::Pending))).is_ok())
}

/// The origin of a node. During a run, the run has it; without that run, the node must be checked by a person
/// before it is used.
pub(crate) async fn origin(app: &App, node: &Resource) -> Result<Origin, Error> {
    let newest = newest_run(app, node).await?.map_or(Origin::FromQuarantine, |run| run.record.origin());
    Ok(Origin::of(document::state(node)?, newest))
}

fn changes(app: &App, entry: &Entry, node: Resource, to: State, plan: &Plan) -> Result<Vec<Change>, Error> {
    let now = app.now();
    let run = Uuid::now_v7().to_string();
    let mut document = Document::of(&node)?;
    let order = plan.order(&run, &node.content.id, &document, entry);
    document.run = Some(run.clone());
    // The start of a run decides about the drift.
    document.drift = None;
    if let Some(expires_at) = plan.token {
        enroll::issue(&app.key, &mut document, &node.content.id, Issue { run, round: 1, expires_at });
    }
    if plan.kind.is_onboarding() {
        document.site.clone_from(&order.site);
    }
    let moves = document::state(&node)? != to;
    let entry = Entry {
        entry_type: (if moves { TRANSITION } else { "changed" }).to_owned(),
        comment: plan.reason.clone(),
        metadata: metadata(&order, plan),
        ..entry.clone()
    };
    let after = document.into_content_of(&node, to)?;
    let accepted = accepted(order, entry.clone(), now)?;
    let node =
        Change { before: Some(node), after, entry, effects: Vec::new(), fence: None, holds: Vec::new() };
    Ok(vec![node, accepted])
}

fn metadata(order: &Order<Data>, plan: &Plan) -> serde_json::Value {
    serde_json::json!({
        "run": order.id,
        "kind": order.kind,
        "event": plan.event,
        "force": plan.force,
        "skip": plan.skip,
    })
}

/// The change that accepts a run.
pub(crate) fn accepted(order: Order<Data>, entry: Entry, now: Timestamp) -> Result<Change, Error> {
    let after: Content = order.accepted(now)?;
    let entry = Entry { entry_type: "registered".to_owned(), ..entry };
    Ok(Change { before: None, after, entry, effects: Vec::new(), fence: None, holds: Vec::new() })
}

/// Returns the open run of a node, or else its last one.
pub(crate) async fn newest_run(app: &App, node: &Resource) -> Result<Option<Run<Data>>, Error> {
    if let Some(run) = open_run(app, node).await? {
        return Ok(Some(run));
    }
    let Some(run) = Document::of(node)?.run else { return Ok(None) };
    let found = app.store.get(RUN, &run).await?;
    Ok(found.map(Run::read).transpose()?)
}

/// Returns the open run of a node: the only one with the node's key.
pub(crate) async fn open_run(app: &App, node: &Resource) -> Result<Option<Run<Data>>, Error> {
    let subject = SubjectRef { kind: KIND.to_owned(), id: node.content.id.clone() };
    let found = app.store.get_by_key(RUN, &subject.key()).await?;
    Ok(found.map(Run::read).transpose()?)
}

/// Checks the stages that a request asks to skip.
pub(crate) fn skips(kind: Kind, asked: &[Skip]) -> Result<BTreeMap<Stage, String>, Error> {
    let mut skips = BTreeMap::new();
    for (index, skip) in asked.iter().enumerate() {
        let field = |name: &str| format!("skip[{index}].{name}");
        let can = |stage: &Stage| kind.can_skip(*stage);
        let stage = skip.stage.parse().ok().filter(can).ok_or_else(|| {
            let able = Stage::ALL.iter().filter(|stage| can(stage)).map(|stage| stage.as_str());
            let able = able.collect::<Vec<_>>().join(", ");
            Error::invalid(field("stage"), format!("must be one that {kind} can skip: {able}"))
        })?;
        text::check(&field("comment"), &skip.comment, 3..=2000)?;
        skips.insert(stage, skip.comment.clone());
    }
    Ok(skips)
}

/// The refusal because a run is open on the node.
pub(crate) fn busy(run: &Run<Data>) -> Error {
    let (kind, state, id) = (run.record.plan.kind, run.state, run.id());
    // A run that is being undone is cancelled already.
    let (way, call) = if state == run::State::Compensating {
        ("freeze it, then give it up without an undo", RunAction::MarkManualInterventionRequired)
    } else {
        ("cancel it first", RunAction::Cancel)
    };
    Error::Conflict {
        code: "run_open",
        detail: format!("the {kind} run {id} works on the node and is {state}: let it end, or {way}"),
        allowed: [run::READ, call.call(), RunAction::Resume.call()].map(|call| call.of(id)).to_vec(),
    }
}

/// The state of the node does not allow a run of this kind.
async fn not_now(app: &App, node: &Resource, kind: Kind) -> Result<Error, Error> {
    let state = document::state(node)?;
    let from: BTreeSet<_> = State::ALL
        .iter()
        .filter(|state| mapping::check(**state, Some((kind, run::State::Pending))).is_ok())
        .map(|state| state.as_str())
        .collect();
    let from = from.into_iter().collect::<Vec<_>>().join(", ");
    let detail = format!("the node is {state}; a {kind} starts from one of: {from}");
    super::action::not_allowed(app, node, detail).await
}

pub(crate) async fn read(app: &App, id: &str) -> Result<Resource, Error> {
    deleted::read(app, KIND, id).await
}

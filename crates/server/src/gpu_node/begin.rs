//! Starting a run on a node: the node and its owning run are committed together, or neither is.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use uuid::Uuid;
use wardroom_api::gpu_node::Skip;
use wardroom_core::{
    Named as _,
    gpu_node::{
        Event, State, mapping,
        moves::{self, Came},
    },
    run::{
        self,
        plan::{Kind, Stage, When},
    },
};
use wardroom_store::{Change, Content, Entry, Error as StoreError, Resource, TRANSITION};
use wardroom_workflow::{Order, RUN, Run};

use super::{
    data::Data,
    document::{self, Document, KIND},
    enroll::{self, Issue},
    set_aside,
};
use crate::{app::App, error::Error, site::SITES, text};

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
    /// The state that it was decided in, where it depends on that: in any other one, nothing is begun.
    pub(crate) only_in: Option<State>,
    /// Where the node comes from; decided when the run is begun.
    pub(crate) came: Came,
    /// What runs before it have left half erased on the node; decided likewise.
    pub(crate) unproven: BTreeSet<Stage>,
    /// Until when the token lives that is issued with the run, for one that waits for an agent by hand.
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
            came: Came::FromUse,
            unproven: BTreeSet::new(),
            token: None,
        }
    }

    /// The run as it is accepted.
    pub(crate) fn order(&self, id: &str, node: &str, document: &Document) -> Order<Data> {
        let with = self.kind.plan().iter().filter(|step| match step.when {
            When::OnRequest => self.force,
            // What the site's policy asks for is decided when the stage is reached, by the settings of then.
            When::ByPolicy => true,
            When::Always | When::OnFailure => false,
        });
        Order {
            id: id.to_owned(),
            kind: self.kind,
            node: node.to_owned(),
            site: self.site.clone().or_else(|| document.site.clone()),
            with: with.map(|step| step.stage).collect::<BTreeSet<_>>(),
            skip: self.skip.clone(),
            came: self.came,
            unproven: self.unproven.clone(),
            data: Data { force: self.force, round: 1, ..Data::default() },
        }
    }
}

/// How often a start is decided again when others change the node at the same moment.
pub(super) const DECISIONS: usize = 20;

/// Starts a run, for whoever the entry names. The node that comes back names the run.
pub(crate) async fn begin(app: &App, entry: &Entry, id: &str, plan: &Plan) -> Result<Resource, Error> {
    for _ in 0..DECISIONS {
        let node = super::find(app, id).await?;
        let open = open_run(app, &node).await?;
        if let Some(run) = open {
            return Err(busy(&run));
        }
        let state = document::state(&node)?;
        if let Some(only) = plan.only_in.filter(|only| *only != state) {
            let detail = format!("the node is {state} by now, and was {only} when it was looked at");
            return Err(super::action::not_allowed(app, &node, detail).await?);
        }
        let Some(to) = target(state, plan.kind, plan.event) else {
            return Err(not_now(app, &node, plan.kind).await?);
        };
        let came = came(app, &node).await?;
        let unproven = match came {
            Came::FromQuarantine => set_aside::unproven(app, &node).await?,
            Came::FromUse => None,
        };
        let unproven = unproven.map(|run| run.record.unproven).unwrap_or_default();
        let plan = &Plan { came, unproven, ..plan.clone() };
        let mut changes = changes(app, entry, node, to, plan)?;
        if let (Some(site), Some(node)) = (&plan.site, changes.first_mut()) {
            node.holds.push(SITES.held(app, "site", site).await?);
        }
        match app.commit_together(changes).await {
            Ok(committed) => {
                let node = committed.into_iter().next().ok_or(Error::Internal)?;
                tracing::info!(node = id, kind = %plan.kind, "a run was accepted");
                return Ok(node);
            }
            Err(StoreError::Conflict | StoreError::KeyTaken { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Unavailable("the node is changed by too many at once: repeat"))
}

/// Where a node is once a run is accepted with this move; nothing when its state does not allow such a run.
pub(crate) fn target(state: State, kind: Kind, event: Option<Event>) -> Option<State> {
    let to = event.map_or(Some(state), |event| moves::target(state, event));
    to.filter(|to| mapping::check(*to, Some((kind, run::State::Pending))).is_ok())
}

/// Where a node comes from. Of one in the middle of something, its newest run knows; when that is lost too, the node
/// is not used before a person has looked at it.
pub(crate) async fn came(app: &App, node: &Resource) -> Result<Came, Error> {
    let newest = newest_run(app, node).await?.map_or(Came::FromQuarantine, |run| run.record.came());
    Ok(Came::of(document::state(node)?, newest))
}

fn changes(app: &App, entry: &Entry, node: Resource, to: State, plan: &Plan) -> Result<Vec<Change>, Error> {
    let now = app.now();
    let run = Uuid::now_v7().to_string();
    let mut document = Document::of(&node)?;
    let order = plan.order(&run, &node.content.id, &document);
    document.run = Some(run.clone());
    // Whoever starts a run has decided what becomes of it.
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

/// The run that works on a node, or else the last one that did.
pub(crate) async fn newest_run(app: &App, node: &Resource) -> Result<Option<Run<Data>>, Error> {
    if let Some(run) = open_run(app, node).await? {
        return Ok(Some(run));
    }
    let Some(run) = Document::of(node)?.run else { return Ok(None) };
    let found = app.store.get(RUN, &run).await?;
    Ok(found.map(Run::read).transpose()?)
}

/// The run that works on a node: the one that holds the node's key, of which there is one at most.
pub(crate) async fn open_run(app: &App, node: &Resource) -> Result<Option<Run<Data>>, Error> {
    let found = app.store.get_by_key(RUN, &format!("node/{}", node.content.id)).await?;
    Ok(found.map(Run::read).transpose()?)
}

/// Stages to skip, as somebody asked for them.
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
        text::check(&field("reason"), &skip.reason, 3..=2000)?;
        skips.insert(stage, skip.reason.clone());
    }
    Ok(skips)
}

/// Some run works on the node already.
pub(crate) fn busy(run: &Run<Data>) -> Error {
    let (kind, state, id) = (run.record.kind, run.state, run.id());
    let act = |action: &str| format!("POST /api/v1/runs/{id}/actions/{action}");
    // What is being undone is cancelled already.
    let (way, call) = if state == run::State::Compensating {
        ("freeze it, then give it up without an undo", act("mark_manual_intervention_required"))
    } else {
        ("cancel it first", act("cancel"))
    };
    Error::Conflict {
        code: "run_open",
        detail: format!("the {kind} run {id} works on the node and is {state}: let it end, or {way}"),
        allowed: vec![format!("GET /api/v1/runs/{id}"), call, act("resume")],
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

/// Reads a node again.
pub(crate) async fn read(app: &App, id: &str) -> Result<Resource, Error> {
    app.store.get(KIND, id).await?.ok_or_else(|| Error::not_found(KIND, id))
}

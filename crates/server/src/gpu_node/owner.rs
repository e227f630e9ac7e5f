//! A node and the run that owns it: changing one only while the other is as it was read.

use std::collections::BTreeMap;

use uuid::Uuid;
use wardroom_core::{
    gpu_node::{Event, State, mapping, moves},
    run::plan::{Kind, Stage},
};
use wardroom_store::{Change, Content, Entry, Error as StoreError, Held, List, Resource, TRANSITION};
use wardroom_workflow::{NODE, Order, RUN, Run};

use super::document::{self, Document};
use crate::{
    app::{App, by_system},
    error::Error,
    run::data::Known,
};

/// How often a change is decided again when others change the node or its run at the same moment.
const DECISIONS: usize = 200;

/// What was decided about a node.
pub(crate) enum Decision {
    /// Commit this.
    Commit(Box<(Content, Entry)>),
    /// There is nothing to commit.
    Nothing,
}

/// Reads the node and its run, decides, and commits while both are as they were read.
pub(crate) async fn change(
    app: &App,
    id: &str,
    decide: impl Fn(&Resource, Option<&Run<Known>>) -> Result<Decision, Error>,
) -> Result<Resource, Error> {
    for _ in 0..DECISIONS {
        let node = super::find(app, id).await?;
        let run = run_of(app, &node).await?;
        let Decision::Commit(wanted) = decide(&node, run.as_ref())? else { return Ok(node) };
        let (after, entry) = *wanted;
        fits(&after, run.as_ref())?;
        let holds = run.iter().map(|run| Held::at(&run.resource)).collect();
        let change = Change { before: Some(node), after, entry, effects: Vec::new(), fence: None, holds };
        match app.store.commit(change).await {
            Ok(committed) => return Ok(committed.resource),
            Err(StoreError::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Unavailable("the node is changed by too many at once: repeat"))
}

/// Refuses a state that the node's run does not go together with.
fn fits(after: &Content, run: Option<&Run<Known>>) -> Result<(), Error> {
    let state: State = after.state.parse().map_err(|_| Error::Internal)?;
    let Some(run) = run else { return Ok(()) };
    mapping::check(state, Some((run.record.kind, run.state))).map(drop).map_err(|misfit| Error::Conflict {
        code: "run_open",
        detail: format!("{misfit}: cancel or finish run {} first", run.id()),
        allowed: vec![format!("POST /api/v1/runs/{}/actions/cancel", run.id())],
    })
}

/// The run that works on a node, or did so last.
pub(crate) async fn run_of(app: &App, node: &Resource) -> Result<Option<Run<Known>>, Error> {
    let Some(id) = Document::of(node)?.run else { return Ok(None) };
    let found = app.store.get(RUN, &id).await?;
    Ok(found.map(Run::read).transpose()?)
}

/// What a new run is for, and how.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    pub(crate) kind: Kind,
    /// Stages that are skipped, each with a reason.
    pub(crate) skip: BTreeMap<Stage, String>,
    /// The move that the node makes in the same commit.
    pub(crate) event: Option<Event>,
}

/// Starts a run on a node that no other run works on. A run of the same kind that is open already is what was asked
/// for: false comes back with it.
pub(crate) async fn start(
    app: &App,
    id: &str,
    start: &Start,
    entry: &Entry,
) -> Result<(Resource, Run<Known>, bool), Error> {
    for _ in 0..DECISIONS {
        let node = super::find(app, id).await?;
        if let Some(run) = run_of(app, &node).await?.filter(|run| run.state.is_open()) {
            if run.record.kind == start.kind {
                return Ok((node, run, false));
            }
            return Err(Error::Conflict {
                code: "run_open",
                detail: format!("a {} run is open on the node: {}", run.record.kind, run.id()),
                allowed: vec![format!("POST /api/v1/runs/{}/actions/cancel", run.id())],
            });
        }
        match commit(app, &node, start, entry).await {
            Ok((node, run)) => return Ok((node, run, true)),
            Err(Stopped::Again) => {}
            Err(Stopped::By(error)) => return Err(error),
        }
    }
    Err(Error::Unavailable("the node is changed by too many at once: repeat"))
}

enum Stopped {
    Again,
    By(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::By(error)
    }
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Self {
        if matches!(error, StoreError::Conflict | StoreError::KeyTaken { .. }) {
            Self::Again
        } else {
            Self::By(error.into())
        }
    }
}

async fn commit(
    app: &App,
    node: &Resource,
    start: &Start,
    entry: &Entry,
) -> Result<(Resource, Run<Known>), Stopped> {
    let from = document::state(node)?;
    let to = start.event.and_then(|event| moves::target(from, event)).unwrap_or(from);
    if mapping::check(to, Some((start.kind, wardroom_core::run::State::Pending))).is_err() {
        return Err(not_now(from, &format!("a {} run cannot start", start.kind)).into());
    }
    let order = Order {
        id: Uuid::now_v7().to_string(),
        kind: start.kind,
        node: node.content.id.clone(),
        site: None,
        with: std::collections::BTreeSet::new(),
        skip: start.skip.clone(),
        data: Known::default(),
    };
    let run = order.id.clone();
    let after = Document { run: Some(run), ..Document::of(node)? }.into_content_of(node, to)?;
    let node_type = if from == to { "changed" } else { TRANSITION };
    let changes = [(None, order.accepted(entry.at)?, "registered"), (Some(node.clone()), after, node_type)];
    let changes = changes.map(|(before, after, entry_type)| Change {
        before,
        after,
        entry: Entry { entry_type: entry_type.to_owned(), ..entry.clone() },
        effects: Vec::new(),
        fence: None,
        holds: Vec::new(),
    });
    let mut committed = app.store.commit_together(changes.into()).await?.into_iter();
    let (Some(run), Some(node)) = (committed.next(), committed.next()) else {
        return Err(Error::Internal.into());
    };
    Ok((node.resource, Run::read(run.resource)?))
}

/// The node's state does not allow it; says which moves it allows.
pub(crate) fn not_now(state: State, what: &str) -> Error {
    use wardroom_core::{gpu_node::TABLE, table::Event as _};
    let calls = TABLE.moves_from(state).filter_map(|row| row.on.call());
    let mut allowed: Vec<_> = calls.map(|call| call.request.to_owned()).collect();
    allowed.dedup();
    Error::Conflict { code: "no_such_move", detail: format!("the node is {state}: {what}"), allowed }
}

/// Gives a node in a state of work in progress a run again, when it has none. True when it lacked one.
pub(crate) async fn adopt_orphan(app: &App, id: &str, entry: &Entry) -> Result<bool, Error> {
    let node = super::find(app, id).await?;
    let state = document::state(&node)?;
    let run = run_of(app, &node).await?;
    if !state.needs_owner() || run.is_some_and(|run| run.state.is_open()) {
        return Ok(false);
    }
    let (kind, event) = match state {
        State::Draining => (Kind::Retire, None),
        // A removal starts from a node that is retired.
        State::Removing => (Kind::Remove, Some(Event::UninstallFailed)),
        State::Enrolling
        | State::BootstrapIssued
        | State::Active
        | State::Offline
        | State::Quarantined
        | State::Retired
        | State::Deleted => (Kind::Bootstrap, None),
    };
    start(app, id, &Start { kind, skip: BTreeMap::new(), event }, entry).await?;
    Ok(true)
}

/// Proves that every node in a state of work in progress has an open run, and repairs what has none.
pub(crate) async fn sweep(app: &App) -> Result<(), Error> {
    for state in [State::Enrolling, State::Draining, State::Removing] {
        let mut list =
            List { kind: NODE.to_owned(), state: Some(state.to_string()), limit: 500, ..List::default() };
        loop {
            let page = app.store.list(&list).await?;
            for node in &page.items {
                let entry =
                    by_system(app, "changed", serde_json::json!({"repaired": "no run owned the node"}));
                if adopt_orphan(app, &node.content.id, &entry).await? {
                    tracing::warn!(node = node.content.id, %state, "no run owned the node; it has one now");
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

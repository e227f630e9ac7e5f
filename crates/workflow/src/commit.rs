//! The one way in which a run and its node change.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use wardroom_core::gpu_node::{self, moves};
use wardroom_store::{Change, Content, Entry, Error, Fence, Held, Resource, Result, Store, TRANSITION};

use crate::{
    NODE, RUN,
    record::Run,
    stages::{Data, Lost},
    step::{Moment, Node, Step, Then},
    worker::Hand,
};

/// How often a commit is decided again when others change the node or the run at the same moment.
pub(crate) const DECISIONS: usize = 100;

impl<D: Data> Hand<'_, D> {
    /// Decides and commits; decides again when the node or the goal of the run changed meanwhile.
    ///
    /// Nothing comes back when the decision was that there is nothing to commit.
    pub(crate) async fn commit(
        &mut self,
        decide: impl Fn(&Run<D>, Node, &Moment<'_>) -> Option<Step<D>>,
    ) -> Result<Option<Then>, Lost> {
        for _ in 0..DECISIONS {
            let node = node_of(self.store, &self.run).await.map_err(|error| self.lost(&error))?;
            let state = node_state(node.as_ref()).map_err(|error| self.lost(&error))?;
            let Some(step) = decide(&self.run, state, &self.moment()) else { return Ok(None) };
            match self.write(node, state, &step).await {
                Ok(resource) => {
                    self.run = Run::read(resource).map_err(|error| self.lost(&error))?;
                    return Ok(Some(step.then));
                }
                Err(Error::Conflict) => self.look_again().await?,
                Err(error) => return Err(self.lost(&error)),
            }
        }
        Err(self.lost(&Error::Conflict))
    }

    async fn write(&self, node: Option<Resource>, state: Node, step: &Step<D>) -> Result<Resource> {
        if let (Then::KeepWaiting, Some(due)) = (step.then, step.due) {
            let mut resource = self.run.resource.clone();
            resource.content.due_at = Some(due);
            if self.store.put_off(&self.lease, &self.run.resource, due).await? {
                return Ok(resource);
            }
            // Whoever lost the lease has nothing to decide again.
            let lease = self.store.lease(&self.lease.name).await?;
            let ours = lease.is_some_and(|lease| lease.epoch == self.lease.epoch);
            let lease = self.lease.name.clone();
            return Err(if ours { Error::Conflict } else { Error::Fenced { lease } });
        }
        let entry = Entry {
            entry_type: step.entry_type.to_owned(),
            triggered_by: "workflow".to_owned(),
            user_id: None,
            comment: None,
            metadata: Value::Object(step.metadata.clone()),
            request_id: None,
            at: (self.clock)(),
        };
        let fence = Some(self.lease.fence());
        commit_step(self.store, &self.run, node, state, step, entry, fence).await
    }

    /// Somebody else changed the run or its node. An operator who moved the run has taken it away; one who gave it
    /// another goal has not.
    async fn look_again(&mut self) -> Result<(), Lost> {
        let found = self.store.get(RUN, self.run.id()).await.map_err(|error| self.lost(&error))?;
        let fresh = found.ok_or(Error::Conflict).and_then(Run::<D>::read);
        let fresh = fresh.map_err(|error| self.lost(&error))?;
        if fresh.record.turn != self.run.record.turn || fresh.state != self.run.state {
            return Err(self.lost(&Error::Conflict));
        }
        self.run = fresh;
        Ok(())
    }

    /// The run as it is now, if it is still where this worker has it, under its lease.
    pub(crate) async fn is_ours(&self) -> Result<Held, Lost> {
        let found = self.store.get(RUN, self.run.id()).await.map_err(|error| self.lost(&error))?;
        let fresh = found.ok_or(Error::Conflict).and_then(Run::<D>::read);
        let fresh = fresh.map_err(|error| self.lost(&error))?;
        let lease = self.store.lease(&self.lease.name).await.map_err(|error| self.lost(&error))?;
        let leased = lease.is_some_and(|lease| lease.epoch == self.lease.epoch && !lease.remaining.is_zero());
        if leased && fresh.record.turn == self.run.record.turn && fresh.state == self.run.state {
            return Ok(Held::at(&fresh.resource));
        }
        Err(self.lost(&Error::Conflict))
    }

    fn lost(&self, error: &Error) -> Lost {
        tracing::info!(run = self.run.id(), %error, "the run is left to whoever takes it next");
        Lost
    }
}

/// Commits a step of a run together with what it does to the node.
pub(crate) async fn commit_step<D: Data>(
    store: &Store,
    run: &Run<D>,
    node: Option<Resource>,
    state: Node,
    step: &Step<D>,
    mut entry: Entry,
    fence: Option<Fence>,
) -> Result<Resource> {
    let after = run.content(step.state, &step.record, step.due)?;
    let moves = step.state != run.state;
    if moves {
        entry.entry_type = TRANSITION.to_owned();
    }
    let (node_change, holds) = match (node, step.node) {
        (Some(node), Some(event)) => (Some(node_change(run, node, state, event, &entry)?), Vec::new()),
        // The pair is sound only with the node as it was read.
        (Some(node), None) if moves => (None, vec![Held::at(&node)]),
        (_, _) => (None, Vec::new()),
    };
    let before = Some(run.resource.clone());
    let change = Change { before, after, entry, effects: Vec::new(), fence, holds };
    let resource = match node_change {
        None => store.commit(change).await?.resource,
        Some(node) => {
            let committed = store.commit_together(vec![change, node]).await?.into_iter().next();
            committed.ok_or_else(|| Error::Bug("a commit without a result".to_owned()))?.resource
        }
    };
    tracing::info!(
        run = run.id(),
        node = run.record.node,
        from = %run.state,
        to = %step.state,
        stage = %step.record.current(),
        "changed"
    );
    Ok(resource)
}

fn node_change<D: Data>(
    run: &Run<D>,
    node: Resource,
    from: Node,
    event: gpu_node::Event,
    entry: &Entry,
) -> Result<Change> {
    let to = moves::target(from, event);
    let to = to.ok_or_else(|| Error::Bug(format!("{event} does not move a node that is {from}")))?;
    let after = Content {
        state: to.to_string(),
        // A removed node keeps its row and its history, and gives up its names.
        deleted: to == Node::Deleted,
        ..node.content.clone()
    };
    let metadata = json!({"event": event, "run": run.id(), "stage": run.record.current()});
    let entry = Entry { entry_type: TRANSITION.to_owned(), metadata, ..entry.clone() };
    Ok(Change { before: Some(node), after, entry, effects: Vec::new(), fence: None, holds: Vec::new() })
}

/// The node of a run.
pub(crate) async fn node_of<D: Data>(store: &Store, run: &Run<D>) -> Result<Option<Resource>> {
    store.get(NODE, &run.record.node).await
}

/// Where the node is; one that is not there at all is as good as deleted.
pub(crate) fn node_state(node: Option<&Resource>) -> Result<Node> {
    let Some(node) = node else { return Ok(Node::Deleted) };
    let state = node.content.state.parse();
    state.map_err(|error| Error::Bug(format!("the state of a node: {error}")))
}

/// The time, as whoever starts the engine reads it.
pub(crate) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

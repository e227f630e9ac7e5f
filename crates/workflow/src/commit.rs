//! The only way in which a run and its subject change.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use wardroom_core::run::action::Goal;
use wardroom_store::{
    ATTEMPTS, Change, Content, Entry, Error, Fence, Held, Resource, Result, Store, TRANSITION,
};

use crate::{
    RUN,
    record::{Record, Run},
    stages::{Data, Lost},
    step::{EventOf, Moment, StateOf, Step, SubjectOf, Then},
    subject::Subject,
    worker::RunHandle,
};

impl<D: Data> RunHandle<'_, D> {
    /// Decides and commits; decides again when the subject or the goal of the run changed meanwhile.
    ///
    /// Returns nothing when the decision was to commit nothing.
    pub(crate) async fn commit(
        &mut self,
        decide: impl Fn(&Run<D>, StateOf<D>, &Moment<'_>) -> Option<Step<D>>,
    ) -> Result<Option<Then>, Lost> {
        for _ in 0..ATTEMPTS {
            let subject = subject_of(self.store, &self.run).await.map_err(|error| self.lost(&error))?;
            let state = subject_state::<D>(subject.as_ref()).map_err(|error| self.lost(&error))?;
            let Some(step) = decide(&self.run, state, &self.moment()) else { return Ok(None) };
            match self.write(subject, state, &step).await {
                Ok(resource) => {
                    self.run = Run::read(resource).map_err(|error| self.lost(&error))?;
                    return Ok(Some(step.then));
                }
                Err(Error::Conflict) => self.reload().await?,
                Err(error) => return Err(self.lost(&error)),
            }
        }
        Err(self.lost(&Error::Conflict))
    }

    async fn write(&self, subject: Option<Resource>, state: StateOf<D>, step: &Step<D>) -> Result<Resource> {
        if let (Then::KeepWaiting, Some(due)) = (step.then, step.due) {
            let mut resource = self.run.resource.clone();
            resource.content.due_at = Some(due);
            if self.store.put_off(&self.lease, &self.run.resource, due).await? {
                return Ok(resource);
            }
            // A worker that lost the lease must not decide again.
            let lease = self.store.lease(&self.lease.name).await?;
            let ours = lease.is_some_and(|lease| lease.epoch == self.lease.epoch);
            let lease = self.lease.name.clone();
            return Err(if ours { Error::Conflict } else { Error::Fenced { lease } });
        }
        let mut entry = Entry {
            entry_type: step.entry_type.to_owned(),
            triggered_by: "workflow".to_owned(),
            user_id: None,
            comment: None,
            metadata: Value::Object(step.metadata.clone()),
            request_id: None,
            at: (self.clock)(),
        };
        if is_stopping(&self.run.record) && step.state != self.run.state {
            name_requester(&mut entry, &self.run.record);
        }
        let fence = Some(self.lease.fence());
        commit_step(self.store, &self.run, subject, state, step, entry, fence).await
    }

    /// Reads the run again after a conflict. If an operator moved the run, this worker has lost it; if only
    /// its goal changed, the worker continues.
    async fn reload(&mut self) -> Result<(), Lost> {
        let found = self.store.get(RUN, self.run.id()).await.map_err(|error| self.lost(&error))?;
        let fresh = found.ok_or(Error::Conflict).and_then(Run::<D>::read);
        let fresh = fresh.map_err(|error| self.lost(&error))?;
        if !self.has_same_generation(&fresh) {
            return Err(self.lost(&Error::Conflict));
        }
        self.run = fresh;
        Ok(())
    }

    /// Returns the run as it is now, if this worker still has it under its lease.
    pub(crate) async fn is_ours(&self) -> Result<Held, Lost> {
        let found = self.store.get(RUN, self.run.id()).await.map_err(|error| self.lost(&error))?;
        let fresh = found.ok_or(Error::Conflict).and_then(Run::<D>::read);
        let fresh = fresh.map_err(|error| self.lost(&error))?;
        let lease = self.store.lease(&self.lease.name).await.map_err(|error| self.lost(&error))?;
        let leased = lease.is_some_and(|lease| lease.epoch == self.lease.epoch && !lease.remaining.is_zero());
        if leased && self.has_same_generation(&fresh) {
            return Ok(Held::at(&fresh.resource));
        }
        Err(self.lost(&Error::Conflict))
    }

    fn has_same_generation(&self, fresh: &Run<D>) -> bool {
        fresh.record.hold.generation == self.run.record.hold.generation && fresh.state == self.run.state
    }

    fn lost(&self, error: &Error) -> Lost {
        tracing::info!(run = self.run.id(), %error, "run not written; the next worker that claims it continues");
        Lost
    }
}

/// Commits a step of a run together with the move of its subject.
pub(crate) async fn commit_step<D: Data>(
    store: &Store,
    run: &Run<D>,
    subject: Option<Resource>,
    state: StateOf<D>,
    step: &Step<D>,
    mut entry: Entry,
    fence: Option<Fence>,
) -> Result<Resource> {
    let after = run.content(step.state, &step.record, step.due)?;
    let moves = step.state != run.state;
    if moves {
        entry.entry_type = TRANSITION.to_owned();
    }
    let (move_of_subject, holds) = match (subject, step.event) {
        (Some(subject), Some(event)) => {
            (Some(move_of_subject(run, subject, state, event, &entry)?), Vec::new())
        }
        // The pair of states is sound only with the subject at the version that was read.
        (Some(subject), None) if moves => (None, vec![Held::at(&subject)]),
        (_, _) => (None, Vec::new()),
    };
    let before = Some(run.resource.clone());
    let change = Change { before, after, entry, effects: Vec::new(), fence, holds };
    let resource = match move_of_subject {
        None => store.commit(change).await?.resource,
        Some(subject) => {
            let committed = store.commit_together(vec![change, subject]).await?.into_iter().next();
            committed.ok_or_else(|| Error::Bug("a commit without a result".to_owned()))?.resource
        }
    };
    tracing::info!(
        run = run.id(),
        kind = run.record.plan.subject.kind,
        id = run.record.plan.subject.id,
        from = %run.state,
        to = %step.state,
        stage = %step.record.current(),
        "run changed"
    );
    Ok(resource)
}

fn move_of_subject<D: Data>(
    run: &Run<D>,
    subject: Resource,
    from: StateOf<D>,
    event: EventOf<D>,
    entry: &Entry,
) -> Result<Change> {
    let kind = SubjectOf::<D>::KIND;
    let to = SubjectOf::<D>::target(from, event);
    let to = to.ok_or_else(|| Error::Bug(format!("{event} does not move a {kind} that is {from}")))?;
    let after = Content {
        state: to.to_string(),
        // A removed subject keeps its row and its history, and gives up its names.
        deleted: to == SubjectOf::<D>::REMOVED,
        ..subject.content.clone()
    };
    let metadata = json!({"event": event, "run": run.id(), "stage": run.record.current()});
    let mut entry = Entry { entry_type: TRANSITION.to_owned(), metadata, ..entry.clone() };
    if is_stopping(&run.record) || SubjectOf::<D>::is_requested(event) {
        name_requester(&mut entry, &run.record);
    }
    Ok(Change { before: Some(subject), after, entry, effects: Vec::new(), fence: None, holds: Vec::new() })
}

fn is_stopping<D: Data>(record: &Record<D>) -> bool {
    record.plan.goal != Goal::Run
}

/// Names the person whose request a move carries out, unless the entry names a person already.
fn name_requester<D: Data>(entry: &mut Entry, record: &Record<D>) {
    let requester = &record.plan.requested_by;
    if entry.user_id.is_none() && requester.user.is_some() {
        "admin".clone_into(&mut entry.triggered_by);
        entry.user_id.clone_from(&requester.user);
        entry.comment.clone_from(&requester.comment);
        entry.request_id.clone_from(&requester.request_id);
    }
}

pub(crate) async fn subject_of<D: Data>(store: &Store, run: &Run<D>) -> Result<Option<Resource>> {
    store.get(SubjectOf::<D>::KIND, run.subject()).await
}

/// The state of the subject; a subject without a row counts as removed.
pub(crate) fn subject_state<D: Data>(subject: Option<&Resource>) -> Result<StateOf<D>> {
    let Some(subject) = subject else { return Ok(SubjectOf::<D>::REMOVED) };
    let state = subject.content.state.parse::<StateOf<D>>();
    state
        .map_err(|error| Error::Bug(format!("the state of the {} is unknown: {error}", SubjectOf::<D>::KIND)))
}

/// Reads the time.
pub(crate) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

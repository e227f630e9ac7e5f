//! The beginning of an attempt: the commit before a stage is executed.

use jiff::Timestamp;
use serde_json::{Map, json};
use wardroom_core::run::{Event, State, action::Goal, failure::Class};

use crate::{
    record::{Execution, Run},
    stages::Data,
    step::{
        INTENT, LOST, Moment, Retries, StateOf, Step, SubjectOf, Then, add_failure, attempt_metadata, moved,
        stop,
    },
    subject::Subject as _,
    undo,
};

/// Returns the change that a worker commits before it executes the stage; nothing when the intent is recorded
/// already.
pub(crate) fn begin<D: Data>(run: &Run<D>, subject: StateOf<D>, moment: &Moment<'_>) -> Option<Step<D>> {
    let record = &run.record;
    match run.state {
        State::FailedManualIntervention if record.hold.quarantine_pending => {
            Some(bring_to_quarantine(run, subject, moment))
        }
        State::Completed
        | State::Cancelled
        | State::Reconciled
        | State::FailedRetryable
        | State::FailedManualIntervention => Some(rest(run)),
        State::Running if record.plan.goal != Goal::Run => {
            Some(stop(record.clone(), subject, moment.now, Map::new()))
        }
        State::Compensating if record.progress.undo_stack.is_empty() => {
            Some(undo::finish(record.clone(), subject, moment.now, Map::new()))
        }
        State::Pending | State::Running | State::Compensating => start(run, subject, moment),
    }
}

fn start<D: Data>(run: &Run<D>, subject: StateOf<D>, moment: &Moment<'_>) -> Option<Step<D>> {
    let mut record = run.record.clone();
    let entry = if record.progress.undoing { None } else { record.enter(subject) };
    record.excuse(run.resource.content.due_at, moment.now);
    let execution = record.hold.execution.as_ref();
    let ours = execution.is_some_and(|execution| execution.epoch == moment.lease.epoch);
    if run.state != State::Pending
        && entry.is_none()
        && (ours || (execution.is_none() && record.hold.waiting.is_some()))
    {
        return None;
    }
    let lost = execution.is_some() && !ours;
    let mut metadata = Map::new();
    if lost {
        metadata = attempt_metadata(&record, "lost", moment.now);
        let retries = record.count(Class::Crashed, LOST, moment.now);
        add_failure(&mut metadata, &record);
        if retries == Retries::Spent {
            let event = if record.progress.undoing { Event::FailUndo } else { Event::NeedOperator };
            let state = moved(run.state, event);
            let (kind, cause) = (record.plan.kind, record.cause());
            let event = SubjectOf::<D>::on_stop(kind, state, subject, record.origin(), cause);
            let then = Then::Rest;
            return Some(Step { state, record, due: None, event, entry_type: INTENT, metadata, then });
        }
    }
    let state = if run.state == State::Pending { moved(run.state, Event::Claim) } else { run.state };
    record.progress.attempt = record.progress.attempt.saturating_add(1);
    record.hold.waiting = None;
    record.hold.execution =
        Some(Execution { holder: moment.lease.holder.clone(), epoch: moment.lease.epoch, since: moment.now });
    if !record.progress.undoing {
        record.push_undo();
    }
    metadata
        .insert("begins".to_owned(), json!({"stage": record.current(), "attempt": record.progress.attempt}));
    // Due during the execution: once the lease expires, the next worker may take the run at once.
    let due = Some(moment.now);
    Some(Step { state, record, due, event: entry, entry_type: INTENT, metadata, then: Then::Work })
}

/// Brings the subject of a failed run the last step to quarantine.
fn bring_to_quarantine<D: Data>(run: &Run<D>, subject: StateOf<D>, moment: &Moment<'_>) -> Step<D> {
    let mut record = run.record.clone();
    let event = SubjectOf::<D>::towards_quarantine(subject, record.origin());
    let next = event.and_then(|event| SubjectOf::<D>::target(subject, event));
    record.hold.quarantine_pending =
        next.is_some_and(|next| SubjectOf::<D>::towards_quarantine(next, record.origin()).is_some());
    let (due, then) =
        if record.hold.quarantine_pending { (Some(moment.now), Then::Look) } else { (None, Then::Rest) };
    Step { state: run.state, record, due, event, entry_type: INTENT, metadata: Map::new(), then }
}

/// Records that a due run found no free slot at its site.
pub(crate) fn waits_for_slot<D: Data>(run: &Run<D>, until: Timestamp) -> Option<Step<D>> {
    let mut record = run.record.clone();
    if !record.waits_for_slot(run.resource.content.due_at) {
        return None;
    }
    let metadata = Map::from_iter([("put_off".to_owned(), json!("its site has no free slot"))]);
    let (state, due, then) = (run.state, Some(until), Then::Rest);
    Some(Step { state, record, due, event: None, entry_type: INTENT, metadata, then })
}

/// There is nothing to do.
fn rest<D: Data>(run: &Run<D>) -> Step<D> {
    let record = run.record.clone();
    let (metadata, then) = (Map::new(), Then::Rest);
    Step { state: run.state, record, due: None, event: None, entry_type: INTENT, metadata, then }
}

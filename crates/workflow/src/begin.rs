//! The beginning of an attempt: what is committed before a stage is executed.

use jiff::Timestamp;
use serde_json::{Map, json};
use wardroom_core::{
    gpu_node::moves,
    run::{Event, State, action::Goal, failure::Class},
};

use crate::{
    record::{AtWork, Run},
    stages::Data,
    step::{Borne, INTENT, LOST, Moment, Node, Step, Then, blame, moved, stop, told},
    undo,
};

/// What a worker that has just claimed a run, or looks at it again, commits first. Nothing when the stage can be
/// executed at once, because the intent is recorded and another look is all it takes.
pub(crate) fn begin<D: Data>(run: &Run<D>, node: Node, moment: &Moment<'_>) -> Option<Step<D>> {
    let record = &run.record;
    match run.state {
        State::FailedManualIntervention if record.set_aside => Some(set_aside(run, node, moment)),
        State::Completed
        | State::Cancelled
        | State::Reconciled
        | State::FailedRetryable
        | State::FailedManualIntervention => Some(rest(run)),
        State::Running if record.goal != Goal::Run => {
            Some(stop(record.clone(), node, moment.now, Map::new()))
        }
        State::Compensating if record.touched.is_empty() => {
            Some(undo::finish(record.clone(), node, moment.now, Map::new()))
        }
        State::Pending | State::Running | State::Compensating => start(run, node, moment),
    }
}

fn start<D: Data>(run: &Run<D>, node: Node, moment: &Moment<'_>) -> Option<Step<D>> {
    let mut record = run.record.clone();
    let entry = if record.undoing { None } else { record.enter(node) };
    record.excuse(run.resource.content.due_at, moment.now);
    let at_work = record.at_work.as_ref();
    let ours = at_work.is_some_and(|at_work| at_work.epoch == moment.lease.epoch);
    // A run of an older version learns what it is at.
    let learns = record.unproven != run.record.unproven;
    if run.state != State::Pending
        && entry.is_none()
        && !learns
        && (ours || (at_work.is_none() && record.waiting.is_some()))
    {
        return None;
    }
    let lost = at_work.is_some() && !ours;
    let mut metadata = Map::new();
    if lost {
        // Whoever began it did not come back.
        metadata = told(&record, "lost", moment.now);
        let borne = record.count(Class::Crashed, LOST, moment.now);
        blame(&mut metadata, &record);
        if borne == Borne::Spent {
            let event = if record.undoing { Event::FailUndo } else { Event::NeedOperator };
            let state = moved(run.state, event);
            let node = moves::on_stop(record.kind, state, node, record.came());
            let then = Then::Rest;
            return Some(Step { state, record, due: None, node, entry_type: INTENT, metadata, then });
        }
    }
    let state = if run.state == State::Pending { moved(run.state, Event::Claim) } else { run.state };
    record.attempt = record.attempt.saturating_add(1);
    record.waiting = None;
    record.at_work =
        Some(AtWork { holder: moment.lease.holder.clone(), epoch: moment.lease.epoch, since: moment.now });
    if !record.undoing {
        record.touch();
    }
    metadata.insert("begins".to_owned(), json!({"stage": record.current(), "attempt": record.attempt}));
    // Due while it is executed: whoever finds the lease expired may take it at once.
    let due = Some(moment.now);
    Some(Step { state, record, due, node: entry, entry_type: INTENT, metadata, then: Then::Work })
}

/// Brings the node of a run that failed the last step to where nobody uses it.
fn set_aside<D: Data>(run: &Run<D>, node: Node, moment: &Moment<'_>) -> Step<D> {
    let mut record = run.record.clone();
    let event = moves::towards_quarantine(node, record.came());
    let next = event.and_then(|event| moves::target(node, event));
    record.set_aside = next.is_some_and(|next| moves::towards_quarantine(next, record.came()).is_some());
    let (due, then) = if record.set_aside { (Some(moment.now), Then::Look) } else { (None, Then::Rest) };
    Step { state: run.state, record, due, node: event, entry_type: INTENT, metadata: Map::new(), then }
}

/// What is kept of a run that is due and finds no place at its site.
pub(crate) fn unasked<D: Data>(run: &Run<D>, until: Timestamp) -> Option<Step<D>> {
    let mut record = run.record.clone();
    if !record.unasked(run.resource.content.due_at) {
        return None;
    }
    let metadata = Map::from_iter([("put_off".to_owned(), json!("there is no place at its site"))]);
    let (state, due, then) = (run.state, Some(until), Then::Rest);
    Some(Step { state, record, due, node: None, entry_type: INTENT, metadata, then })
}

/// There is nothing to do.
fn rest<D: Data>(run: &Run<D>) -> Step<D> {
    let record = run.record.clone();
    let (metadata, then) = (Map::new(), Then::Rest);
    Step { state: run.state, record, due: None, node: None, entry_type: INTENT, metadata, then }
}

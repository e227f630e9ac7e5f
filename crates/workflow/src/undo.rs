//! Undoing what a run did, the last thing first.

use jiff::Timestamp;
use serde_json::{Map, Value};
use wardroom_core::{
    gpu_node::moves,
    run::{Event, State, action::Goal, failure::Class},
};

use crate::{
    conclude::{overdue, waiting, weary},
    record::{AtWork, Record, Run, Waiting},
    stages::{Data, Outcome},
    step::{ATTEMPT, Borne, Moment, Node, Step, Then, blame, moved, told},
};

/// What the outcome of an undo makes of a run and its node.
pub(crate) fn conclude<D: Data>(
    run: &Run<D>,
    node: Node,
    outcome: Outcome<D>,
    moment: &Moment<'_>,
) -> Step<D> {
    let mut record = run.record.clone();
    match outcome {
        Outcome::Done(data) => {
            record.data = data;
            undone(record, node, moment)
        }
        Outcome::Wait { reason, until } => match overdue(&record, &reason, moment) {
            Some(evidence) => fail(record, node, Class::Overdue, &evidence, moment),
            None => waiting(&mut record, run.state, Waiting::on(&reason, moment.now), until, moment),
        },
        Outcome::Queue { reason, until } => {
            waiting(&mut record, run.state, Waiting::in_line(&reason, moment.now), until, moment)
        }
        Outcome::Busy { reason, until } => match weary(run, &mut record, &reason, moment) {
            Some(evidence) => fail(record, node, Class::Unanswered, &evidence, moment),
            None => waiting(&mut record, run.state, Waiting::busy(&reason, moment.now), until, moment),
        },
        Outcome::Retry { class, evidence, after } => {
            fail(record, node, class, &evidence, &Moment { after, ..*moment })
        }
        Outcome::Broken { evidence: reason, .. }
        | Outcome::NeedsOperator { reason }
        | Outcome::Unsafe { reason } => fail(record, node, Class::Manual, &reason, moment),
    }
}

fn undone<D: Data>(mut record: Record<D>, node: Node, moment: &Moment<'_>) -> Step<D> {
    let metadata = told(&record, "undone", moment.now);
    record.touched.pop();
    record.arrive(moment.now);
    if record.touched.is_empty() {
        return finish(record, node, moment.now, metadata);
    }
    record.attempt = 1;
    record.at_work =
        Some(AtWork { holder: moment.lease.holder.clone(), epoch: moment.lease.epoch, since: moment.now });
    let due = Some(moment.now);
    let state = State::Compensating;
    Step { state, record, due, node: None, entry_type: ATTEMPT, metadata, then: Then::Work }
}

/// Nothing is left to undo.
pub(crate) fn finish<D: Data>(
    mut record: Record<D>,
    node: Node,
    now: Timestamp,
    metadata: Map<String, Value>,
) -> Step<D> {
    let event = match record.goal {
        Goal::Restart => Event::StartAgain,
        Goal::Cancel | Goal::Run => Event::FinishUndo,
    };
    let state = moved(State::Compensating, event);
    if state == State::Pending {
        record.start_again(now);
    } else {
        record.undoing = false;
        record.arrive(now);
    }
    let node = moves::on_stop(record.kind, state, node, record.came());
    let then = if state.is_worked_on() { Then::Look } else { Then::Rest };
    Step { state, record, due: Some(now), node, entry_type: ATTEMPT, metadata, then }
}

fn fail<D: Data>(
    mut record: Record<D>,
    node: Node,
    class: Class,
    evidence: &str,
    moment: &Moment<'_>,
) -> Step<D> {
    let mut metadata = told(&record, "failed", moment.now);
    let borne = record.count(class, evidence, moment.now);
    blame(&mut metadata, &record);
    let (state, due) = match borne {
        Borne::Again(failures) => (State::Compensating, Some(moment.retry_at(failures))),
        Borne::Spent => (moved(State::Compensating, Event::FailUndo), None),
    };
    let node = moves::on_stop(record.kind, state, node, record.came());
    Step { state, record, due, node, entry_type: ATTEMPT, metadata, then: Then::Rest }
}

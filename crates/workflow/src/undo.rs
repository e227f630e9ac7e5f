//! Undoing the work of a run, the last stage first.

use jiff::Timestamp;
use serde_json::{Map, Value};
use wardroom_core::run::{Event, State, action::Goal, failure::Class};

use crate::{
    conclude::{out_of_patience, overdue, waiting},
    record::{Execution, Record, Run, Waiting},
    stages::{Data, Outcome},
    step::{ATTEMPT, Moment, Retries, StateOf, Step, SubjectOf, Then, add_failure, attempt_metadata, moved},
    subject::Subject as _,
};

/// Turns the outcome of an undo into a change of the run and its subject.
pub(crate) fn conclude<D: Data>(
    run: &Run<D>,
    subject: StateOf<D>,
    outcome: Outcome<D>,
    moment: &Moment<'_>,
) -> Step<D> {
    let mut record = run.record.clone();
    match outcome {
        Outcome::Done(data) => {
            record.data = data;
            undone(record, subject, moment)
        }
        Outcome::Wait { reason, until } => match overdue(&record, &reason, moment) {
            Some(evidence) => fail(record, subject, Class::Overdue, &evidence, moment),
            None => waiting(&mut record, run.state, Waiting::on(&reason, moment.now), until, moment),
        },
        Outcome::Queue { reason, until } => {
            waiting(&mut record, run.state, Waiting::in_line(&reason, moment.now), until, moment)
        }
        Outcome::Busy { reason, until } => match out_of_patience(run, &mut record, &reason, moment) {
            Some(evidence) => fail(record, subject, Class::Unanswered, &evidence, moment),
            None => waiting(&mut record, run.state, Waiting::busy(&reason, moment.now), until, moment),
        },
        Outcome::Retry { class, evidence, after } => {
            fail(record, subject, class, &evidence, &Moment { after, ..*moment })
        }
        Outcome::Broken { evidence: reason, .. }
        | Outcome::NeedsOperator { reason }
        | Outcome::Unsafe { reason } => fail(record, subject, Class::Manual, &reason, moment),
    }
}

fn undone<D: Data>(mut record: Record<D>, subject: StateOf<D>, moment: &Moment<'_>) -> Step<D> {
    let metadata = attempt_metadata(&record, "undone", moment.now);
    record.progress.undo_stack.pop();
    record.arrive(moment.now);
    if record.progress.undo_stack.is_empty() {
        return finish(record, subject, moment.now, metadata);
    }
    record.progress.attempt = 1;
    record.hold.execution =
        Some(Execution { holder: moment.lease.holder.clone(), epoch: moment.lease.epoch, since: moment.now });
    let due = Some(moment.now);
    let state = State::Compensating;
    Step { state, record, due, event: None, entry_type: ATTEMPT, metadata, then: Then::Work }
}

/// Ends the undo.
pub(crate) fn finish<D: Data>(
    mut record: Record<D>,
    subject: StateOf<D>,
    now: Timestamp,
    metadata: Map<String, Value>,
) -> Step<D> {
    let cause = record.cause();
    let event = match record.plan.goal {
        Goal::Restart => Event::StartAgain,
        Goal::Cancel | Goal::Run => Event::FinishUndo,
    };
    let state = moved(State::Compensating, event);
    if state == State::Pending {
        record.start_again(now);
    } else {
        record.progress.undoing = false;
        record.arrive(now);
    }
    let event = SubjectOf::<D>::on_stop(record.plan.kind, state, subject, record.origin(), cause);
    let then = if state.is_worked_on() { Then::Look } else { Then::Rest };
    Step { state, record, due: Some(now), event, entry_type: ATTEMPT, metadata, then }
}

fn fail<D: Data>(
    mut record: Record<D>,
    subject: StateOf<D>,
    class: Class,
    evidence: &str,
    moment: &Moment<'_>,
) -> Step<D> {
    let mut metadata = attempt_metadata(&record, "failed", moment.now);
    let retries = record.count(class, evidence, moment.now);
    add_failure(&mut metadata, &record);
    let (state, due) = match retries {
        Retries::Left(failures) => (State::Compensating, Some(moment.retry_at(failures))),
        Retries::Spent => (moved(State::Compensating, Event::FailUndo), None),
    };
    let event = SubjectOf::<D>::on_stop(record.plan.kind, state, subject, record.origin(), record.cause());
    Step { state, record, due, event, entry_type: ATTEMPT, metadata, then: Then::Rest }
}

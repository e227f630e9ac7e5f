//! The end of an attempt: how its outcome moves the run.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use wardroom_core::{
    run::{
        Event, State,
        action::Goal,
        course::Next,
        failure::Class,
        plan::{Stage, When},
    },
    why::length,
};

use crate::{
    record::{Execution, Record, Run, Waiting},
    stages::{Data, Outcome},
    step::{
        ATTEMPT, Moment, Retries, StateOf, Step, SubjectOf, Then, add_failure, attempt_metadata, bounded,
        moved, stop,
    },
    subject::Subject as _,
    undo,
};

/// Turns the outcome of an attempt into a change of the run and its subject.
pub(crate) fn conclude<D: Data>(
    run: &Run<D>,
    subject: StateOf<D>,
    outcome: Outcome<D>,
    moment: &Moment<'_>,
) -> Step<D> {
    if run.state == State::Compensating {
        return undo::conclude(run, subject, outcome, moment);
    }
    let mut record = run.record.clone();
    match outcome {
        Outcome::Done(data) => {
            record.data = data;
            done(record, subject, moment)
        }
        Outcome::Wait { reason, until } => wait(run, subject, &reason, until, moment),
        Outcome::Queue { reason, until } => queue(record, subject, &reason, until, moment),
        Outcome::Busy { reason, until } => busy(run, subject, &reason, until, moment),
        Outcome::Retry { class, evidence, after } => {
            fail(record, subject, class, &evidence, &Moment { after, ..*moment })
        }
        Outcome::Broken { data, evidence } => {
            record.data = data;
            broken(record, subject, &evidence, moment)
        }
        Outcome::NeedsOperator { reason } => fail(record, subject, Class::Manual, &reason, moment),
        Outcome::Unsafe { reason } => quarantine(record, subject, &reason, moment),
    }
}

fn done<D: Data>(mut record: Record<D>, subject: StateOf<D>, moment: &Moment<'_>) -> Step<D> {
    let skipped = record.plan.skip.get(&record.progress.stage).cloned();
    if record.progress.stage == Stage::ValidateCleanNode && skipped.is_none() {
        record.prove();
    }
    let left_out =
        record.data.left_out(record.plan.kind, record.progress.stage).filter(|_| skipped.is_none());
    let (outcome, reason) = match (skipped, left_out) {
        (Some(reason), _) => ("skipped", Some(reason)),
        (None, Some(reason)) => ("left_out", Some(reason)),
        (None, None) => ("done", None),
    };
    let mut metadata = attempt_metadata(&record, outcome, moment.now);
    let evidence = record.data.evidence(record.progress.stage).filter(|_| reason.is_none());
    metadata.extend(evidence.map(|evidence| ("evidence".to_owned(), json!(bounded(&evidence)))));
    metadata.extend(reason.map(|reason| ("reason".to_owned(), json!(reason))));
    if record.plan.goal != Goal::Run {
        return stop(record, subject, moment.now, metadata);
    }
    match record.plan.kind.after(record.progress.stage, |stage| record.plan.with.contains(&stage)) {
        Next::Stage(next) => go_on(record, next, subject, moment, metadata),
        Next::End => end(record, subject, moment, metadata),
    }
}

/// Continues with the next stage. Its intent is recorded in the same commit, unless both the end of the one
/// stage and the beginning of the other move the subject: those are two commits.
fn go_on<D: Data>(
    mut record: Record<D>,
    next: Stage,
    subject: StateOf<D>,
    moment: &Moment<'_>,
    mut metadata: Map<String, Value>,
) -> Step<D> {
    if is_detour(&record, record.progress.stage) && is_detour(&record, next) {
        record.progress.detours = record.progress.detours.saturating_add(1);
        if record.progress.detours > next.budget(Class::Datasource) {
            let last = record.progress.failure.as_ref().map_or("", |failure| failure.evidence.as_str());
            let evidence = format!("repaired {} times without success: {last}", record.progress.detours - 1);
            record.count(Class::Datasource, &evidence, moment.now);
            add_failure(&mut metadata, &record);
            return spent(record, subject, Class::Datasource, metadata);
        }
    }
    let left = SubjectOf::<D>::on_done(record.progress.stage, subject);
    record.progress.stage = next;
    record.arrive(moment.now);
    metadata.insert("next".to_owned(), json!(next));
    let (event, then) = match left {
        Some(event) => (Some(event), Then::Look),
        None => (record.enter(subject), Then::Work),
    };
    if then == Then::Work {
        record.progress.attempt = 1;
        record.hold.execution = Some(Execution {
            holder: moment.lease.holder.clone(),
            epoch: moment.lease.epoch,
            since: moment.now,
        });
        record.push_undo();
    }
    let due = Some(moment.now);
    Step { state: State::Running, record, due, event, entry_type: ATTEMPT, metadata, then }
}

fn is_detour<D: Data>(record: &Record<D>, stage: Stage) -> bool {
    record.plan.kind.plan().iter().any(|step| step.stage == stage && step.when == When::OnFailure)
}

/// Ends the run after its last stage, in one commit with the subject's last move.
fn end<D: Data>(
    mut record: Record<D>,
    subject: StateOf<D>,
    moment: &Moment<'_>,
    metadata: Map<String, Value>,
) -> Step<D> {
    let event = if record.plan.adopted { Event::FinishAdopted } else { Event::Finish };
    let state = moved(State::Running, event);
    let last = match SubjectOf::<D>::on_end(record.plan.kind, state, subject, record.progress.origin) {
        Ok(last) => last,
        Err(subject) => {
            let kind = SubjectOf::<D>::KIND;
            let reason =
                format!("all stages are done, but the {kind} is {subject}, and the run cannot end there");
            return fail(record, subject, Class::Manual, &reason, moment);
        }
    };
    let reached = last.and_then(|event| SubjectOf::<D>::target(subject, event)).unwrap_or(subject);
    let over = SubjectOf::<D>::fits(reached, record.plan.kind, state);
    record.hold.execution = None;
    let (state, then) = if over {
        record.progress.failure = None;
        record.hold.waiting = None;
        (state, Then::Rest)
    } else {
        (State::Running, Then::Look)
    };
    Step { state, record, due: Some(moment.now), event: last, entry_type: ATTEMPT, metadata, then }
}

fn wait<D: Data>(
    run: &Run<D>,
    subject: StateOf<D>,
    reason: &str,
    until: Timestamp,
    moment: &Moment<'_>,
) -> Step<D> {
    let mut record = run.record.clone();
    if record.plan.goal != Goal::Run {
        let metadata = attempt_metadata(&record, "waiting", moment.now);
        return stop(record, subject, moment.now, metadata);
    }
    if let Some(step) = overdue(&record, reason, moment) {
        return fail(record, subject, Class::Overdue, &step, moment);
    }
    waiting(&mut record, run.state, Waiting::on(reason, moment.now), until, moment)
}

/// Waits in a queue.
fn queue<D: Data>(
    mut record: Record<D>,
    subject: StateOf<D>,
    reason: &str,
    until: Timestamp,
    moment: &Moment<'_>,
) -> Step<D> {
    if record.plan.goal != Goal::Run {
        let metadata = attempt_metadata(&record, "waiting", moment.now);
        return stop(record, subject, moment.now, metadata);
    }
    waiting(&mut record, State::Running, Waiting::in_line(reason, moment.now), until, moment)
}

/// Waits for an upstream that is too busy.
fn busy<D: Data>(
    run: &Run<D>,
    subject: StateOf<D>,
    reason: &str,
    until: Timestamp,
    moment: &Moment<'_>,
) -> Step<D> {
    let mut record = run.record.clone();
    if record.plan.goal != Goal::Run {
        let metadata = attempt_metadata(&record, "waiting", moment.now);
        return stop(record, subject, moment.now, metadata);
    }
    match out_of_patience(run, &mut record, reason, moment) {
        Some(evidence) => fail(record, subject, Class::Unanswered, &evidence, moment),
        None => waiting(&mut record, State::Running, Waiting::busy(reason, moment.now), until, moment),
    }
}

/// Returns the evidence once an upstream has been too busy for too long.
pub(crate) fn out_of_patience<D: Data>(
    run: &Run<D>,
    record: &mut Record<D>,
    reason: &str,
    moment: &Moment<'_>,
) -> Option<String> {
    record.excuse(run.resource.content.due_at, moment.now);
    record.hold.busy_since.get_or_insert(moment.now);
    let patience = record.patience_when_busy();
    record
        .busy_too_long(moment.now)
        .then(|| format!("{reason}, for more than {} minutes", patience.as_mins()))
}

impl Waiting {
    pub(crate) fn on(reason: &str, since: Timestamp) -> Self {
        Self { reason: reason.to_owned(), since, queued: false, busy: false }
    }

    pub(crate) fn in_line(reason: &str, since: Timestamp) -> Self {
        Self { queued: true, ..Self::on(reason, since) }
    }

    pub(crate) fn busy(reason: &str, since: Timestamp) -> Self {
        Self { busy: true, ..Self::in_line(reason, since) }
    }
}

/// Returns the evidence once a wait has taken too long.
pub(crate) fn overdue<D: Data>(record: &Record<D>, reason: &str, moment: &Moment<'_>) -> Option<String> {
    let patience = record.patience();
    let waited: SignedDuration = moment.now.duration_since(record.counted_from(moment.now));
    (waited > patience).then(|| format!("after {} still waiting: {reason}", length(patience)))
}

/// Lets the run wait. The first wait for a reason is a row of history; looking again is not.
pub(crate) fn waiting<D: Data>(
    record: &mut Record<D>,
    state: State,
    on: Waiting,
    until: Timestamp,
    moment: &Moment<'_>,
) -> Step<D> {
    let counted_from = record.counted_from(moment.now);
    let before = record.hold.waiting.take();
    let same = before.as_ref().is_some_and(|before| before.reason == on.reason);
    let quiet = same && record.hold.execution.is_none();
    if !on.busy {
        // The upstream has answered.
        record.progress.failures.remove(&Class::Unanswered);
        (record.hold.busy_since, record.hold.no_slot_since) = (None, None);
    }
    let mut metadata = attempt_metadata(record, "waiting", moment.now);
    metadata.insert("reason".to_owned(), json!(on.reason));
    if !same {
        record.progress.since = counted_from;
    }
    record.hold.waiting = if same { before } else { Some(on) };
    record.hold.execution = None;
    let then = if quiet { Then::KeepWaiting } else { Then::Rest };
    // Never in the past, or a waiting run would keep a worker busy.
    let due = Some(until.max(moment.now));
    Step { state, record: record.clone(), due, event: None, entry_type: ATTEMPT, metadata, then }
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
    if record.plan.goal != Goal::Run {
        return stop(record, subject, moment.now, metadata);
    }
    match retries {
        Retries::Left(failures) => {
            let due = Some(moment.retry_at(failures));
            if class == Class::Retryable && record.progress.stage.waits_anew() {
                record.progress.since = moment.now;
            }
            let (state, then) = (State::Running, Then::Rest);
            Step { state, record, due, event: None, entry_type: ATTEMPT, metadata, then }
        }
        Retries::Spent => spent(record, subject, class, metadata),
    }
}

/// Stops the run because the budget of a class is spent.
fn spent<D: Data>(
    record: Record<D>,
    subject: StateOf<D>,
    class: Class,
    metadata: Map<String, Value>,
) -> Step<D> {
    let state = moved(State::Running, record.progress.stage.when_spent(class));
    let event = SubjectOf::<D>::on_stop(record.plan.kind, state, subject, record.origin(), record.cause());
    Step { state, record, due: None, event, entry_type: ATTEMPT, metadata, then: Then::Rest }
}

/// Enters the detour that repairs the stage.
fn broken<D: Data>(
    mut record: Record<D>,
    subject: StateOf<D>,
    evidence: &str,
    moment: &Moment<'_>,
) -> Step<D> {
    let Some(detour) = record.plan.kind.detour(record.progress.stage) else {
        return fail(record, subject, Class::Manual, evidence, moment);
    };
    let mut metadata = attempt_metadata(&record, "failed", moment.now);
    // Not charged to the budget of the stage: the rounds of the detour are bounded instead.
    record.count(Class::Datasource, evidence, moment.now);
    add_failure(&mut metadata, &record);
    if record.plan.goal != Goal::Run {
        return stop(record, subject, moment.now, metadata);
    }
    go_on(record, detour, subject, moment, metadata)
}

/// Fails the run and quarantines its subject; by way of another state where there is no direct move.
fn quarantine<D: Data>(record: Record<D>, subject: StateOf<D>, reason: &str, moment: &Moment<'_>) -> Step<D> {
    let mut step = fail(record, subject, Class::Manual, reason, moment);
    if step.state != State::FailedManualIntervention {
        return step;
    }
    let fits = |subject| SubjectOf::<D>::fits(subject, step.record.plan.kind, step.state);
    let event = step.event.or_else(|| SubjectOf::<D>::towards_quarantine(subject, step.record.origin()));
    let next = event.and_then(|event| SubjectOf::<D>::target(subject, event)).filter(|&next| fits(next));
    if let Some(next) = next {
        step.event = event;
        if SubjectOf::<D>::towards_quarantine(next, step.record.origin()).is_some() {
            step.record.hold.quarantine_pending = true;
            step.due = Some(moment.now);
            step.then = Then::Look;
        }
    }
    step
}

//! The end of an attempt: what an outcome makes of a run.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use wardroom_core::{
    gpu_node::{mapping, moves},
    run::{
        Event, State,
        action::Goal,
        course::Next,
        failure::Class,
        plan::{Stage, When},
    },
};

use crate::{
    record::{AtWork, Record, Run, Waiting},
    stages::{Data, Outcome},
    step::{ATTEMPT, Borne, Moment, Node, Step, Then, blame, bounded, moved, stop, told},
    undo,
};

/// What an outcome makes of a run and its node.
pub(crate) fn conclude<D: Data>(
    run: &Run<D>,
    node: Node,
    outcome: Outcome<D>,
    moment: &Moment<'_>,
) -> Step<D> {
    if run.state == State::Compensating {
        return undo::conclude(run, node, outcome, moment);
    }
    let mut record = run.record.clone();
    match outcome {
        Outcome::Done(data) => {
            record.data = data;
            done(record, node, moment)
        }
        Outcome::Wait { reason, until } => wait(run, node, &reason, until, moment),
        Outcome::Queue { reason, until } => queue(record, node, &reason, until, moment),
        Outcome::Busy { reason, until } => busy(run, node, &reason, until, moment),
        Outcome::Retry { class, evidence, after } => {
            fail(record, node, class, &evidence, &Moment { after, ..*moment })
        }
        Outcome::Broken { data, evidence } => {
            record.data = data;
            broken(record, node, &evidence, moment)
        }
        Outcome::NeedsOperator { reason } => fail(record, node, Class::Manual, &reason, moment),
        Outcome::Unsafe { reason } => quarantine(record, node, &reason, moment),
    }
}

fn done<D: Data>(mut record: Record<D>, node: Node, moment: &Moment<'_>) -> Step<D> {
    let skipped = record.skip.get(&record.stage).cloned();
    if record.stage == Stage::ValidateCleanNode && skipped.is_none() {
        record.prove();
    }
    let left_out = record.data.left_out(record.kind, record.stage).filter(|_| skipped.is_none());
    let (outcome, reason) = match (skipped, left_out) {
        (Some(reason), _) => ("skipped", Some(reason)),
        (None, Some(reason)) => ("left_out", Some(reason)),
        (None, None) => ("done", None),
    };
    let mut metadata = told(&record, outcome, moment.now);
    let evidence = record.data.evidence(record.stage).filter(|_| reason.is_none());
    metadata.extend(evidence.map(|evidence| ("evidence".to_owned(), json!(bounded(&evidence)))));
    metadata.extend(reason.map(|reason| ("reason".to_owned(), json!(reason))));
    if record.goal != Goal::Run {
        return stop(record, node, moment.now, metadata);
    }
    match record.kind.after(record.stage, |stage| record.with.contains(&stage)) {
        Next::Stage(next) => go_on(record, next, node, moment, metadata),
        Next::End => end(record, node, moment, metadata),
    }
}

/// Comes to the next stage. Its intent is recorded in the same commit, unless both the stage that ends and the one
/// that begins move the node: those are two commits.
fn go_on<D: Data>(
    mut record: Record<D>,
    next: Stage,
    node: Node,
    moment: &Moment<'_>,
    mut metadata: Map<String, Value>,
) -> Step<D> {
    if is_detour(&record, record.stage) && is_detour(&record, next) {
        record.repairs = record.repairs.saturating_add(1);
        if record.repairs > next.budget(Class::Datasource) {
            let last = record.failure.as_ref().map_or("", |failure| failure.evidence.as_str());
            let evidence = format!("repaired {} times in vain: {last}", record.repairs - 1);
            record.count(Class::Datasource, &evidence, moment.now);
            blame(&mut metadata, &record);
            return spent(record, node, Class::Datasource, metadata);
        }
    }
    let left = moves::on_done(record.stage, node);
    record.stage = next;
    record.arrive(moment.now);
    metadata.insert("next".to_owned(), json!(next));
    let (node, then) = match left {
        Some(event) => (Some(event), Then::Look),
        None => (record.enter(node), Then::Work),
    };
    if then == Then::Work {
        record.attempt = 1;
        record.at_work = Some(AtWork {
            holder: moment.lease.holder.clone(),
            epoch: moment.lease.epoch,
            since: moment.now,
        });
        record.touch();
    }
    let due = Some(moment.now);
    Step { state: State::Running, record, due, node, entry_type: ATTEMPT, metadata, then }
}

fn is_detour<D>(record: &Record<D>, stage: Stage) -> bool {
    record.kind.plan().iter().any(|step| step.stage == stage && step.when == When::OnFailure)
}

/// The last stage is done: the run's end and the node's last move are one commit.
fn end<D: Data>(
    mut record: Record<D>,
    node: Node,
    moment: &Moment<'_>,
    metadata: Map<String, Value>,
) -> Step<D> {
    let event = if record.adopted { Event::FinishAdopted } else { Event::Finish };
    let state = moved(State::Running, event);
    let last = match moves::on_end(record.kind, state, node, record.came) {
        Ok(last) => last,
        Err(node) => {
            let reason = format!("everything is done, but the node is {node}, and the run cannot end there");
            return fail(record, node, Class::Manual, &reason, moment);
        }
    };
    let reached = last.and_then(|event| moves::target(node, event)).unwrap_or(node);
    let over = mapping::check(reached, Some((record.kind, state))).is_ok();
    record.at_work = None;
    let (state, then) = if over {
        record.failure = None;
        record.waiting = None;
        (state, Then::Rest)
    } else {
        (State::Running, Then::Look)
    };
    Step { state, record, due: Some(moment.now), node: last, entry_type: ATTEMPT, metadata, then }
}

fn wait<D: Data>(run: &Run<D>, node: Node, reason: &str, until: Timestamp, moment: &Moment<'_>) -> Step<D> {
    let mut record = run.record.clone();
    if record.goal != Goal::Run {
        let metadata = told(&record, "waiting", moment.now);
        return stop(record, node, moment.now, metadata);
    }
    if let Some(step) = overdue(&record, reason, moment) {
        return fail(record, node, Class::Overdue, &step, moment);
    }
    waiting(&mut record, run.state, Waiting::on(reason, moment.now), until, moment)
}

/// It is not the run's turn yet.
fn queue<D: Data>(
    mut record: Record<D>,
    node: Node,
    reason: &str,
    until: Timestamp,
    moment: &Moment<'_>,
) -> Step<D> {
    if record.goal != Goal::Run {
        let metadata = told(&record, "waiting", moment.now);
        return stop(record, node, moment.now, metadata);
    }
    waiting(&mut record, State::Running, Waiting::in_line(reason, moment.now), until, moment)
}

/// Whoever was asked is too busy, now and perhaps for ever.
fn busy<D: Data>(run: &Run<D>, node: Node, reason: &str, until: Timestamp, moment: &Moment<'_>) -> Step<D> {
    let mut record = run.record.clone();
    if record.goal != Goal::Run {
        let metadata = told(&record, "waiting", moment.now);
        return stop(record, node, moment.now, metadata);
    }
    match weary(run, &mut record, reason, moment) {
        Some(evidence) => fail(record, node, Class::Unanswered, &evidence, moment),
        None => waiting(&mut record, State::Running, Waiting::busy(reason, moment.now), until, moment),
    }
}

/// Why somebody busy is not waited for any longer, if so.
pub(crate) fn weary<D: Data>(
    run: &Run<D>,
    record: &mut Record<D>,
    reason: &str,
    moment: &Moment<'_>,
) -> Option<String> {
    record.excuse(run.resource.content.due_at, moment.now);
    record.busy_since.get_or_insert(moment.now);
    let patience = record.patience_when_busy();
    record
        .is_weary(moment.now)
        .then(|| format!("{reason}; it has been for more than {} minutes", patience.as_mins()))
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

/// Why a wait has taken too long, if it has.
pub(crate) fn overdue<D: Data>(record: &Record<D>, reason: &str, moment: &Moment<'_>) -> Option<String> {
    let patience = record.patience();
    let waited: SignedDuration = moment.now.duration_since(record.counted_from(moment.now));
    (waited > patience).then(|| format!("after {} minutes still waiting: {reason}", patience.as_mins()))
}

/// The run waits on. The first wait for something is a row of history; looking again is not.
pub(crate) fn waiting<D: Data>(
    record: &mut Record<D>,
    state: State,
    on: Waiting,
    until: Timestamp,
    moment: &Moment<'_>,
) -> Step<D> {
    let counted_from = record.counted_from(moment.now);
    let before = record.waiting.take();
    let same = before.as_ref().is_some_and(|before| before.reason == on.reason);
    let quiet = same && record.at_work.is_none();
    if !on.busy {
        // Whoever waits has looked.
        record.failures.remove(&Class::Unanswered);
        (record.busy_since, record.unasked_since) = (None, None);
    }
    let mut metadata = told(record, "waiting", moment.now);
    metadata.insert("reason".to_owned(), json!(on.reason));
    if !same {
        record.since = counted_from;
    }
    record.waiting = if same { before } else { Some(on) };
    record.at_work = None;
    let then = if quiet { Then::KeepWaiting } else { Then::Rest };
    // Never in the past, or a run that waits would be at work all the time.
    let due = Some(until.max(moment.now));
    Step { state, record: record.clone(), due, node: None, entry_type: ATTEMPT, metadata, then }
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
    if record.goal != Goal::Run {
        return stop(record, node, moment.now, metadata);
    }
    match borne {
        Borne::Again(failures) => {
            let due = Some(moment.retry_at(failures));
            if class == Class::Retryable && record.stage.waits_anew() {
                record.since = moment.now;
            }
            let (state, then) = (State::Running, Then::Rest);
            Step { state, record, due, node: None, entry_type: ATTEMPT, metadata, then }
        }
        Borne::Spent => spent(record, node, class, metadata),
    }
}

/// The budget of a class is spent.
fn spent<D: Data>(record: Record<D>, node: Node, class: Class, metadata: Map<String, Value>) -> Step<D> {
    let state = moved(State::Running, record.stage.when_spent(class));
    let node = moves::on_stop(record.kind, state, node, record.came());
    Step { state, record, due: None, node, entry_type: ATTEMPT, metadata, then: Then::Rest }
}

/// The stage broke in the way that its detour repairs.
fn broken<D: Data>(mut record: Record<D>, node: Node, evidence: &str, moment: &Moment<'_>) -> Step<D> {
    let Some(detour) = record.kind.detour(record.stage) else {
        return fail(record, node, Class::Manual, evidence, moment);
    };
    let mut metadata = told(&record, "failed", moment.now);
    // Not charged to the stage's budget: the rounds of the detour are what is bounded.
    record.count(Class::Datasource, evidence, moment.now);
    blame(&mut metadata, &record);
    if record.goal != Goal::Run {
        return stop(record, node, moment.now, metadata);
    }
    go_on(record, detour, node, moment, metadata)
}

/// The run fails, and the node goes to where nobody uses it; by way of another state if there is no straight one.
fn quarantine<D: Data>(record: Record<D>, node: Node, reason: &str, moment: &Moment<'_>) -> Step<D> {
    let mut step = fail(record, node, Class::Manual, reason, moment);
    if step.state != State::FailedManualIntervention {
        return step;
    }
    let fits = |node| mapping::check(node, Some((step.record.kind, step.state))).is_ok();
    let event = step.node.or_else(|| moves::towards_quarantine(node, step.record.came()));
    let next = event.and_then(|event| moves::target(node, event)).filter(|&next| fits(next));
    if let Some(next) = next {
        step.node = event;
        if moves::towards_quarantine(next, step.record.came()).is_some() {
            step.record.set_aside = true;
            step.due = Some(moment.now);
            step.then = Then::Look;
        }
    }
    step
}

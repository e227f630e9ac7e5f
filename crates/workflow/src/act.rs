//! The seven operator actions on a stored run.
//!
//! The core decides; here the facts are gathered and the decision is committed. Two operators at the same moment
//! have one effect, because the second commit finds another version and is decided again.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use wardroom_core::run::{
    Cause, Event, State,
    action::{self, Action, Already, Decision, Facts, Goal, Observation, Refusal, decide},
    failure::Class,
    plan::Stage,
};
use wardroom_store::{ATTEMPTS, Entry, Error, Resource, Store};

use crate::{
    RUN,
    commit::{commit_step, subject_of, subject_state},
    record::{Frozen, Record, Run},
    stages::Data,
    step::{LOST, StateOf, Step, SubjectOf, Then, attempt_metadata, moved},
    subject::Subject as _,
};

/// An operator's request.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The action to do.
    pub action: Action,
    /// Give the run up without undoing anything; for `cancel` only.
    pub abandon: bool,
    /// The effect of adopting the observed state; for `adopt_observed_state` only.
    pub adoption: Adoption,
    /// Only while the run is at this version, for a caller that decided by reading it.
    pub at: Option<i64>,
    /// The person or server that asks.
    pub actor: Actor,
}

/// The person or server that asks, and the comment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// The person; nothing when the server itself asks.
    pub user: Option<String>,
    /// The comment that goes into the history.
    pub comment: Option<String>,
    /// The id of the API request.
    pub request_id: Option<String>,
}

/// The effect of adopting the observed state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adoption {
    /// Nothing was observed that could be adopted.
    Nothing,
    /// The operator's observation is no longer the newest.
    Outdated,
    /// The machine is in use by another owner.
    InUse,
    /// The run continues at this stage.
    Continue(Stage),
}

/// The answer to an action.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The run as it is now.
    pub run: Resource,
    /// The effect of the action.
    pub did: Did,
}

/// The effect of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Did {
    /// The run moved.
    Moved(Event),
    /// The run turns to this goal at its next safe point.
    Headed(Goal),
    /// The run was taken from a lost worker, or waited for its next attempt, and is queued again.
    Requeued,
    /// Nothing: it was done before.
    Already(Already),
}

/// Why an action was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// There is no such run.
    #[error("there is no such run")]
    NotFound,
    /// It is not allowed now.
    #[error("{refusal}")]
    Refused {
        /// Why.
        refusal: Refusal,
        /// The state of the run.
        state: State,
        /// The allowed actions.
        allowed: Vec<Action>,
    },
    /// Every commit met a conflict.
    #[error("too many concurrent changes of the run")]
    Busy,
    /// The store did not do it.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Carries out an action.
///
/// # Errors
/// Why it was not carried out; nothing was changed then, unless the store is unavailable.
pub async fn act<D: Data>(store: &Store, id: &str, ask: &Ask, now: Timestamp) -> Result<Answer, Problem> {
    for _ in 0..ATTEMPTS {
        let found = store.get(RUN, id).await?.ok_or(Problem::NotFound)?;
        let run = Run::<D>::read(found)?;
        if ask.at.is_some_and(|at| at != run.resource.version) {
            return Err(Problem::Busy);
        }
        let facts = Facts {
            abandon: ask.abandon,
            observation: ask.adoption.meaning(),
            ..facts(store, &run, now).await?
        };
        let decision = decide(ask.action, facts).map_err(|refusal| Problem::Refused {
            refusal,
            state: run.state,
            allowed: action::allowed(facts).collect(),
        })?;
        let did = match decision {
            Decision::Nothing(already) => {
                return Ok(Answer { run: run.resource, did: Did::Already(already) });
            }
            Decision::Move(event, _) => Did::Moved(event),
            Decision::Head(goal) => Did::Headed(goal),
            Decision::Requeue => Did::Requeued,
        };
        let subject = subject_of(store, &run).await?;
        let state = subject_state::<D>(subject.as_ref())?;
        let step = carry_out(&run, state, ask, decision, now);
        let mut entry = entry(ask, did, now);
        if let Value::Object(metadata) = &mut entry.metadata {
            metadata.extend(interrupted(&run, &step, did, now));
        }
        match commit_step(store, &run, subject, state, &step, entry, None).await {
            Ok(run) => return Ok(Answer { run, did }),
            Err(Error::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Problem::Busy)
}

/// Gathers the facts that decide whether an action is allowed. Those of the request or of the subject's kind
/// keep their defaults.
pub async fn facts<D: Data>(store: &Store, run: &Run<D>, now: Timestamp) -> wardroom_store::Result<Facts> {
    let record = &run.record;
    let due_later = run.resource.content.due_at.is_some_and(|due| due > now);
    // A run that waits is due when its wait may be over; only a failed attempt is put off.
    let failed = record.hold.waiting.is_none() && !record.progress.failures.is_empty();
    let put_off = due_later && record.hold.execution.is_none() && failed;
    let worked_on = matches!(run.state, State::Running | State::Compensating);
    let lease = if worked_on { store.lease(&format!("{RUN}/{}", run.id())).await? } else { None };
    let lease = match lease {
        // Also during the moment in which the worker that put it off still holds the lease.
        _ if worked_on && put_off => action::Lease::PutOff,
        Some(lease) if !lease.remaining.is_zero() => action::Lease::Live,
        _ if worked_on && record.hold.execution.is_some() => action::Lease::Stale,
        _ => action::Lease::Queued,
    };
    Ok(Facts {
        state: run.state,
        lease,
        goal: record.plan.goal,
        has_effects: !record.progress.undo_stack.is_empty(),
        failed_in_undo: record.progress.undoing && run.state == State::FailedManualIntervention,
        at_first_stage: record.progress.stage == record.plan.kind.first(),
        adopted: record.plan.adopted,
        observation: Observation::Nothing,
        abandon: false,
        silent: false,
    })
}

impl Adoption {
    fn meaning(self) -> Observation {
        match self {
            Self::Nothing => Observation::Nothing,
            Self::Outdated => Observation::Outdated,
            Self::InUse => Observation::InUse,
            Self::Continue(_) => Observation::Continues,
        }
    }
}

/// Applies a decision to the run.
fn carry_out<D: Data>(
    run: &Run<D>,
    subject: StateOf<D>,
    ask: &Ask,
    decision: Decision,
    now: Timestamp,
) -> Step<D> {
    let mut record = run.record.clone();
    let (state, due) = match decision {
        Decision::Nothing(_) => (run.state, run.resource.content.due_at),
        // The worker that executes it sees the goal at its next safe point. A worker that has put the run off already does
        // not look again, so that the run is due now.
        Decision::Head(goal) => {
            record.plan.goal = goal;
            record.requested_by(&ask.actor);
            let due = if record.hold.execution.is_some() { run.resource.content.due_at } else { Some(now) };
            (run.state, due)
        }
        Decision::Requeue => {
            record.hold.generation += 1;
            record.hold.execution = None;
            (run.state, Some(now))
        }
        Decision::Move(event, goal) => {
            record.hold.generation += 1;
            record.plan.goal = goal;
            record.requested_by(&ask.actor);
            move_by(&mut record, event, ask, now);
            let state = moved(run.state, event);
            (state, state.is_worked_on().then_some(now))
        }
    };
    let cause = if ask.actor.user.is_some() { Cause::Request } else { Cause::Failure };
    let mut event = SubjectOf::<D>::on_stop(record.plan.kind, state, subject, record.origin(), cause);
    // A pending quarantine of the subject is carried out, whatever the operator decides about its run.
    if run.record.hold.quarantine_pending {
        event = event.or_else(|| SubjectOf::<D>::towards_quarantine(subject, record.origin()));
    }
    let (entry_type, metadata, then) = (ACTION, Map::new(), Then::Rest);
    Step { state, record, due, event, entry_type, metadata, then }
}

/// Records the attempt that an action takes from its worker, which will not report its end.
fn interrupted<D: Data>(run: &Run<D>, step: &Step<D>, did: Did, now: Timestamp) -> Map<String, Value> {
    if run.record.hold.execution.is_none() || step.record.hold.execution.is_some() {
        return Map::new();
    }
    let mut metadata = attempt_metadata(&run.record, "lost", now);
    let frozen = matches!(did, Did::Moved(Event::MarkManual));
    let evidence = if frozen { "the run was frozen during the call; the call may have worked" } else { LOST };
    if !frozen {
        metadata.insert("class".to_owned(), json!(Class::Crashed));
    }
    metadata.insert("evidence".to_owned(), json!(evidence));
    metadata
}

/// History rows of this type record the requests of operators.
const ACTION: &str = "action";

fn move_by<D: Data>(record: &mut Record<D>, event: Event, ask: &Ask, now: Timestamp) {
    record.hold.quarantine_pending = false;
    match event {
        // The attempts so far stay counted; the budgets are full again.
        Event::RetryStage | Event::Resume | Event::RetryUndo => {
            let attempt = record.progress.attempt;
            record.progress.detours = 0;
            record.arrive(now);
            record.progress.attempt = attempt;
            // The server itself also resumes runs; only a person retries a stage.
            record.progress.confirmed = event == Event::RetryStage;
        }
        Event::Rerun => {
            record.progress.stage = record.plan.kind.first();
            record.progress.detours = 0;
            record.arrive(now);
        }
        Event::Adopt => {
            if let Adoption::Continue(stage) = ask.adoption {
                record.progress.stage = stage;
            }
            record.plan.adopted = true;
            record.progress.detours = 0;
            record.arrive(now);
        }
        Event::RestartClean => record.start_again(now),
        Event::CancelAndUndo | Event::RestartAndUndo => record.turn_back(now),
        Event::Cancel | Event::Abandon => {
            record.progress.undoing = false;
            record.arrive(now);
        }
        // Frozen where it is; from now on it waits for a person only.
        Event::MarkManual => {
            (record.hold.execution, record.hold.waiting) = (None, None);
            let Actor { user: by, comment: reason, .. } = ask.actor.clone();
            record.hold.frozen = Some(Frozen { by, reason });
        }
        Event::Claim
        | Event::Finish
        | Event::FinishAdopted
        | Event::SpendBudget
        | Event::NeedOperator
        | Event::StopForUndo
        | Event::FinishUndo
        | Event::StartAgain
        | Event::FailUndo => {}
    }
}

fn entry(ask: &Ask, did: Did, at: Timestamp) -> Entry {
    let mut metadata = json!({"action": ask.action});
    if let Value::Object(metadata) = &mut metadata {
        match did {
            Did::Moved(event) => drop(metadata.insert("event".to_owned(), json!(event))),
            Did::Headed(goal) => drop(metadata.insert("goal".to_owned(), json!(goal))),
            Did::Requeued => drop(metadata.insert("requeued".to_owned(), json!(true))),
            Did::Already(_) => {}
        }
    }
    Entry {
        entry_type: ACTION.to_owned(),
        triggered_by: (if ask.actor.user.is_some() { "admin" } else { "system" }).to_owned(),
        user_id: ask.actor.user.clone(),
        comment: ask.actor.comment.clone(),
        metadata,
        request_id: ask.actor.request_id.clone(),
        at,
    }
}

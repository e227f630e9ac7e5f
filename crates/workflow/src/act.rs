//! The seven operator actions on a stored run.
//!
//! The core decides; here the facts are gathered and the decision is committed. Two operators at the same moment
//! have one effect, because the second commit finds another version and is decided again.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use wardroom_core::{
    gpu_node::moves,
    run::{
        Event, State,
        action::{self, Action, Already, Decision, Facts, Goal, Observation, Refusal, decide},
        failure::Class,
        plan::Stage,
    },
};
use wardroom_store::{Entry, Error, Resource, Store};

use crate::{
    RUN,
    commit::{DECISIONS, commit_step, node_of, node_state},
    record::{Frozen, Record, Run},
    stages::Data,
    step::{LOST, Node, Step, Then, moved, told},
};

/// What an operator asks.
#[derive(Debug, Clone)]
pub struct Ask {
    /// What to do.
    pub action: Action,
    /// Give the run up without undoing anything; for `cancel` only.
    pub abandon: bool,
    /// What adopting the observed state would mean; for `adopt_observed_state` only.
    pub adoption: Adoption,
    /// Only while the run is at this version, for who decided by what it was then.
    pub at: Option<i64>,
    /// Who asks.
    pub actor: Actor,
}

/// Who asks, and why.
#[derive(Debug, Clone)]
pub struct Actor {
    /// The person; nobody when the server itself does.
    pub user: Option<String>,
    /// What the person, or the server, said.
    pub reason: Option<String>,
    /// The request it came with.
    pub request: Option<String>,
}

/// What adopting the observed state would mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adoption {
    /// Nothing was observed that could be adopted.
    Nothing,
    /// The operator looked at an observation that is not the newest any more.
    Outdated,
    /// Somebody else has the machine in use.
    InUse,
    /// The run goes on at this stage.
    Continue(Stage),
}

/// What came of an action.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The run as it is now.
    pub run: Resource,
    /// What was done.
    pub did: Did,
}

/// What an action did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Did {
    /// The run moved.
    Moved(Event),
    /// The run turns to this goal at its next safe point.
    Headed(Goal),
    /// The run was taken from a worker that did not come back, or would have waited for its next attempt, and is queued
    /// again.
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
        /// What is allowed.
        allowed: Vec<Action>,
    },
    /// So many change the run at once that this one never had its turn.
    #[error("the run is changed by too many at once")]
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
    for _ in 0..DECISIONS {
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
        let node = node_of(store, &run).await?;
        let state = node_state(node.as_ref())?;
        let step = carry_out(&run, state, ask, decision, now);
        let mut entry = entry(ask, did, now);
        if let Value::Object(metadata) = &mut entry.metadata {
            metadata.extend(cut_off(&run, &step, did, now));
        }
        match commit_step(store, &run, node, state, &step, entry, None).await {
            Ok(run) => return Ok(Answer { run, did }),
            Err(Error::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Problem::Busy)
}

/// What the legality of an action depends on, as the store has it now; without what only the asking person knows.
pub async fn facts<D: Data>(store: &Store, run: &Run<D>, now: Timestamp) -> wardroom_store::Result<Facts> {
    let record = &run.record;
    let due_later = run.resource.content.due_at.is_some_and(|due| due > now);
    // What waits for something, or for its turn, is looked at when that may have come; only a failed attempt is put off.
    let failed = record.waiting.is_none() && !record.failures.is_empty();
    let put_off = due_later && record.at_work.is_none() && failed;
    let worked_on = matches!(run.state, State::Running | State::Compensating);
    let lease = if worked_on { store.lease(&format!("{RUN}/{}", run.id())).await? } else { None };
    let lease = match lease {
        // Also while whoever put it off still holds its lease a moment longer.
        _ if worked_on && put_off => action::Lease::PutOff,
        Some(lease) if !lease.remaining.is_zero() => action::Lease::Live,
        _ if worked_on && record.at_work.is_some() => action::Lease::Stale,
        _ => action::Lease::Queued,
    };
    Ok(Facts {
        state: run.state,
        lease,
        goal: record.goal,
        has_effects: !record.touched.is_empty(),
        failed_in_undo: record.undoing && run.state == State::FailedManualIntervention,
        at_first_stage: record.stage == record.kind.first(),
        adopted: record.adopted,
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

/// What a decision makes of the run.
fn carry_out<D: Data>(run: &Run<D>, node: Node, ask: &Ask, decision: Decision, now: Timestamp) -> Step<D> {
    let mut record = run.record.clone();
    let (state, due) = match decision {
        Decision::Nothing(_) => (run.state, run.resource.content.due_at),
        // The worker that has it sees the goal at its next safe point, and is left alone until then. One that has put the
        // run off already, and only holds its lease a moment longer, sees nothing: whoever comes next does, at once.
        Decision::Head(goal) => {
            record.goal = goal;
            let due = if record.at_work.is_some() { run.resource.content.due_at } else { Some(now) };
            (run.state, due)
        }
        Decision::Requeue => {
            record.turn += 1;
            record.at_work = None;
            (run.state, Some(now))
        }
        Decision::Move(event, goal) => {
            record.turn += 1;
            record.goal = goal;
            move_by(&mut record, event, ask, now);
            let state = moved(run.state, event);
            (state, state.is_worked_on().then_some(now))
        }
    };
    let mut event = moves::on_stop(record.kind, state, node, record.came());
    // A node that was not yet where nobody uses it gets there with whatever an operator decides.
    if run.record.set_aside {
        event = event.or_else(|| moves::towards_quarantine(node, record.came()));
    }
    let (entry_type, metadata, then) = (ACTION, Map::new(), Then::Rest);
    Step { state, record, due, node: event, entry_type, metadata, then }
}

/// The attempt that an action takes from its worker: nobody else will say how it ended.
fn cut_off<D: Data>(run: &Run<D>, step: &Step<D>, did: Did, now: Timestamp) -> Map<String, Value> {
    if run.record.at_work.is_none() || step.record.at_work.is_some() {
        return Map::new();
    }
    let mut told = told(&run.record, "lost", now);
    let frozen = matches!(did, Did::Moved(Event::MarkManual));
    let evidence = if frozen { "the run was frozen in the middle of it; it may have worked" } else { LOST };
    if !frozen {
        told.insert("class".to_owned(), json!(Class::Crashed));
    }
    told.insert("evidence".to_owned(), json!(evidence));
    told
}

/// History rows of this type record what operators asked for.
const ACTION: &str = "action";

fn move_by<D: Data>(record: &mut Record<D>, event: Event, ask: &Ask, now: Timestamp) {
    record.set_aside = false;
    match event {
        // The attempts so far stay counted; the budgets are whole again.
        Event::RetryStage | Event::Resume | Event::RetryUndo => {
            let attempt = record.attempt;
            record.repairs = 0;
            record.arrive(now);
            record.attempt = attempt;
            // Resuming is also done by the server itself; this only a person asks for.
            record.sent_on = event == Event::RetryStage;
        }
        Event::Rerun => {
            record.stage = record.kind.first();
            record.repairs = 0;
            record.arrive(now);
        }
        Event::Adopt => {
            if let Adoption::Continue(stage) = ask.adoption {
                record.stage = stage;
            }
            record.adopted = true;
            record.repairs = 0;
            record.arrive(now);
        }
        Event::RestartClean => record.start_again(now),
        Event::CancelAndUndo | Event::RestartAndUndo => record.turn_back(now),
        Event::Cancel | Event::Abandon => {
            record.undoing = false;
            record.arrive(now);
        }
        // Frozen as it is, but it waits for nothing any more than a person.
        Event::MarkManual => {
            (record.at_work, record.waiting) = (None, None);
            let Actor { user: by, reason, .. } = ask.actor.clone();
            record.frozen = Some(Frozen { by, reason });
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
    if let Value::Object(told) = &mut metadata {
        match did {
            Did::Moved(event) => drop(told.insert("event".to_owned(), json!(event))),
            Did::Headed(goal) => drop(told.insert("goal".to_owned(), json!(goal))),
            Did::Requeued => drop(told.insert("requeued".to_owned(), json!(true))),
            Did::Already(_) => {}
        }
    }
    Entry {
        entry_type: ACTION.to_owned(),
        triggered_by: (if ask.actor.user.is_some() { "admin" } else { "system" }).to_owned(),
        user_id: ask.actor.user.clone(),
        comment: ask.actor.reason.clone(),
        metadata,
        request_id: ask.actor.request.clone(),
        at,
    }
}

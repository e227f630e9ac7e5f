//! The seven operator actions: which are legal for a run, and what each one does.
//!
//! | action          | pending  | running, live lease | running, queued or stale | failed_*     | compensating  |
//! |-----------------|----------|---------------------|--------------------------|--------------|---------------|
//! | `retry_stage`   | refused  | in progress         | queued, or requeued      | running      | as running    |
//! | `resume`        | queued   | in progress         | queued, or requeued      | running      | as running    |
//! | `rerun`         | refused  | refused ¹           | refused ¹                | running      | refused       |
//! | `restart_clean` | is clean | at next safe point  | undo, or pending         | undo/pending | if restarting |
//! | `cancel`        | undo/end | at next safe point  | undo, or cancelled       | undo/end     | becomes goal  |
//! | `adopt_…`       | refused  | refused ²           | refused ²                | running      | refused       |
//! | `mark_manual_…` | frozen   | frozen              | frozen                   | frozen       | frozen        |
//!
//! ¹ unless the run is still at its first stage: then the rerun happened already.
//! ² unless the run adopted what was observed: then it goes on from there already.
//!
//! A run that waits for a retry is not queued yet: an action that continues it queues it, and the budgets
//! stay as they are.
//!
//! Every action is idempotent: given twice, or by two operators at once, it has one effect, and the second
//! answer says what the first one did. A worker that holds a live lease is never overtaken in the middle of a
//! call, except by `mark_manual_intervention_required`, which fences it off.

use std::collections::BTreeSet;

use super::{
    Event, State, TABLE,
    failure::Class,
    plan::{Kind, Stage},
};
use crate::{action::Call, names::names};

names! {
    /// What an operator may ask of a run.
    pub enum Action {
        /// Rerun the current failed stage.
        RetryStage = "retry_stage",
        /// Continue from the last safe stage.
        Resume = "resume",
        /// Enter the workflow again from the top, adopting what is already there.
        Rerun = "rerun",
        /// Undo everything, then start again.
        RestartClean = "restart_clean",
        /// Stop the run and undo what can be undone.
        Cancel = "cancel",
        /// Accept what was observed, and go on from there.
        AdoptObservedState = "adopt_observed_state",
        /// Freeze the run until a person has resolved what is wrong.
        MarkManualInterventionRequired = "mark_manual_intervention_required",
    }
}

impl Action {
    /// How a person asks for it.
    #[must_use]
    pub const fn call(self) -> Call {
        let path = match self {
            Self::RetryStage => "/api/v1/runs/{id}/actions/retry_stage",
            Self::Resume => "/api/v1/runs/{id}/actions/resume",
            Self::Rerun => "/api/v1/runs/{id}/actions/rerun",
            Self::RestartClean => "/api/v1/runs/{id}/actions/restart_clean",
            Self::Cancel => "/api/v1/runs/{id}/actions/cancel",
            Self::AdoptObservedState => "/api/v1/runs/{id}/actions/adopt_observed_state",
            Self::MarkManualInterventionRequired => {
                "/api/v1/runs/{id}/actions/mark_manual_intervention_required"
            }
        };
        let call = Call::new("run", self.as_str(), "POST", path);
        match self {
            Self::AdoptObservedState => call
                .needing(&["expected_observation_digest"])
                .when("the digest of the observation to adopt, which must be the newest"),
            Self::RetryStage
            | Self::Resume
            | Self::Rerun
            | Self::RestartClean
            | Self::Cancel
            | Self::MarkManualInterventionRequired => call,
        }
    }
}

/// Whether a worker has the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lease {
    /// No worker has it: it is queued for the next free one.
    Queued,
    /// No worker has it: an attempt failed, and the next one is put off.
    PutOff,
    /// A worker has it and its lease is running.
    Live,
    /// A worker had it, and its lease expired.
    Stale,
}

names! {
    /// Where the run is heading.
    pub enum Goal {
        /// To its end.
        Run = "run",
        /// To be undone and cancelled.
        Cancel = "cancel",
        /// To be undone and started again.
        Restart = "restart",
    }
}

/// The effect of adopting the observed state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation {
    /// Nothing was observed that could be adopted.
    Nothing,
    /// The operator's observation is no longer the newest.
    Outdated,
    /// The machine is in use outside of Wardroom.
    InUse,
    /// The run can go on from what is observed.
    Continues,
}

/// The facts that decide whether an action is legal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The run's state.
    pub state: State,
    /// Whether a worker has it.
    pub lease: Lease,
    /// Where it is heading.
    pub goal: Goal,
    /// Whether it did, or may have done, anything that has to be undone.
    pub has_effects: bool,
    /// Whether it failed while it was being undone.
    pub failed_in_undo: bool,
    /// Whether it is at its first stage.
    pub at_first_stage: bool,
    /// Whether an observed state was adopted on the way.
    pub adopted: bool,
    /// The effect of adopting; for `adopt_observed_state` only.
    pub observation: Observation,
    /// Give the run up without undoing anything; looked at by `cancel` only.
    pub abandon: bool,
    /// Whether the node's agent is silent; for recommendations only.
    pub silent: bool,
}

/// The effect of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The run moves by this event, heading for this goal; its worker is fenced off.
    Move(Event, Goal),
    /// The goal is recorded, and the worker turns to it at its next safe point.
    Head(Goal),
    /// The run is queued again, for now; an expired lease is taken away.
    Requeue,
    /// It was done before; nothing happens, and that is a success.
    Nothing(Already),
}

names! {
    /// Why an action has nothing left to do.
    pub enum Already {
        /// A worker is executing it.
        InProgress = "in_progress",
        /// It is queued for the next free worker.
        Queued = "already_queued",
        /// The run is at its top, with nothing to undo.
        Clean = "already_clean",
        /// The run is being undone, or is about to be.
        Undoing = "already_undoing",
        /// The run was cancelled.
        Cancelled = "already_cancelled",
        /// The run was reconciled.
        Reconciled = "already_reconciled",
        /// The run is frozen.
        Frozen = "already_frozen",
    }
}

names! {
    /// Why an action is refused.
    pub enum Refusal {
        /// The run is over; start a new one.
        RunIsOver = "run_is_over",
        /// Nothing has failed; the run is in progress.
        NothingFailed = "nothing_failed",
        /// The run is being undone, or failed while it was; retry the undo, or abandon the run.
        BeingUndone = "being_undone",
        /// The run is being cancelled; start a new one afterwards.
        BeingCancelled = "being_cancelled",
        /// There is no observation to adopt; wait for the next one.
        NothingObserved = "nothing_observed",
        /// The machine is in use in MAAS for something else; release it there, then rerun the run.
        MachineInUse = "machine_in_use",
        /// There is a newer observation; read the run again.
        ObservationOutdated = "observation_outdated",
        /// Only a run that was frozen for manual intervention can be abandoned; mark it first.
        NotFrozen = "not_frozen",
    }
}

/// Decides an action.
///
/// # Errors
/// The reason why it is refused; [`allowed`] says what is not.
pub fn decide(action: Action, run: Facts) -> Result<Decision, Refusal> {
    match action {
        Action::RetryStage => go_on(run, Event::RetryStage),
        Action::Resume if run.state == State::Pending => Ok(Decision::Nothing(Already::Queued)),
        Action::Resume => go_on(run, Event::Resume),
        Action::Rerun => rerun(run),
        Action::RestartClean => restart(run),
        Action::Cancel if run.abandon => abandon(run),
        Action::Cancel => cancel(run),
        Action::AdoptObservedState => adopt(run),
        Action::MarkManualInterventionRequired => mark(run),
    }
}

/// The moves that can come next: those that an action leads to now, and those of the worker that has the run.
#[must_use]
pub fn ways(run: Facts) -> BTreeSet<Event> {
    use crate::Named;
    let undo = if run.has_effects { Event::CancelAndUndo } else { Event::Cancel };
    let asked = Action::ALL.iter().filter_map(move |&action| match decide(action, run) {
        Ok(Decision::Move(event, _)) => Some(event),
        Ok(Decision::Head(Goal::Cancel)) => Some(undo),
        Ok(Decision::Head(Goal::Restart)) if run.has_effects => Some(Event::RestartAndUndo),
        Ok(Decision::Head(Goal::Restart)) => Some(Event::RestartClean),
        Ok(Decision::Head(Goal::Run) | Decision::Requeue | Decision::Nothing(_)) | Err(_) => None,
    });
    let given_up = decide(Action::Cancel, Facts { abandon: true, ..run })
        .is_ok_and(|decision| matches!(decision, Decision::Move(Event::Abandon, _)));
    let worked: &[Event] = match (run.state, run.goal) {
        (State::Pending, _) => &[Event::Claim],
        (State::Running, Goal::Run) if run.adopted => {
            &[Event::FinishAdopted, Event::SpendBudget, Event::NeedOperator]
        }
        (State::Running, Goal::Run) => &[Event::Finish, Event::SpendBudget, Event::NeedOperator],
        (State::Running, Goal::Cancel | Goal::Restart) => &[Event::StopForUndo],
        (State::Compensating, Goal::Restart) => &[Event::StartAgain, Event::FailUndo],
        (State::Compensating, Goal::Run | Goal::Cancel) => &[Event::FinishUndo, Event::FailUndo],
        (
            State::Completed
            | State::Cancelled
            | State::Reconciled
            | State::FailedRetryable
            | State::FailedManualIntervention,
            _,
        ) => &[],
    };
    let ways = asked.chain(given_up.then_some(Event::Abandon)).chain(worked.iter().copied());
    // A run that is being undone takes another goal without a move.
    ways.filter(|&event| TABLE.find(run.state, event).is_some()).collect()
}

/// The actions that would not be refused now, whether or not they have something left to do.
pub fn allowed(run: Facts) -> impl Iterator<Item = Action> {
    use crate::Named;
    Action::ALL.iter().copied().filter(move |&action| decide(action, run).is_ok())
}

/// Returns the action that continues the run once the cause of its failure is fixed; none while it is in
/// progress.
///
/// | failed in                | action                                                                           |
/// |--------------------------|----------------------------------------------------------------------------------|
/// | an undo, or on its way to one | `retry_stage`: what was undone halfway is not continued                     |
/// | `settings`               | `rerun`: the run goes by what it loaded at its top, which is loaded once more    |
/// | `disagreement`           | `adopt_observed_state` where that leads on; else an onboarding begins anew, at its top (`rerun`) where the machine is in use otherwise, and what takes a node out is cancelled |
/// | `no_agent`               | none of these where the stage can be skipped, which is asked of the node; else `cancel` |
/// | `overdue`                | none of these, likewise, where the agent is silent and a skip gets the run to its end; else `retry_stage` |
/// | `redeploy`               | an onboarding begins anew, and what takes a node out is cancelled                |
/// | any other class          | `retry_stage`: the only one that tries a refused password again                  |
/// | none: a person froze it  | `resume`                                                                         |
#[must_use]
pub fn recommended(run: Facts, kind: Kind, failure: Option<(Stage, Class)>) -> Option<Action> {
    let (stage, failure) = failure.unzip();
    match run.state {
        State::FailedManualIntervention
            if failure == Some(Class::NoAgent)
                && run.goal == Goal::Run
                && stage.is_some_and(|stage| kind.can_skip(stage)) =>
        {
            None
        }
        State::FailedRetryable | State::FailedManualIntervention
            if failure == Some(Class::Overdue)
                && run.goal == Goal::Run
                && run.silent
                && stage.is_some_and(|stage| kind.gets_past(stage)) =>
        {
            None
        }
        State::FailedRetryable | State::FailedManualIntervention => Some(match failure {
            _ if run.failed_in_undo || run.goal != Goal::Run => Action::RetryStage,
            Some(Class::Settings) => Action::Rerun,
            Some(Class::Disagreement) => match run.observation {
                Observation::Continues => Action::AdoptObservedState,
                // Nothing of it is to be undone: the machine is not this run's to give back.
                Observation::InUse if kind.is_onboarding() => Action::Rerun,
                Observation::Nothing | Observation::Outdated | Observation::InUse => anew(kind),
            },
            Some(Class::Redeploy) => anew(kind),
            Some(Class::NoAgent) => Action::Cancel,
            Some(
                Class::Retryable
                | Class::Unanswered
                | Class::Datasource
                | Class::Credentials
                | Class::Overdue
                | Class::Crashed
                | Class::Manual,
            ) => Action::RetryStage,
            None => Action::Resume,
        }),
        State::Running | State::Compensating => (run.lease == Lease::Stale).then_some(Action::Resume),
        State::Pending | State::Completed | State::Cancelled | State::Reconciled => None,
    }
}

fn anew(kind: Kind) -> Action {
    if kind.is_onboarding() { Action::RestartClean } else { Action::Cancel }
}

fn go_on(run: Facts, event: Event) -> Result<Decision, Refusal> {
    match run.state {
        State::FailedManualIntervention if run.failed_in_undo => movement(run, Event::RetryUndo, run.goal),
        // A run that was frozen while being cancelled continues to be cancelled.
        State::FailedRetryable | State::FailedManualIntervention => movement(run, event, run.goal),
        State::Running | State::Compensating => Ok(queue(run.lease)),
        State::Pending => Err(Refusal::NothingFailed),
        State::Completed | State::Cancelled | State::Reconciled => Err(Refusal::RunIsOver),
    }
}

fn rerun(run: Facts) -> Result<Decision, Refusal> {
    match run.state {
        State::FailedRetryable | State::FailedManualIntervention if run.goal != Goal::Run => {
            Err(Refusal::BeingUndone)
        }
        State::FailedRetryable | State::FailedManualIntervention => movement(run, Event::Rerun, Goal::Run),
        State::Running if run.at_first_stage && run.goal == Goal::Run => Ok(queue(run.lease)),
        State::Pending | State::Running => Err(Refusal::NothingFailed),
        State::Compensating => Err(Refusal::BeingUndone),
        State::Completed | State::Cancelled | State::Reconciled => Err(Refusal::RunIsOver),
    }
}

fn restart(run: Facts) -> Result<Decision, Refusal> {
    match run.state {
        // The first order to stop wins; once the run is frozen, an operator may decide again.
        State::Running | State::Compensating if run.goal == Goal::Cancel => Err(Refusal::BeingCancelled),
        State::Pending if !run.has_effects => Ok(Decision::Nothing(Already::Clean)),
        State::Compensating => Ok(Decision::Nothing(Already::Undoing)),
        State::Running if run.lease == Lease::Live => Ok(head(run, Goal::Restart)),
        State::Pending | State::Running | State::FailedRetryable | State::FailedManualIntervention => {
            if run.has_effects {
                movement(run, Event::RestartAndUndo, Goal::Restart)
            } else {
                movement(run, Event::RestartClean, Goal::Run)
            }
        }
        State::Completed | State::Cancelled | State::Reconciled => Err(Refusal::RunIsOver),
    }
}

/// A cancel wins over a restart: stopping must always be possible.
fn cancel(run: Facts) -> Result<Decision, Refusal> {
    match run.state {
        State::Running if run.lease == Lease::Live => Ok(head(run, Goal::Cancel)),
        State::Compensating => Ok(head(run, Goal::Cancel)),
        State::Pending | State::Running | State::FailedRetryable | State::FailedManualIntervention => {
            let event = if run.has_effects { Event::CancelAndUndo } else { Event::Cancel };
            movement(run, event, Goal::Cancel)
        }
        State::Cancelled => Ok(Decision::Nothing(Already::Cancelled)),
        State::Completed | State::Reconciled => Err(Refusal::RunIsOver),
    }
}

fn abandon(run: Facts) -> Result<Decision, Refusal> {
    match run.state {
        State::FailedManualIntervention => movement(run, Event::Abandon, Goal::Cancel),
        State::Cancelled => Ok(Decision::Nothing(Already::Cancelled)),
        State::Pending | State::Running | State::FailedRetryable | State::Compensating => {
            Err(Refusal::NotFrozen)
        }
        State::Completed | State::Reconciled => Err(Refusal::RunIsOver),
    }
}

fn adopt(run: Facts) -> Result<Decision, Refusal> {
    match run.state {
        State::FailedRetryable | State::FailedManualIntervention if run.goal != Goal::Run => {
            Err(Refusal::BeingUndone)
        }
        State::FailedRetryable | State::FailedManualIntervention => match run.observation {
            Observation::Nothing => Err(Refusal::NothingObserved),
            Observation::InUse => Err(Refusal::MachineInUse),
            Observation::Outdated => Err(Refusal::ObservationOutdated),
            Observation::Continues => movement(run, Event::Adopt, Goal::Run),
        },
        State::Running if run.adopted => Ok(queue(run.lease)),
        State::Pending | State::Running => Err(Refusal::NothingFailed),
        State::Compensating => Err(Refusal::BeingUndone),
        State::Reconciled => Ok(Decision::Nothing(Already::Reconciled)),
        State::Completed | State::Cancelled => Err(Refusal::RunIsOver),
    }
}

fn mark(run: Facts) -> Result<Decision, Refusal> {
    match run.state {
        State::FailedManualIntervention => Ok(Decision::Nothing(Already::Frozen)),
        State::Pending | State::Running | State::FailedRetryable | State::Compensating => {
            movement(run, Event::MarkManual, run.goal)
        }
        State::Completed | State::Cancelled | State::Reconciled => Err(Refusal::RunIsOver),
    }
}

/// A run that is on its way is left alone, unless its worker was lost, or it would only wait for its next attempt.
fn queue(lease: Lease) -> Decision {
    match lease {
        Lease::Live => Decision::Nothing(Already::InProgress),
        Lease::Queued => Decision::Nothing(Already::Queued),
        Lease::PutOff | Lease::Stale => Decision::Requeue,
    }
}

fn head(run: Facts, goal: Goal) -> Decision {
    if run.goal == goal { Decision::Nothing(Already::Undoing) } else { Decision::Head(goal) }
}

/// A move that has a row; the rows are the law, so an action without one is refused rather than invented.
fn movement(run: Facts, event: Event, goal: Goal) -> Result<Decision, Refusal> {
    TABLE.find(run.state, event).map(|_| Decision::Move(event, goal)).ok_or(Refusal::NothingFailed)
}

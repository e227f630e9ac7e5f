//! Run: one execution of a workflow on a node, and the actions of operators on it.
//!
//! Retries inside a stage stay `running`: `failed_retryable` means that the automatic budget is spent and
//! that a retry is safe. What must stay true: an expired lease changes no state, it only makes the run
//! claimable; a finished run is never revived, a later attempt is a new run.

use Event::*;
use State::*;
use jiff::SignedDuration;

use crate::{
    action::{Call, Fixed},
    names::names,
    table::{self, Owner, Place, Role, Table, at, row},
    tone::tones,
    why::Blocker,
};

pub mod action;
pub mod adopt;
pub mod course;
pub mod failure;
pub mod plan;

use plan::Stage;

/// The moves of a run.
#[rustfmt::skip]
pub const TABLE: Table<State, Event> = Table(&[
    //  from                      on              to                        by
    row(Pending,                  Claim,          Running,                  Owner::Workflow),
    row(Pending,                  Cancel,         Cancelled,                Owner::Admin),
    row(Pending,                  CancelAndUndo,  Compensating,             Owner::Admin),
    row(Pending,                  RestartAndUndo, Compensating,             Owner::Admin),
    row(Pending,                  MarkManual,     FailedManualIntervention, Owner::Admin),
    row(Running,                  Finish,         Completed,                Owner::Workflow),
    row(Running,                  FinishAdopted,  Reconciled,               Owner::Workflow),
    row(Running,                  SpendBudget,    FailedRetryable,          Owner::Workflow),
    row(Running,                  NeedOperator,   FailedManualIntervention, Owner::Workflow),
    row(Running,                  StopForUndo,    Compensating,             Owner::Workflow),
    row(Running,                  Cancel,         Cancelled,                Owner::Admin),
    row(Running,                  CancelAndUndo,  Compensating,             Owner::Admin),
    row(Running,                  RestartClean,   Pending,                  Owner::Admin),
    row(Running,                  RestartAndUndo, Compensating,             Owner::Admin),
    row(Running,                  MarkManual,     FailedManualIntervention, Owner::Admin),
    row(FailedRetryable,          RetryStage,     Running,                  Owner::Admin),
    row(FailedRetryable,          Resume,         Running,                  Owner::Admin),
    row(FailedRetryable,          Rerun,          Running,                  Owner::Admin),
    row(FailedRetryable,          Adopt,          Running,                  Owner::Admin),
    row(FailedRetryable,          Cancel,         Cancelled,                Owner::Admin),
    row(FailedRetryable,          CancelAndUndo,  Compensating,             Owner::Admin),
    row(FailedRetryable,          RestartClean,   Pending,                  Owner::Admin),
    row(FailedRetryable,          RestartAndUndo, Compensating,             Owner::Admin),
    row(FailedRetryable,          MarkManual,     FailedManualIntervention, Owner::Admin),
    row(FailedManualIntervention, Resume,         Running,                  Owner::Admin),
    row(FailedManualIntervention, RetryStage,     Running,                  Owner::Admin),
    row(FailedManualIntervention, RetryUndo,      Compensating,             Owner::Admin),
    row(FailedManualIntervention, Rerun,          Running,                  Owner::Admin),
    row(FailedManualIntervention, Adopt,          Running,                  Owner::Admin),
    row(FailedManualIntervention, Cancel,         Cancelled,                Owner::Admin),
    row(FailedManualIntervention, CancelAndUndo,  Compensating,             Owner::Admin),
    row(FailedManualIntervention, Abandon,        Cancelled,                Owner::Admin),
    row(FailedManualIntervention, RestartClean,   Pending,                  Owner::Admin),
    row(FailedManualIntervention, RestartAndUndo, Compensating,             Owner::Admin),
    row(Compensating,             FinishUndo,     Cancelled,                Owner::Workflow),
    row(Compensating,             StartAgain,     Pending,                  Owner::Workflow),
    row(Compensating,             FailUndo,       FailedManualIntervention, Owner::Workflow),
    row(Compensating,             MarkManual,     FailedManualIntervention, Owner::Admin),
]);

names! {
    /// The state of a run; the same for onboardings, decommissions, retirements and removals.
    pub enum State {
        /// Accepted; no worker has taken it yet.
        Pending = "pending",
        /// A worker executes it, or it waits for its next attempt.
        Running = "running",
        /// It reached the success it was started for.
        Completed = "completed",
        /// A stage failed more often than its budget allows; a repeat is safe.
        FailedRetryable = "failed_retryable",
        /// Blocked until an operator decides.
        FailedManualIntervention = "failed_manual_intervention",
        /// Stopped; what could be undone was undone.
        Cancelled = "cancelled",
        /// What the run did is being undone.
        Compensating = "compensating",
        /// It ended well after an operator adopted what was observed.
        Reconciled = "reconciled",
    }
}

names! {
    /// What moves a run.
    pub enum Event {
        /// A worker takes the run under a lease.
        Claim = "claim",
        /// The last stage is done.
        Finish = "finish",
        /// The last stage is done, and an observed state was adopted on the way.
        FinishAdopted = "finish_adopted",
        /// A stage fails once more than its automatic budget allows.
        SpendBudget = "spend_budget",
        /// A stage meets something that only a person can decide.
        NeedOperator = "need_operator",
        /// The worker reaches a safe point, a failure included, and sees that the run is to be cancelled or restarted.
        StopForUndo = "stop_for_undo",
        /// The last undo is done, and the run was to be cancelled.
        FinishUndo = "finish_undo",
        /// The last undo is done, and the run was to start again.
        StartAgain = "start_again",
        /// An undo fails once more than its budget allows.
        FailUndo = "fail_undo",
        /// An operator repeats the failed stage.
        RetryStage = "retry_stage",
        /// An operator repeats the failed undo.
        RetryUndo = "retry_undo",
        /// An operator continues from the last safe stage.
        Resume = "resume",
        /// An operator starts again from the top, keeping what is already there.
        Rerun = "rerun",
        /// An operator starts again from nothing, and there is nothing to undo.
        RestartClean = "restart_clean",
        /// An operator has everything undone and then starts again.
        RestartAndUndo = "restart_and_undo",
        /// An operator stops the run, and there is nothing to undo.
        Cancel = "cancel",
        /// An operator stops the run, and what it did is undone.
        CancelAndUndo = "cancel_and_undo",
        /// An administrator gives the run up without undoing anything, with a reason.
        Abandon = "abandon",
        /// An operator accepts what is observed, and the run continues from there.
        Adopt = "adopt",
        /// An operator freezes the run.
        MarkManual = "mark_manual",
    }
}

names! {
    /// Why a run stops before its end.
    pub enum Cause {
        /// A stage failed, or its undo did.
        Failure = "failure",
        /// A person asked for it.
        Request = "request",
    }
}

impl State {
    /// Whether the run still owns its node.
    #[must_use]
    pub const fn is_open(self) -> bool {
        !matches!(self, Completed | Cancelled | Reconciled)
    }

    /// Whether a worker is meant to work on it.
    #[must_use]
    pub const fn is_worked_on(self) -> bool {
        matches!(self, Pending | Running | Compensating)
    }
}

tones! {
    State {
        Good: Completed | Reconciled,
        Work: Running | Compensating,
        Wait: Pending,
        Bad:  FailedRetryable | FailedManualIntervention,
        Over: Cancelled,
    }
}

impl table::State for State {
    const INITIAL: &'static [Self] = &[Pending];
    /// A run is well when it makes progress; where it ends is up to its stages.
    const SERVICE: &'static [Self] = &[Running];
    const TERMINAL: &'static [Self] = &[Completed, Cancelled, Reconciled];
    #[rustfmt::skip]
    const PLACES: &'static [Place<Self>] = &[
        at(Pending,                  0.0, 1.0),
        at(Running,                  1.0, 1.0),
        at(Compensating,             1.5, 0.0),
        at(FailedRetryable,          0.5, 2.0),
        at(FailedManualIntervention, 1.5, 2.0),
        at(Completed,                2.5, 0.0),
        at(Reconciled,               2.5, 1.0),
        at(Cancelled,                2.5, 2.0),
    ];

    fn patience(self) -> Option<SignedDuration> {
        match self {
            // A worker should take it within a few ticks.
            Pending => Some(SignedDuration::from_mins(5)),
            // Longer than the longest plan; the present stage has its own patience, which is more specific.
            Running => Some(SignedDuration::from_hours(26)),
            Compensating => Some(SignedDuration::from_hours(1)),
            Completed | FailedRetryable | FailedManualIntervention | Cancelled | Reconciled => None,
        }
    }

    fn remedy(self) -> Option<Call> {
        self.is_worked_on().then(|| action::Action::Resume.call())
    }
}

impl table::Event for Event {
    fn call(self) -> Option<Call> {
        use action::Action;
        let action = match self {
            Claim | Finish | FinishAdopted | SpendBudget | NeedOperator | StopForUndo | FinishUndo
            | StartAgain | FailUndo => return None,
            RetryUndo => {
                let call = Action::RetryStage.call();
                return Some(call.when("the run failed while it was being undone"));
            }
            Abandon => return Some(ABANDON),
            RetryStage => Action::RetryStage,
            Resume => Action::Resume,
            Rerun => Action::Rerun,
            RestartClean | RestartAndUndo => Action::RestartClean,
            Cancel | CancelAndUndo => Action::Cancel,
            Adopt => Action::AdoptObservedState,
            MarkManual => Action::MarkManualInterventionRequired,
        };
        Some(action.call())
    }
}

/// Reads a run.
pub const READ: Call = Call::read("run", "/api/v1/runs/{id}");

const ABANDON: Call = Call::new("run", "cancel", "POST", "/api/v1/runs/{id}/actions/cancel")
    .body(&[("abandon", Fixed::Flag(true))])
    .needing(&["comment"])
    .by(Role::Admin)
    .when("undoes nothing; a person has to clean up");

/// Returns the causes that keep a run in its state, beyond those of the state itself.
#[must_use]
pub fn blockers(
    state: State,
    stage: Stage,
    failures: u32,
    failure: Option<&str>,
    fix: Option<crate::action::Action>,
) -> Vec<Blocker> {
    let Some(failure) = failure.filter(|_| state.is_open()) else { return Vec::new() };
    // A run that was sent on, and has not failed since, has failed before.
    let times = match failures {
        0 => "before".to_owned(),
        1 => "once".to_owned(),
        _ => format!("{failures} times"),
    };
    let what = format!("{stage} failed {times}: {failure}").into();
    vec![Blocker { what, fix }]
}

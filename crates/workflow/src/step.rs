//! One change of a run and its subject, by a worker or an operator.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use wardroom_core::{
    backoff::Backoff,
    run::{
        Cause, Event, State, TABLE,
        action::Goal,
        failure::{BUSY, Class},
        plan::Stage,
    },
};
use wardroom_store::Lease;

use crate::{
    act::Actor,
    record::{Failure, Hold, Plan, Progress, Record},
    stages::Data,
    subject::Subject,
};

pub(crate) type SubjectOf<D> = <D as Data>::Subject;
pub(crate) type StateOf<D> = <SubjectOf<D> as Subject>::State;
pub(crate) type EventOf<D> = <SubjectOf<D> as Subject>::Event;
pub(crate) type OriginOf<D> = <SubjectOf<D> as Subject>::Origin;

/// One change of a run and its subject, to be committed.
#[derive(Debug, Clone)]
pub(crate) struct Step<D: Data> {
    pub(crate) state: State,
    pub(crate) record: Record<D>,
    pub(crate) due: Option<Timestamp>,
    /// The move of the subject that is committed with it.
    pub(crate) event: Option<EventOf<D>>,
    /// The type of the history row, unless the state changes.
    pub(crate) entry_type: &'static str,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) then: Then,
}

/// The next step of a worker after a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// Executes the stage: its intent is recorded.
    Work,
    /// Looks at the run again.
    Look,
    /// Releases it.
    Rest,
    /// Releases it; only the due time changed, which needs no history row.
    KeepWaiting,
}

/// History rows of these types record attempts and their causes.
pub(crate) const ATTEMPT: &str = "attempt";
pub(crate) const INTENT: &str = "intent";

/// The evidence of an attempt whose worker was lost.
pub(crate) const LOST: &str = "the server that executed the stage did not return";

/// The time and the lease under which a worker decides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment<'a> {
    pub(crate) now: Timestamp,
    pub(crate) lease: &'a Lease,
    pub(crate) backoff: Backoff,
    /// Between 0 and 1.
    pub(crate) jitter: f64,
    /// The upstream asked for at least this pause.
    pub(crate) after: Option<SignedDuration>,
}

impl Moment<'_> {
    /// Returns when to retry after so many failures: after the back-off with jitter, and not before it was asked for.
    pub(crate) fn retry_at(&self, failures: u32) -> Timestamp {
        let wait = self.backoff.spread(failures, self.jitter);
        let wait = self.after.map_or(wait, |after| wait.max(after));
        self.now.checked_add(wait).unwrap_or(self.now)
    }
}

/// The state that an event leads to; the same state for an event without a row.
pub(crate) fn moved(state: State, event: Event) -> State {
    TABLE.find(state, event).map_or(state, |row| row.to)
}

impl<D: Data> Record<D> {
    /// The stage that is executed or undone next.
    #[must_use]
    pub fn current(&self) -> Stage {
        let Progress { stage, undoing, undo_stack, .. } = &self.progress;
        if *undoing { undo_stack.last().copied().unwrap_or(*stage) } else { *stage }
    }

    /// How long the current stage may wait.
    #[must_use]
    pub fn patience(&self) -> SignedDuration {
        let stage = self.current();
        let configured = self.data.budget(stage).patience;
        if self.progress.undoing {
            // The configured patience is about the stage, not about its undo.
            let undo = stage.patience_of_undo();
            return configured.map_or(undo, |configured| configured.max(undo));
        }
        configured.unwrap_or_else(|| self.plan.kind.patience_at(stage))
    }

    /// From when on time counts against the stage's patience: waiting in a queue, or for an upstream that is too busy to
    /// answer, does not count. Time spent before that does.
    #[must_use]
    pub fn counted_from(&self, now: Timestamp) -> Timestamp {
        let since = self.progress.since;
        match &self.hold.waiting {
            Some(waiting) if waiting.busy => {
                let excused = now.duration_since(waiting.since);
                since.saturating_add(excused).map_or(now, |from| from.clamp(since, now.max(since)))
            }
            Some(waiting) if waiting.queued => now,
            Some(_) | None => since,
        }
    }

    /// How long the upstream of the current stage may be too busy for it.
    #[must_use]
    pub fn patience_when_busy(&self) -> SignedDuration {
        let stage = self.current();
        let configured = self.data.budget(stage).patience;
        configured.unwrap_or_else(|| self.plan.kind.patience_at(stage).max(BUSY))
    }

    /// Whether the upstream has been too busy for longer than that.
    pub(crate) fn busy_too_long(&self, now: Timestamp) -> bool {
        self.hold.busy_since.is_some_and(|since| now.duration_since(since) > self.patience_when_busy())
    }

    /// Excuses the time in which the upstream was not asked, because no server or no slot was free. The first minute counts
    /// all the same: it is not worth a row of history, and a run that asks so seldom would wait without end.
    pub(crate) fn excuse(&mut self, due: Option<Timestamp>, now: Timestamp) {
        const LITTLE: SignedDuration = SignedDuration::from_mins(1);
        const LONG: SignedDuration = SignedDuration::from_mins(15);
        let no_slot_since = self.hold.no_slot_since.take();
        let late = no_slot_since.or(due).map_or(SignedDuration::ZERO, |due| now.duration_since(due));
        if late > LONG && self.hold.waiting.as_ref().is_some_and(|waiting| !waiting.queued) {
            // A stage that no server looked at for so long is not charged for it.
            let since = &mut self.progress.since;
            *since = since.saturating_add(late).map_or(now, |since| since.min(now));
            self.hold.waiting = None;
        }
        let Some(since) = self.hold.busy_since.as_mut() else { return };
        if late > LITTLE {
            *since = since.saturating_add(late - LITTLE).map_or(now, |since| since.min(now));
        }
        if late > LITTLE || no_slot_since.is_some() {
            self.progress.since = self.counted_from(now);
            self.hold.waiting = None;
        }
    }

    /// Records that the run is due and waits for a slot, so that its upstream is not asked from now on. Returns whether
    /// that is worth a commit.
    pub(crate) fn waits_for_slot(&mut self, due: Option<Timestamp>) -> bool {
        let begins = self.hold.busy_since.is_some() && self.hold.no_slot_since.is_none();
        if begins {
            self.hold.no_slot_since = due;
        }
        begins
    }

    /// Arrives at a stage, or at the next undo, with full budgets.
    pub(crate) fn arrive(&mut self, now: Timestamp) {
        self.progress.since = now;
        self.progress.attempt = 0;
        self.progress.failures.clear();
        self.progress.confirmed = false;
        let Hold { generation, quarantine_pending, .. } = self.hold;
        self.hold = Hold { generation, quarantine_pending, ..Hold::default() };
    }

    /// Enters the stage: records the subject's origin, and returns the move that goes with it.
    pub(crate) fn enter(&mut self, subject: StateOf<D>) -> Option<EventOf<D>> {
        self.progress.origin = SubjectOf::<D>::origin(subject, self.progress.origin);
        let erased: Vec<_> = self.erased().collect();
        self.progress.unproven.extend(erased);
        SubjectOf::<D>::on_entry(self.plan.kind, self.progress.stage, subject)
    }

    /// Where the subject returns to when the run stops. A subject that is not proven clean does not return to use.
    #[must_use]
    pub fn origin(&self) -> OriginOf<D> {
        if self.progress.unproven.is_empty() { self.progress.origin } else { SubjectOf::<D>::NOT_USABLE }
    }

    /// Records the person whose request the run follows from now on. The server's own requests name no person.
    pub(crate) fn requested_by(&mut self, actor: &Actor) {
        if actor.user.is_some() {
            self.plan.requested_by = actor.clone();
        }
    }

    /// Why the run stops now, if it does.
    pub(crate) fn cause(&self) -> Cause {
        if self.plan.goal == Goal::Run { Cause::Failure } else { Cause::Request }
    }

    /// The stages that erase, if the run is at one of them or at the stage that proves the erasure.
    fn erased(&self) -> impl Iterator<Item = Stage> {
        let at = self.progress.stage;
        let proves = at == Stage::ValidateCleanNode;
        self.performs().filter(move |stage| stage.erases() && (proves || *stage == at))
    }

    /// Records that the subject is proven clean: of all that this run erased, not of other erasures that earlier runs began.
    pub(crate) fn prove(&mut self) {
        let erased = self.performs().filter(|stage| self.data.evidence(*stage).is_some());
        let erased: BTreeSet<_> = erased.collect();
        self.progress.inherited.retain(|stage| !erased.contains(stage));
        self.progress.unproven.clone_from(&self.progress.inherited);
    }

    /// The stages of the plan that are not skipped.
    fn performs(&self) -> impl Iterator<Item = Stage> {
        let Plan { kind, skip, .. } = &self.plan;
        kind.plan().iter().map(|step| step.stage).filter(|stage| !skip.contains_key(stage))
    }

    /// Records that the stage may have effects which an undo has to take back.
    pub(crate) fn push_undo(&mut self) {
        let Progress { stage, undo_stack, .. } = &mut self.progress;
        if stage.undo().is_some() && !undo_stack.contains(stage) {
            undo_stack.push(*stage);
        }
    }

    /// Turns to undoing the finished stages.
    pub(crate) fn turn_back(&mut self, now: Timestamp) {
        self.progress.undoing = true;
        self.arrive(now);
    }

    /// Returns to the state in which it was accepted; its history stays.
    pub(crate) fn start_again(&mut self, now: Timestamp) {
        (self.plan.goal, self.plan.adopted) = (Goal::Run, false);
        self.progress.stage = self.plan.kind.first();
        self.progress.undoing = false;
        self.progress.detours = 0;
        self.progress.failure = None;
        self.progress.undo_stack.clear();
        self.data = self.data.restarted();
        self.arrive(now);
    }

    /// Counts a failure, and returns whether retries are left.
    pub(crate) fn count(&mut self, class: Class, evidence: &str, now: Timestamp) -> Retries {
        let stage = self.current();
        // Without an answer, or after a crash, the stage has not yet done what the person confirmed.
        let looked = !matches!(class, Class::Unanswered | Class::Crashed);
        let count = self.progress.failures.entry(class).or_insert(0);
        *count = count.saturating_add(1);
        let configured = self.data.budget(stage).retries;
        let configured = configured.filter(|_| matches!(class, Class::Retryable | Class::Unanswered));
        let often = *count > configured.unwrap_or_else(|| stage.budget(class));
        // An upstream that is too busy for too long counts as away.
        let spent = often || (class == Class::Unanswered && self.busy_too_long(now));
        self.progress.failure = Some(Failure { stage, class, evidence: bounded(evidence), at: now });
        self.progress.since = self.counted_from(now);
        self.hold.waiting = None;
        self.hold.execution = None;
        if looked {
            self.progress.confirmed = false;
            (self.hold.busy_since, self.hold.no_slot_since) = (None, None);
        }
        if spent { Retries::Spent } else { Retries::Left(self.progress.failures.values().sum()) }
    }
}

/// Whether a stage may be tried again after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retries {
    /// It may; the number of failures so far.
    Left(u32),
    /// The budget is spent.
    Spent,
}

/// Bounds evidence, which is for people, to about a screen.
pub(crate) fn bounded(evidence: &str) -> String {
    const MOST: usize = 2000;
    match evidence.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &evidence[..end]),
        None => evidence.to_owned(),
    }
}

/// The metadata of the history row of an attempt.
pub(crate) fn attempt_metadata<D: Data>(
    record: &Record<D>,
    outcome: &str,
    ended: Timestamp,
) -> Map<String, Value> {
    let progress = &record.progress;
    let started = record.hold.execution.as_ref().map_or(progress.since, |execution| execution.since);
    let mut metadata = Map::new();
    metadata.insert("stage".to_owned(), json!(record.current()));
    metadata.insert("attempt".to_owned(), json!(progress.attempt));
    metadata.insert("outcome".to_owned(), json!(outcome));
    metadata.insert("started_at".to_owned(), json!(started));
    metadata.insert("ended_at".to_owned(), json!(ended));
    if progress.undoing {
        metadata.insert("undo".to_owned(), json!(true));
    }
    metadata
}

/// Adds the failure of the attempt.
pub(crate) fn add_failure<D: Data>(metadata: &mut Map<String, Value>, record: &Record<D>) {
    if let Some(failure) = &record.progress.failure {
        metadata.insert("class".to_owned(), json!(failure.class));
        metadata.insert("evidence".to_owned(), json!(failure.evidence));
    }
}

/// Stops the run at a safe point because it is to be cancelled or restarted.
pub(crate) fn stop<D: Data>(
    mut record: Record<D>,
    subject: StateOf<D>,
    now: Timestamp,
    metadata: Map<String, Value>,
) -> Step<D> {
    let (kind, cause) = (record.plan.kind, record.cause());
    let event = if !record.progress.undo_stack.is_empty() {
        record.turn_back(now);
        Event::StopForUndo
    } else if record.plan.goal == Goal::Restart {
        record.start_again(now);
        Event::RestartClean
    } else {
        record.arrive(now);
        Event::Cancel
    };
    let state = moved(State::Running, event);
    let event = SubjectOf::<D>::on_stop(kind, state, subject, record.origin(), cause);
    let then = if state.is_worked_on() { Then::Look } else { Then::Rest };
    Step { state, record, due: Some(now), event, entry_type: ATTEMPT, metadata, then }
}

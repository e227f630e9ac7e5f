//! What one commit makes of a run; the pieces that workers and operators share.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use wardroom_core::{
    gpu_node::{
        self,
        moves::{self, Came},
    },
    run::{
        Event, State, TABLE,
        action::Goal,
        failure::{BUSY, Class, backoff},
        plan::Stage,
    },
};
use wardroom_store::Lease;

use crate::{
    record::{Failure, Record},
    stages::Data,
};

/// The state of a node.
pub(crate) type Node = gpu_node::State;

/// What a commit makes of a run and its node.
#[derive(Debug, Clone)]
pub(crate) struct Step<D> {
    pub(crate) state: State,
    pub(crate) record: Record<D>,
    pub(crate) due: Option<Timestamp>,
    /// The move of the node that is committed with it.
    pub(crate) node: Option<gpu_node::Event>,
    /// The type of the history row, unless the state changes.
    pub(crate) entry_type: &'static str,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) then: Then,
}

/// What a worker does after a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// Executes the stage: its intent is recorded.
    Work,
    /// Looks at the run again.
    Look,
    /// Lets go of it.
    Rest,
    /// The same, and only the due time changed, which is worth no history.
    KeepWaiting,
}

/// History rows of these types record attempts and what leads to them.
pub(crate) const ATTEMPT: &str = "attempt";
pub(crate) const INTENT: &str = "intent";

/// Why an attempt came to nothing whose worker is gone.
pub(crate) const LOST: &str = "the server that executed the stage did not come back";

/// When, and under which lease, a worker decides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment<'a> {
    pub(crate) now: Timestamp,
    pub(crate) lease: &'a Lease,
    pub(crate) backoff: Backoff,
    /// Between 0 and 1.
    pub(crate) jitter: f64,
    /// How long not to try again at least.
    pub(crate) after: Option<SignedDuration>,
}

/// How long to wait between attempts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    pub(crate) first: SignedDuration,
    pub(crate) most: SignedDuration,
}

impl Moment<'_> {
    /// When to try again after so many failures: between half the backoff and all of it, and not before it was asked for.
    pub(crate) fn retry_at(&self, failures: u32) -> Timestamp {
        let whole = backoff(failures, self.backoff.first, self.backoff.most);
        let wait = whole.as_secs_f64() * (0.5 + self.jitter / 2.0);
        let wait = SignedDuration::try_from_secs_f64(wait).unwrap_or(whole);
        let wait = self.after.map_or(wait, |after| wait.max(after));
        self.now.checked_add(wait).unwrap_or(self.now)
    }
}

/// Where an event leads; one without a row leads nowhere.
pub(crate) fn moved(state: State, event: Event) -> State {
    TABLE.find(state, event).map_or(state, |row| row.to)
}

impl<D: Data> Record<D> {
    /// The stage that is executed or undone next.
    #[must_use]
    pub fn current(&self) -> Stage {
        if self.undoing { self.touched.last().copied().unwrap_or(self.stage) } else { self.stage }
    }

    /// How long the current stage may wait.
    #[must_use]
    pub fn patience(&self) -> SignedDuration {
        let stage = self.current();
        let told = self.data.budget(stage).patience;
        if self.undoing {
            // What is told is how long the stage may take.
            return told.map_or(stage.patience_of_undo(), |told| told.max(stage.patience_of_undo()));
        }
        told.unwrap_or_else(|| self.kind.patience_at(stage))
    }

    /// From when on the time counts that the stage takes: what it waited for its turn, or for somebody too busy to
    /// answer, costs it no patience, and what it took before that is not forgotten.
    #[must_use]
    pub fn counted_from(&self, now: Timestamp) -> Timestamp {
        match &self.waiting {
            Some(waiting) if waiting.busy => {
                let excused = now.duration_since(waiting.since);
                self.since
                    .saturating_add(excused)
                    .map_or(now, |from| from.clamp(self.since, now.max(self.since)))
            }
            Some(waiting) if waiting.queued => now,
            Some(_) | None => self.since,
        }
    }

    /// How long whoever the current stage asks may be too busy for it.
    #[must_use]
    pub fn patience_when_busy(&self) -> SignedDuration {
        let stage = self.current();
        let told = self.data.budget(stage).patience;
        told.unwrap_or_else(|| self.kind.patience_at(stage).max(BUSY))
    }

    /// Whether they have been for longer.
    pub(crate) fn is_weary(&self, now: Timestamp) -> bool {
        self.busy_since.is_some_and(|since| now.duration_since(since) > self.patience_when_busy())
    }

    /// Nobody was asked since the run was due, because no server or no place was there, or since its attempt began and
    /// waits for its turn: that is not time in which somebody was too busy. A little of it counts nevertheless: it is not
    /// worth a row of history, and whoever is asked so seldom would be waited for without end.
    pub(crate) fn excuse(&mut self, due: Option<Timestamp>, now: Timestamp) {
        const LITTLE: SignedDuration = SignedDuration::from_mins(1);
        const LONG: SignedDuration = SignedDuration::from_mins(15);
        let kept = self.unasked_since.take();
        let late = kept.or(due).map_or(SignedDuration::ZERO, |due| now.duration_since(due));
        if late > LONG && self.waiting.as_ref().is_some_and(|waiting| !waiting.queued) {
            // Nor is it charged to the stage that nobody looked for so long.
            self.since = self.since.saturating_add(late).map_or(now, |since| since.min(now));
            self.waiting = None;
        }
        let Some(since) = self.busy_since.as_mut() else { return };
        if late > LITTLE {
            *since = since.saturating_add(late - LITTLE).map_or(now, |since| since.min(now));
        }
        if late > LITTLE || kept.is_some() {
            self.since = self.counted_from(now);
            self.waiting = None;
        }
    }

    /// The run is due and has to wait for a place: whoever is too busy is not asked from now on. Whether that is worth
    /// keeping.
    pub(crate) fn unasked(&mut self, due: Option<Timestamp>) -> bool {
        let begins = self.busy_since.is_some() && self.unasked_since.is_none();
        if begins {
            self.unasked_since = due;
        }
        begins
    }

    /// Comes to a stage, or to the next undo, with all budgets whole.
    pub(crate) fn arrive(&mut self, now: Timestamp) {
        self.since = now;
        self.sent_on = false;
        self.frozen = None;
        self.attempt = 0;
        self.failures.clear();
        self.waiting = None;
        self.busy_since = None;
        self.unasked_since = None;
        self.at_work = None;
    }

    /// The move of a node whose run begins its stage; where the node comes from is kept with it.
    pub(crate) fn enter(&mut self, node: Node) -> Option<gpu_node::Event> {
        self.came = Came::of(node, self.came);
        let erased: Vec<_> = self.erased().collect();
        self.unproven.extend(erased);
        moves::on_entry(self.kind, self.stage, node)
    }

    /// Where its node comes from, for whoever stops the run: one that is not proven clean is not used, as if it had been
    /// set aside before.
    #[must_use]
    pub fn came(&self) -> Came {
        if !self.unproven.is_empty() { Came::FromQuarantine } else { self.came }
    }

    /// The stages by which what was on the node is taken from it, if the run is at one of them or proves what they did.
    fn erased(&self) -> impl Iterator<Item = Stage> {
        let proves = self.stage == Stage::ValidateCleanNode;
        let erases = move |stage: &Stage| stage.erases() && (proves || *stage == self.stage);
        self.performs().filter(erases)
    }

    /// The node is proven clean of what the run itself began to erase; of what it inherited, of that which it erased anew.
    pub(crate) fn prove(&mut self) {
        let erased = self.performs().filter(|stage| self.data.evidence(*stage).is_some());
        let erased: BTreeSet<_> = erased.collect();
        self.inherited.retain(|stage| !erased.contains(stage));
        self.unproven.clone_from(&self.inherited);
    }

    /// The stages of the plan that nobody skips.
    fn performs(&self) -> impl Iterator<Item = Stage> {
        self.kind.plan().iter().map(|step| step.stage).filter(|stage| !self.skip.contains_key(stage))
    }

    pub(crate) fn touch(&mut self) {
        if self.stage.undo().is_some() && !self.touched.contains(&self.stage) {
            self.touched.push(self.stage);
        }
    }

    /// Turns to undoing what was done.
    pub(crate) fn turn_back(&mut self, now: Timestamp) {
        self.undoing = true;
        self.arrive(now);
    }

    /// Is as it was accepted, but for its history.
    pub(crate) fn start_again(&mut self, now: Timestamp) {
        self.stage = self.kind.first();
        self.undoing = false;
        self.goal = Goal::Run;
        self.adopted = false;
        self.repairs = 0;
        self.failure = None;
        self.touched.clear();
        self.data = self.data.restarted();
        self.arrive(now);
    }

    /// Counts a failure, and says whether it is borne.
    pub(crate) fn count(&mut self, class: Class, evidence: &str, now: Timestamp) -> Borne {
        let stage = self.current();
        // Whoever was not answered, or came down, has not done yet what a person sent it on to.
        self.sent_on &= matches!(class, Class::Unanswered | Class::Crashed);
        let count = self.failures.entry(class).or_insert(0);
        *count = count.saturating_add(1);
        let told =
            self.data.budget(stage).retries.filter(|_| matches!(class, Class::Retryable | Class::Unanswered));
        let often = *count > told.unwrap_or_else(|| stage.budget(class));
        // Who is too busy for too long is as good as away.
        let spent = often || (class == Class::Unanswered && self.is_weary(now));
        self.failure = Some(Failure { stage, class, evidence: bounded(evidence), at: now });
        self.since = self.counted_from(now);
        self.waiting = None;
        self.at_work = None;
        if !matches!(class, Class::Unanswered | Class::Crashed) {
            // Whoever fails in another way has looked.
            (self.busy_since, self.unasked_since) = (None, None);
        }
        if spent { Borne::Spent } else { Borne::Again(self.failures.values().sum()) }
    }
}

/// Whether a failure is borne.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Borne {
    /// It is; so many failures there were.
    Again(u32),
    /// The budget is spent.
    Spent,
}

/// Evidence is for people: what is longer than a screen tells them no more.
pub(crate) fn bounded(evidence: &str) -> String {
    const MOST: usize = 2000;
    match evidence.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &evidence[..end]),
        None => evidence.to_owned(),
    }
}

/// What a history row says about an attempt.
pub(crate) fn told<D: Data>(record: &Record<D>, outcome: &str, ended: Timestamp) -> Map<String, Value> {
    let started = record.at_work.as_ref().map_or(record.since, |at_work| at_work.since);
    let mut told = Map::new();
    told.insert("stage".to_owned(), json!(record.current()));
    told.insert("attempt".to_owned(), json!(record.attempt));
    told.insert("outcome".to_owned(), json!(outcome));
    told.insert("started_at".to_owned(), json!(started));
    told.insert("ended_at".to_owned(), json!(ended));
    if record.undoing {
        told.insert("undo".to_owned(), json!(true));
    }
    told
}

/// Adds why an attempt failed.
pub(crate) fn blame<D>(told: &mut Map<String, Value>, record: &Record<D>) {
    if let Some(failure) = &record.failure {
        told.insert("class".to_owned(), json!(failure.class));
        told.insert("evidence".to_owned(), json!(failure.evidence));
    }
}

/// The run stops at a safe point because it is to be cancelled or restarted.
pub(crate) fn stop<D: Data>(
    mut record: Record<D>,
    node: Node,
    now: Timestamp,
    metadata: Map<String, Value>,
) -> Step<D> {
    let kind = record.kind;
    let event = if !record.touched.is_empty() {
        record.turn_back(now);
        Event::StopForUndo
    } else if record.goal == Goal::Restart {
        record.start_again(now);
        Event::RestartClean
    } else {
        record.arrive(now);
        Event::Cancel
    };
    let state = moved(State::Running, event);
    let node = moves::on_stop(kind, state, node, record.came());
    let then = if state.is_worked_on() { Then::Look } else { Then::Rest };
    Step { state, record, due: Some(now), node, entry_type: ATTEMPT, metadata, then }
}

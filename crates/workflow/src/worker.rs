//! One worker: it has a run in hand until the run waits, fails or ends.

use std::{any::Any, panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};

use futures_util::{
    FutureExt as _,
    future::{Either, select},
};
use serde_json::{Map, json};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout},
};
use wardroom_core::run::{State, failure::Class};
use wardroom_store::{Held, Lease, Resource, Store};

use crate::{
    begin::begin,
    commit::Clock,
    conclude::conclude,
    engine::Engine,
    record::Run,
    stages::{Attempt, Data, Lost, Outcome, Stages},
    step::{Backoff, INTENT, Moment, Step, Then},
};

/// A run in the hands of a worker.
pub(crate) struct Hand<'a, D> {
    pub(crate) store: &'a Store,
    pub(crate) clock: Clock,
    pub(crate) backoff: Backoff,
    pub(crate) lease: Lease,
    pub(crate) run: Run<D>,
}

impl<D: Data> Hand<'_, D> {
    pub(crate) fn moment(&self) -> Moment<'_> {
        Moment {
            now: (self.clock)(),
            lease: &self.lease,
            backoff: self.backoff,
            jitter: jitter(),
            after: None,
        }
    }
}

/// Between 0 and 1; the middle when there is no randomness to be had.
fn jitter() -> f64 {
    getrandom::u32().map_or(0.5, |random| f64::from(random) / f64::from(u32::MAX))
}

/// Makes what a stage knows durable in the middle of an attempt.
pub(crate) struct Saver<'a, D> {
    hand: &'a mut (dyn SaveData<D> + Send + Sync),
}

impl<D: Data> Saver<'_, D> {
    pub(crate) async fn save(&mut self, data: &D) -> Result<(), Lost> {
        self.hand.save(data).await
    }

    pub(crate) async fn hold(&self) -> Result<Held, Lost> {
        self.hand.hold().await
    }
}

/// Hides what else a hand can do from a stage.
trait SaveData<D> {
    fn save<'a>(&'a mut self, data: &'a D) -> futures_util::future::BoxFuture<'a, Result<(), Lost>>;

    fn hold(&self) -> futures_util::future::BoxFuture<'_, Result<Held, Lost>>;
}

impl<D: Data> SaveData<D> for Hand<'_, D> {
    fn save<'a>(&'a mut self, data: &'a D) -> futures_util::future::BoxFuture<'a, Result<(), Lost>> {
        Box::pin(async move {
            let intent = |run: &Run<D>, _, _: &Moment<'_>| {
                let mut record = run.record.clone();
                record.data = data.clone();
                let mut metadata = Map::new();
                metadata.insert(
                    "saves".to_owned(),
                    json!({"stage": record.current(), "attempt": record.attempt}),
                );
                let due = run.resource.content.due_at;
                let (state, node, then) = (run.state, None, Then::Work);
                Some(Step { state, record, due, node, entry_type: INTENT, metadata, then })
            };
            self.commit(intent).await.map(drop)
        })
    }

    fn hold(&self) -> futures_util::future::BoxFuture<'_, Result<Held, Lost>> {
        Box::pin(self.is_ours())
    }
}

impl<S: Stages> Engine<S> {
    /// Works on a claimed run until it waits, fails, ends or is lost, and gives its lease back.
    pub(crate) async fn drive(&self, resource: Resource, lease: Lease) {
        let id = resource.content.id.clone();
        match Run::read(resource) {
            Ok(run) => {
                let mut hand = self.hand(run, lease.clone());
                if self.work_in_hand(&mut hand).await.is_err() {
                    tracing::debug!(run = id, "whoever takes the run next goes on");
                }
            }
            Err(error) => {
                // One run that cannot be read must not keep the others waiting.
                tracing::error!(run = id, %error, "a run cannot be read; it is left alone for a while");
                return;
            }
        }
        if let Err(error) = self.store.release_lease(&lease).await {
            tracing::info!(run = id, %error, "the lease of the run is left to expire");
        }
    }

    pub(crate) fn hand(&self, run: Run<S::Data>, lease: Lease) -> Hand<'_, S::Data> {
        let (store, clock, backoff) = (&self.store, Arc::clone(&self.clock), self.settings.backoff());
        Hand { store, clock, backoff, lease, run }
    }

    /// Works on a run and keeps its lease for as long as it is in hand: stages that are short one by one are long together.
    async fn work_in_hand(&self, hand: &mut Hand<'_, S::Data>) -> Result<(), Lost> {
        let (id, lease, over) = (hand.run.id().to_owned(), hand.lease.clone(), Notify::new());
        let (work, keep) = (pin!(self.work(hand)), pin!(self.keep(&lease, &over)));
        match select(work, keep).await {
            Either::Left((worked, keep)) => {
                // A renewal that is under way would take the lease again after it was given back.
                over.notify_one();
                keep.await;
                worked
            }
            Either::Right(_) => {
                tracing::warn!(run = id, "the lease was lost in the middle of a stage");
                Err(Lost)
            }
        }
    }

    async fn work(&self, hand: &mut Hand<'_, S::Data>) -> Result<(), Lost> {
        loop {
            let mut then = hand.commit(begin).await?.unwrap_or(Then::Work);
            while then == Then::Work {
                let outcome = self.execute(hand).await?;
                let concluded = hand
                    .commit(|run, node, moment| Some(conclude(run, node, outcome.clone(), moment)))
                    .await?;
                then = concluded.unwrap_or(Then::Rest);
            }
            if then != Then::Look {
                return Ok(());
            }
        }
    }

    /// Executes the current stage, or its undo, once. A stage that comes down takes nobody with it.
    async fn execute(&self, hand: &mut Hand<'_, S::Data>) -> Result<Outcome<S::Data>, Lost> {
        let record = hand.run.record.clone();
        let undoing = hand.run.state == State::Compensating;
        let stage = record.current();
        if !undoing && record.skip.contains_key(&stage) {
            return Ok(Outcome::Done(record.data));
        }
        let id = hand.run.id().to_owned();
        let attempt = Attempt {
            run: &id,
            kind: record.kind,
            node: &record.node,
            site: record.site.as_deref(),
            stage,
            number: record.attempt,
            since: record.since,
            now: (self.clock)(),
            sent_on: record.sent_on,
            turn: record.turn,
            failure: record.failure.filter(|failure| failure.stage == stage),
            data: record.data,
            limits: &self.limits,
            breaker: &self.breaker,
            saver: Saver { hand },
        };
        let site = record.site.as_deref();
        let work = async {
            if undoing { self.stages.undo(attempt).await } else { self.stages.perform(attempt).await }
        };
        tokio::select! {
            ended = AssertUnwindSafe(work).catch_unwind() => match ended {
                Ok(outcome) => outcome,
                Err(panic) => {
                    let evidence = format!("the stage came down: {}", said(&*panic));
                    tracing::error!(run = id, %stage, evidence, "a stage came down");
                    Ok(Outcome::Retry { class: Class::Crashed, evidence, after: None })
                }
            },
            limit = self.time_out(site) => Ok(Outcome::Retry {
                class: Class::Retryable,
                evidence: format!("no answer within {} s; it may have worked", limit.as_secs()),
                after: None,
            }),
        }
    }

    /// Ends when a stage that began now has taken too long, and says what that was. What it may wait for its turns is
    /// looked at again then: its site may have become slower meanwhile.
    async fn time_out(&self, site: Option<&str>) -> Duration {
        let began = Instant::now();
        loop {
            let limit = self.settings.stage_limit + self.limits.turns(site, self.settings.room());
            let left = limit.saturating_sub(began.elapsed());
            if left.is_zero() {
                return limit;
            }
            sleep(left).await;
        }
    }

    /// Keeps a lease alive; ends when it is lost, or not needed any more.
    async fn keep(&self, lease: &Lease, over: &Notify) {
        let length = self.settings.lease;
        let mut left = length;
        let pause = length / 3;
        while timeout(pause, over.notified()).await.is_err() {
            match self.store.acquire_lease(&lease.name, &lease.holder, length).await {
                Ok(Some(renewed)) if renewed.epoch == lease.epoch => left = length,
                Ok(_) => return,
                Err(error) => {
                    tracing::warn!(lease = lease.name, %error, "a lease cannot be renewed");
                    left = left.saturating_sub(pause);
                    if left <= Duration::ZERO {
                        return;
                    }
                }
            }
        }
    }
}

/// What a panic said.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it did not say why")
}

//! One worker: it works on a run until the run waits, fails or ends.

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
use wardroom_core::{
    backoff::Backoff,
    run::{State, failure::Class},
};
use wardroom_store::{Held, Lease, Resource, Store};

use crate::{
    begin::begin,
    commit::Clock,
    conclude::conclude,
    engine::Engine,
    record::Run,
    stages::{Attempt, Data, Lost, Outcome, Stages},
    step::{INTENT, Moment, Step, Then},
};

/// A claimed run, its lease, and the parts that its worker needs to commit.
pub(crate) struct RunHandle<'a, D: Data> {
    pub(crate) store: &'a Store,
    pub(crate) clock: Clock,
    pub(crate) backoff: Backoff,
    pub(crate) lease: Lease,
    pub(crate) run: Run<D>,
}

impl<D: Data> RunHandle<'_, D> {
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

/// Returns a random number between 0 and 1, for a back-off; the middle when the system has no randomness.
pub fn jitter() -> f64 {
    getrandom::u32().map_or(0.5, |random| f64::from(random) / f64::from(u32::MAX))
}

/// Saves the data of a stage in the middle of an attempt.
pub(crate) struct Saver<'a, D> {
    handle: &'a mut (dyn SaveData<D> + Send + Sync),
}

impl<D: Data> Saver<'_, D> {
    pub(crate) async fn save(&mut self, data: &D) -> Result<(), Lost> {
        self.handle.save(data).await
    }

    pub(crate) async fn hold(&self) -> Result<Held, Lost> {
        self.handle.hold().await
    }
}

/// The part of a handle that a stage may use.
trait SaveData<D> {
    fn save<'a>(&'a mut self, data: &'a D) -> futures_util::future::BoxFuture<'a, Result<(), Lost>>;

    fn hold(&self) -> futures_util::future::BoxFuture<'_, Result<Held, Lost>>;
}

impl<D: Data> SaveData<D> for RunHandle<'_, D> {
    fn save<'a>(&'a mut self, data: &'a D) -> futures_util::future::BoxFuture<'a, Result<(), Lost>> {
        Box::pin(async move {
            let intent = |run: &Run<D>, _, _: &Moment<'_>| {
                let mut record = run.record.clone();
                record.data = data.clone();
                let mut metadata = Map::new();
                metadata.insert(
                    "saves".to_owned(),
                    json!({"stage": record.current(), "attempt": record.progress.attempt}),
                );
                let due = run.resource.content.due_at;
                let (state, event, then) = (run.state, None, Then::Work);
                Some(Step { state, record, due, event, entry_type: INTENT, metadata, then })
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
                let mut handle = self.handle(run, lease.clone());
                if self.work_in_hand(&mut handle).await.is_err() {
                    tracing::debug!(run = id, "run lost; the next worker that claims it continues");
                }
            }
            Err(error) => {
                tracing::error!(run = id, %error, "run unreadable; skipped until its lease expires");
                return;
            }
        }
        if let Err(error) = self.store.release_lease(&lease).await {
            tracing::info!(run = id, %error, "run lease not released; it expires by itself");
        }
    }

    pub(crate) fn handle(&self, run: Run<S::Data>, lease: Lease) -> RunHandle<'_, S::Data> {
        let (store, clock, backoff) = (&self.store, Arc::clone(&self.clock), self.settings.backoff());
        RunHandle { store, clock, backoff, lease, run }
    }

    /// Works on a run and renews its lease meanwhile: many short stages together take longer than one lease.
    async fn work_in_hand(&self, handle: &mut RunHandle<'_, S::Data>) -> Result<(), Lost> {
        let (id, lease, over) = (handle.run.id().to_owned(), handle.lease.clone(), Notify::new());
        let (work, keep) = (pin!(self.work(handle)), pin!(self.keep(&lease, &over)));
        match select(work, keep).await {
            Either::Left((worked, keep)) => {
                // Let a renewal under way end first: it would take the lease again after its release.
                over.notify_one();
                keep.await;
                worked
            }
            Either::Right(_) => {
                tracing::warn!(run = id, "run lease lost during a stage; the stage is abandoned");
                Err(Lost)
            }
        }
    }

    async fn work(&self, handle: &mut RunHandle<'_, S::Data>) -> Result<(), Lost> {
        loop {
            let mut then = handle.commit(begin).await?.unwrap_or(Then::Work);
            while then == Then::Work {
                let outcome = self.execute(handle).await?;
                let concluded = handle
                    .commit(|run, subject, moment| Some(conclude(run, subject, outcome.clone(), moment)))
                    .await?;
                then = concluded.unwrap_or(Then::Rest);
            }
            if then != Then::Look {
                return Ok(());
            }
        }
    }

    /// Executes the current stage, or its undo, once. A panic fails this attempt only.
    async fn execute(&self, handle: &mut RunHandle<'_, S::Data>) -> Result<Outcome<S::Data>, Lost> {
        let record = handle.run.record.clone();
        let undoing = handle.run.state == State::Compensating;
        let stage = record.current();
        if !undoing && record.plan.skip.contains_key(&stage) {
            return Ok(Outcome::Done(record.data));
        }
        let id = handle.run.id().to_owned();
        let attempt = Attempt {
            run: &id,
            kind: record.plan.kind,
            subject: &record.plan.subject.id,
            site: record.plan.site.as_deref(),
            stage,
            number: record.progress.attempt,
            since: record.progress.since,
            now: (self.clock)(),
            confirmed: record.progress.confirmed,
            generation: record.hold.generation,
            failure: record.progress.failure.filter(|failure| failure.stage == stage),
            data: record.data,
            limits: &self.limits,
            breaker: &self.breaker,
            saver: Saver { handle },
        };
        let site = record.plan.site.as_deref();
        let work = async {
            if undoing { self.stages.undo(attempt).await } else { self.stages.perform(attempt).await }
        };
        tokio::select! {
            ended = AssertUnwindSafe(work).catch_unwind() => match ended {
                Ok(outcome) => outcome,
                Err(panic) => {
                    let evidence = format!("the stage panicked: {}", panic_message(&*panic));
                    tracing::error!(run = id, %stage, evidence, "stage panicked; the attempt failed");
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

    /// Waits until a stage that began now has taken too long, and returns the limit. The limit is computed again at its end,
    /// because the rate of the site may have been lowered meanwhile.
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
                    tracing::warn!(lease = lease.name, %error, "lease not renewed; retrying");
                    left = left.saturating_sub(pause);
                    if left <= Duration::ZERO {
                        return;
                    }
                }
            }
        }
    }
}

/// The message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

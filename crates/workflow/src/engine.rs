//! The engine: claims runs that are due and hands each to a worker.
//!
//! Runs are claimed the longest overdue first and executed side by side, so that none waits for another's stage. A
//! run that finds no place at its site comes back later and keeps no place from the runs of other sites.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use tokio::{
    sync::{Mutex, watch},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use wardroom_store::{Lease, Resource, Result, Store};

use crate::{
    RUN,
    begin::unasked,
    breaker::Breaker,
    commit::Clock,
    limits::{Limits, Place, Room},
    presence::ENGINE,
    record::Run,
    stages::Stages,
    step::Backoff,
};

/// How the engine works.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who this engine is: nobody else ever has the same name.
    pub holder: String,
    /// Runs that are executed at once.
    pub workers: usize,
    /// Runs of one site that are executed at once.
    pub site_cap: usize,
    /// How long a run stays with a worker that says nothing; renewed three times as often.
    pub lease: Duration,
    /// How long one execution of a stage may take, besides what it waits for its turns at a site.
    pub stage_limit: Duration,
    /// The wait after the first failure; it doubles with each one.
    pub first_backoff: SignedDuration,
    /// The longest wait after a failure.
    pub longest_backoff: SignedDuration,
    /// What everything on this server shares that calls out for runs.
    pub limits: Limits,
    /// How often to say that this engine is there; those that were not heard of for a while do not count.
    pub presence: Duration,
    /// How often to look for due runs when nothing else says that there are any.
    pub poll: Duration,
}

impl Settings {
    /// What suits a server. A call of an upstream may take a minute, so the lease is longer than that.
    #[must_use]
    pub fn new(holder: String) -> Self {
        Self {
            holder,
            workers: 64,
            site_cap: 32,
            lease: Duration::from_secs(120),
            stage_limit: Duration::from_secs(100),
            first_backoff: SignedDuration::from_secs(5),
            longest_backoff: SignedDuration::from_mins(10),
            limits: Limits::default(),
            presence: Duration::from_secs(1),
            poll: Duration::from_secs(1),
        }
    }

    pub(crate) fn room(&self) -> Room {
        Room { site: self.site_cap, all: self.workers }
    }

    pub(crate) fn backoff(&self) -> Backoff {
        Backoff { first: self.first_backoff, most: self.longest_backoff }
    }
}

/// Executes runs.
pub struct Engine<S> {
    pub(crate) store: Store,
    pub(crate) stages: S,
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) limits: Limits,
    pub(crate) breaker: Breaker,
    /// Sites are met one at a time: whoever comes with the same one finds it known.
    meeting: Mutex<()>,
}

/// How long workers may go on when the engine is to stop; what they do not finish, another engine takes over.
const GRACE: Duration = Duration::from_secs(5);

impl<S: Stages> Engine<S> {
    /// An engine over a store.
    pub fn new(
        store: Store,
        stages: S,
        settings: Settings,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Self {
        let (breaker, clock) = (Breaker::new(store.clone()), Arc::new(clock));
        let limits = settings.limits.clone();
        Self { store, stages, settings, clock, limits, breaker, meeting: Mutex::default() }
    }

    /// Executes runs until it is told to stop.
    pub async fn run(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        if self.be_present().await > 1 {
            // The others have to know of this one before it takes its part.
            tokio::select! {
                () = sleep(self.settings.presence * 2) => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
        }
        let there = Arc::clone(&self);
        let mut stopping = stop.clone();
        let stay = async move {
            loop {
                tokio::select! {
                    () = sleep(there.settings.presence) => {}
                    _ = stopping.wait_for(|stop| *stop) => return,
                }
                there.be_present().await;
            }
        };
        futures_util::future::join(stay, Arc::clone(&self).work_off(stop)).await;
        self.leave().await;
    }

    async fn work_off(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut workers = JoinSet::new();
        let mut changes = self.store.watch();
        while !*stop.borrow() {
            while workers.try_join_next().is_some() {}
            let free = self.settings.workers.saturating_sub(workers.len());
            let claimed = match self.claim(free).await {
                Ok(claimed) => claimed,
                Err(error) => {
                    tracing::warn!(%error, "no runs can be claimed; it is tried again");
                    Vec::new()
                }
            };
            let more = free > 0 && claimed.len() == free;
            for claim in claimed {
                let engine = Arc::clone(&self);
                workers.spawn(async move { engine.serve(claim).await });
            }
            if more {
                continue;
            }
            let pause = self.pause(free).await;
            tokio::select! {
                () = sleep(pause) => {}
                Some(_) = workers.join_next(), if free == 0 => {}
                () = news(&mut changes), if free > 0 => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
        }
        let ended = async { while workers.join_next().await.is_some() {} };
        if timeout(GRACE, ended).await.is_err() {
            tracing::info!("runs in hand are left to whoever takes them next");
        }
    }

    /// Takes all leases on runs away, for a store that nobody else works on.
    pub async fn take_over(&self) -> Result<()> {
        for prefix in [&format!("{RUN}/"), ENGINE] {
            for lease in self.store.leases(prefix).await?.iter().filter(|lease| !lease.remaining.is_zero()) {
                self.store.release_lease(lease).await?;
            }
        }
        Ok(())
    }

    /// Claims what is due now, as far as there are workers, and works on it; says how many runs that were.
    pub async fn tick(&self) -> Result<usize> {
        let claimed = self.claim(self.settings.workers).await?;
        let count = claimed.len();
        futures_util::future::join_all(claimed.into_iter().map(|claim| self.serve(claim))).await;
        Ok(count)
    }

    /// How long nothing is due.
    async fn pause(&self, free: usize) -> Duration {
        let poll = self.settings.poll;
        if free == 0 {
            return poll;
        }
        match self.store.next_due(RUN).await {
            Ok(Some(due)) => {
                let wait = due.duration_since((self.clock)());
                // Never nothing at all: clocks differ, and a due time that has passed here has not there.
                Duration::try_from(wait).unwrap_or_default().clamp(Duration::from_millis(2), poll)
            }
            Ok(None) | Err(_) => poll,
        }
    }

    async fn claim(&self, limit: usize) -> Result<Vec<(Resource, Lease)>> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        self.store.claim_due(RUN, &self.settings.holder, self.settings.lease, limit).await
    }

    async fn serve(&self, (resource, lease): (Resource, Lease)) {
        match self.place(&resource).await {
            Ok(_place) => self.drive(resource, lease).await,
            Err(wait) => self.put_off(&resource, &lease, wait).await,
        }
    }

    async fn place(&self, resource: &Resource) -> std::result::Result<Place, Duration> {
        let site = resource.content.fields.get("site").map(String::as_str);
        if let Some(site) = site.filter(|site| !self.limits.knows(site)) {
            let _meeting = self.meeting.lock().await;
            if !self.limits.knows(site) {
                self.stages.meet(site).await;
            }
        }
        self.limits.enter(site, self.settings.room(), &resource.content.id, Instant::now())
    }

    async fn put_off(&self, resource: &Resource, lease: &Lease, wait: Duration) {
        let now = (self.clock)();
        let until = SignedDuration::try_from(wait).ok().and_then(|wait| now.checked_add(wait).ok());
        let (id, until) = (&resource.content.id, until.unwrap_or(now));
        if !self.put_off_unasked(resource, lease, until).await {
            // A run that somebody changed meanwhile is due as they say.
            if let Err(error) = self.store.put_off(lease, resource, until).await {
                tracing::info!(run = id, %error, "the run cannot be put off");
            }
        }
        if let Err(error) = self.store.release_lease(lease).await {
            tracing::info!(run = id, %error, "the run comes back when its lease has expired");
        }
    }

    /// The same for a run that was told to come again: that nobody comes is kept with it, once.
    async fn put_off_unasked(&self, resource: &Resource, lease: &Lease, until: Timestamp) -> bool {
        let Ok(run) = Run::<S::Data>::read(resource.clone()) else { return false };
        if !run.record.clone().unasked(resource.content.due_at) {
            return false;
        }
        let committed = self.hand(run, lease.clone()).commit(|run, _, _| unasked(run, until)).await;
        committed.is_ok_and(|then| then.is_some())
    }
}

/// Waits until something may be due that was not, and a little for what else is being changed: where much happens,
/// looking for work after each of it would cost more than the work.
async fn news(changes: &mut watch::Receiver<u64>) {
    const GATHER: Duration = Duration::from_millis(10);
    if changes.changed().await.is_err() {
        // The store is about to close.
        std::future::pending::<()>().await;
    }
    sleep(GATHER).await;
}

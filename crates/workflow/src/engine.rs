//! The engine: claims runs that are due and gives each to a worker.
//!
//! The run that is overdue longest is claimed first; runs are executed side by side. A run that finds no free slot at its
//! site is put off, and takes no worker from the runs of other sites.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use tokio::{
    sync::{Mutex, watch},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use wardroom_core::backoff::Backoff;
use wardroom_store::{Lease, Resource, Result, Store};

use crate::{
    RUN,
    begin::waits_for_slot,
    breaker::Breaker,
    commit::Clock,
    limits::{Limits, Place, Room},
    presence::ENGINE,
    record::Run,
    stages::Stages,
};

/// How the engine works.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The name of this engine as a lease holder, unique for all time.
    pub holder: String,
    /// Runs that are executed at once.
    pub workers: usize,
    /// Runs of one site that are executed at once.
    pub site_cap: usize,
    /// The length of the lease on a run; renewed three times as often.
    pub lease: Duration,
    /// How long one execution of a stage may take, besides the time that it waits for the rate limit of its site.
    pub stage_limit: Duration,
    /// The wait after the first failure; it doubles with each one.
    pub first_backoff: SignedDuration,
    /// The longest wait after a failure.
    pub longest_backoff: SignedDuration,
    /// The limits that all outgoing calls of this server share.
    pub limits: Limits,
    /// How often this engine renews its presence; an engine that stops renewing it is not counted.
    pub presence: Duration,
    /// How often to look for due runs without a change in the store.
    pub poll: Duration,
}

impl Settings {
    /// The settings of a server. A call of an upstream may take a minute, so the lease is longer than that.
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
        Backoff { first: self.first_backoff, longest: self.longest_backoff }
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
    /// Lets one run at a time introduce its site; the next run of that site finds it known.
    meeting: Mutex<()>,
}

/// How long workers may continue when the engine is to stop; another engine takes over unfinished runs.
const GRACE: Duration = Duration::from_secs(5);

impl<S: Stages> Engine<S> {
    /// Creates an engine over a store.
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
            // The other engines have to count this one before it takes its share.
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
                    tracing::warn!(%error, "runs not claimed; retrying");
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
            tracing::info!("workers not finished in time; other engines take over their runs");
        }
    }

    /// Releases all leases on runs, for a store that no other engine works on.
    pub async fn take_over(&self) -> Result<()> {
        for prefix in [&format!("{RUN}/"), ENGINE] {
            for lease in self.store.leases(prefix).await?.iter().filter(|lease| !lease.remaining.is_zero()) {
                self.store.release_lease(lease).await?;
            }
        }
        Ok(())
    }

    /// Claims as many due runs as there are workers, and works on them; returns their number.
    pub async fn tick(&self) -> Result<usize> {
        let claimed = self.claim(self.settings.workers).await?;
        let count = claimed.len();
        futures_util::future::join_all(claimed.into_iter().map(|claim| self.serve(claim))).await;
        Ok(count)
    }

    /// How long to wait for the next due run.
    async fn pause(&self, free: usize) -> Duration {
        let poll = self.settings.poll;
        if free == 0 {
            return poll;
        }
        match self.store.next_due(RUN).await {
            Ok(Some(due)) => {
                let wait = due.duration_since((self.clock)());
                // Never zero: by the clock of the database, the due time may not have come yet.
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
        if !self.put_off_without_slot(resource, lease, until).await {
            // A run that was changed meanwhile keeps its new due time.
            if let Err(error) = self.store.put_off(lease, resource, until).await {
                tracing::info!(run = id, %error, "next attempt of the run not scheduled; the run is claimed again when its lease expires");
            }
        }
        if let Err(error) = self.store.release_lease(lease).await {
            tracing::info!(run = id, %error, "run lease not released; it expires by itself");
        }
    }

    /// The same for a run whose upstream is busy: records once that it waits for a slot, and not for the upstream.
    async fn put_off_without_slot(&self, resource: &Resource, lease: &Lease, until: Timestamp) -> bool {
        let Ok(run) = Run::<S::Data>::read(resource.clone()) else { return false };
        if !run.record.clone().waits_for_slot(resource.content.due_at) {
            return false;
        }
        let committed = self.handle(run, lease.clone()).commit(|run, _, _| waits_for_slot(run, until)).await;
        committed.is_ok_and(|then| then.is_some())
    }
}

/// Waits for a change in the store, and a moment longer for more: under load, looking for due runs after each change would
/// cost more than the work itself.
async fn news(changes: &mut watch::Receiver<u64>) {
    const GATHER: Duration = Duration::from_millis(10);
    if changes.changed().await.is_err() {
        // The store is about to close.
        std::future::pending::<()>().await;
    }
    sleep(GATHER).await;
}

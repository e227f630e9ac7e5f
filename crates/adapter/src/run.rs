//! `run`: follows the server's events and Kubernetes' changes, works on clusters, and reports.
//!
//! ```text
//! events of the server ─┐
//! list at the start ────┼─▶ queue, one entry for each cluster ─▶ workers ─▶ flow ─▶ report
//! watches of objects ───┘                    ▲                                │
//!                                            └──── back-off after a failure ──┘
//! ```
//!
//! What must stay true: a cluster is worked on by one worker at a time, and a cluster that fails waits by itself;
//! nothing has to be remembered over a restart, since everything is listed again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::Value as Json;
use tokio::{
    sync::{RwLock, Semaphore},
    task::JoinSet,
};
use wardroom_api::client::{Client, Error};
use wardroom_upstream::kubernetes::Kubernetes;

use crate::{
    clock,
    config::Config,
    flow,
    world::{Live, World, may_pass},
};

mod follow;
mod interest;
mod queue;
mod watch;

pub(crate) use interest::Interest;

use interest::Interests;
use queue::{Queue, Verdict, Work};

/// Clusters that are worked on at once.
const WORKERS: usize = 16;

/// Longest work on one cluster.
const WORK: Duration = Duration::from_secs(120);

/// Everything that the parts share.
pub(crate) struct Adapter {
    config: Config,
    connection: Connection,
    kubernetes: Option<Kubernetes>,
    queue: Queue,
    interests: Interests,
    /// Whether a cluster was given up: everything is listed when the server is reached again.
    has_given_up: AtomicBool,
}

/// The server, with a token that is read again when it is no longer accepted.
pub(crate) struct Connection {
    pub(crate) make: Box<dyn Fn() -> anyhow::Result<Client> + Send + Sync>,
    pub(crate) base: String,
    client: RwLock<Client>,
}

impl Connection {
    pub(crate) fn new(
        base: &str,
        make: impl Fn() -> anyhow::Result<Client> + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        let client = RwLock::new(make()?);
        Ok(Self { make: Box::new(make), base: base.trim_end_matches('/').to_owned(), client })
    }

    async fn client(&self) -> Client {
        self.client.read().await.clone()
    }

    /// Reads the token again after a 401: it may have been replaced.
    async fn refresh(&self, error: &Error) {
        if error.status() != Some(401) {
            return;
        }
        match (self.make)() {
            Ok(client) => *self.client.write().await = client,
            Err(error) => tracing::warn!("the token cannot be read: {error:#}"),
        }
    }
}

/// Runs an adapter until the process ends.
pub(crate) async fn run(config: Config, connection: Connection, kubernetes: Option<Kubernetes>) {
    let adapter = Arc::new(Adapter {
        config,
        connection,
        kubernetes,
        queue: Queue::default(),
        interests: Interests::default(),
        has_given_up: AtomicBool::new(false),
    });
    let mut parts = JoinSet::new();
    parts.spawn(follow::follow(Arc::clone(&adapter)));
    parts.spawn(watch::watch(Arc::clone(&adapter)));
    parts.spawn(work(adapter));
    // No part ends by itself; one that panicked takes the process along, so that its supervisor starts it again.
    parts.join_next().await;
    tracing::error!("a part of the adapter ended");
}

/// Hands clusters that are due to workers.
async fn work(adapter: Arc<Adapter>) {
    let places = Arc::new(Semaphore::new(WORKERS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let work = adapter.queue.next().await;
        let adapter = Arc::clone(&adapter);
        tokio::spawn(async move {
            // An entry comes back also when its work panics.
            let running = adapter.queue.running(&work.id);
            let verdict = match tokio::time::timeout(WORK, reconcile(&adapter, &work)).await {
                Ok(verdict) => verdict,
                Err(_) => {
                    tracing::warn!(cluster = work.id, "working on the cluster took too long");
                    Verdict::Again
                }
            };
            if running.conclude(verdict) {
                tracing::warn!(cluster = work.id, "giving up until the cluster changes or is due again");
                adapter.has_given_up.store(true, Ordering::Relaxed);
            }
            drop(place);
        });
    }
}

/// Works on one cluster: reads it, brings its resources about, and reports.
async fn reconcile(adapter: &Adapter, work: &Work) -> Verdict {
    let Adapter { config, connection, .. } = adapter;
    let client = connection.client().await;
    let cluster = match client.read(&work.href).await {
        Ok(cluster) => cluster,
        Err(error) => return adapter.refused(work, &error, "cannot be read").await,
    };
    // The time and the generation are those from before anything is done.
    let now = clock::now();
    let live = Live {
        client: client.clone(),
        base: connection.base.clone(),
        kubernetes: adapter.kubernetes.clone(),
    };
    let mut world = World::Live(Box::new(live));
    let outcome = flow::process(config, &work.event, &cluster, &mut world, now).await;
    adapter.interests.set(&work.id, outcome.interests);
    for message in &outcome.messages {
        tracing::info!(cluster = work.id, "{message}");
    }
    if let Some(error) = &outcome.error {
        tracing::warn!(cluster = work.id, phase = error.phase, step = error.step, "{}", error.message);
    }
    if let Some(payload) = &outcome.trace.payload {
        match client.report(&format!("{}/statuses", work.href), payload).await {
            Ok(answer) => {
                let discarded = answer.get("discarded").and_then(Json::as_str).unwrap_or_default();
                tracing::debug!(
                    cluster = work.id,
                    status = outcome.trace.status,
                    discarded,
                    "status reported"
                );
            }
            Err(error) => return adapter.refused(work, &error, "cannot be reported on").await,
        }
    }
    match outcome.error {
        Some(error) if error.may_pass => Verdict::Again,
        Some(_) | None => Verdict::Done,
    }
}

impl Adapter {
    /// Says what an error of the server means for a cluster.
    async fn refused(&self, work: &Work, error: &Error, what: &str) -> Verdict {
        if error.is_not_found() {
            tracing::info!(cluster = work.id, "the cluster is gone");
            self.interests.forget(&work.id);
            return Verdict::Gone;
        }
        self.connection.refresh(error).await;
        tracing::warn!(cluster = work.id, "the cluster {what}: {error}");
        if may_pass(error) { Verdict::Again } else { Verdict::Done }
    }
}

#[cfg(test)]
mod tests;

//! What works on GPU nodes in the background: the engine, the poller, the reconciler and the sweeper of owners.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio::{sync::watch, task::JoinSet};
use uuid::Uuid;
use wardroom_store::Location;
use wardroom_workflow::{Engine, Settings};

use super::{
    cache::{self, Batch},
    drift, owners, proof,
    stages::Workers,
    upstream::Clients,
};
use crate::{app::App, error::Error};

/// How often to see whether a site is due.
const TICK: Duration = Duration::from_millis(100);
/// How often to see whether a site is to be swept.
const SWEEP: Duration = Duration::from_secs(5);

/// Starts everything; it ends when `stop` says so.
pub(crate) fn spawn_all(app: &App, stop: &watch::Receiver<bool>, jobs: &mut JoinSet<()>) {
    let workers = Workers::new(app.clone());
    let holder = format!("server {}", Uuid::now_v7());
    let (clock, mut settings) = (app.clock, Settings::new(holder.clone()));
    settings.limits = workers.limits.clone();
    if matches!(app.config.location, Location::Sqlite { .. }) {
        // An embedded database has no other server to count.
        settings.presence = Duration::from_hours(1);
    }
    let engine = Engine::new(app.store.clone(), workers.clone(), settings, move || clock.now());
    jobs.spawn(execute(app.clone(), engine, stop.clone()));
    jobs.spawn(poll(workers.clone(), stop.clone()));
    jobs.spawn(every(SWEEP, stop.clone(), "drift", {
        let workers = workers.clone();
        move || {
            let (workers, holder) = (workers.clone(), holder.clone());
            async move { drift::sweep(&workers, &holder).await }
        }
    }));
    let app = app.clone();
    jobs.spawn(every(app.config.gpu_nodes.owners, stop.clone(), "owners", move || {
        let app = app.clone();
        async move { owners::sweep(&app).await }
    }));
}

/// Executes runs until the server stops.
async fn execute(app: App, engine: Engine<Workers>, stop: watch::Receiver<bool>) {
    // An embedded database has no other server: what is still leased was left by one that is gone.
    let embedded = matches!(app.config.location, Location::Sqlite { .. });
    if embedded && let Err(error) = engine.take_over().await {
        tracing::warn!(%error, "runs of the server before this one wait until their leases expire");
    }
    Arc::new(engine).run(stop).await;
}

impl Workers {
    pub(crate) fn new(app: App) -> Self {
        let clients = Arc::new(Clients::new(app.config.secrets.clone()));
        Self {
            app,
            clients,
            cache: Arc::default(),
            limits: wardroom_workflow::Limits::default(),
        }
    }
}

async fn every<F>(
    period: Duration,
    mut stop: watch::Receiver<bool>,
    name: &'static str,
    job: impl Fn() -> F + Send + 'static,
) where
    F: Future<Output = Result<(), Error>> + Send,
{
    loop {
        tokio::select! {
            () = tokio::time::sleep(period) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        if let Err(error) = job().await {
            tracing::warn!(job = name, %error, "a job failed; it is tried again");
        }
    }
}

/// Looks at the machines that stages wait for, a batch for each site.
pub(crate) async fn poll(workers: Workers, mut stop: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        // A site that does not answer must not keep the others waiting.
        let due = workers.cache.due(workers.app.now());
        join_all(due.into_iter().map(|batch| look(&workers, batch))).await;
    }
}

/// Looks at the machines of a batch once, for who waits and for the record.
pub(crate) async fn look(workers: &Workers, batch: Batch) {
    let Batch { site, settings, machines } = batch;
    let at = workers.app.now();
    let session = match workers.clients.session(&site, &settings, &workers.limits) {
        Ok(session) => session,
        Err(error) => {
            tracing::warn!(site, error, "the machines of a site cannot be looked at");
            return;
        }
    };
    let ids: Vec<_> = machines.iter().map(|(id, _)| id.as_str()).collect();
    let mut found = match session.machines(&ids).await {
        Ok(found) => found,
        Err(error) => {
            tracing::info!(site, %error, "the machines of a site were not seen this time");
            return;
        }
    };
    let mut seen = Vec::with_capacity(machines.len());
    for (id, node) in machines {
        let place = found.iter().position(|machine| machine.system_id == id);
        let machine = place.map(|place| found.swap_remove(place));
        let document = cache::seen(&site, &id, machine.as_ref());
        if let Err(error) = proof::note(&workers.app, &node, &document, at).await {
            tracing::info!(node, %error, "what was seen of a machine could not be kept");
        }
        seen.push((id, machine));
    }
    workers.cache.keep(&site, at, seen);
}

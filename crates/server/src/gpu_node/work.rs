//! What works on GPU nodes in the background: the engine, the poller, the reconciler and the sweeper of owners.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    task::{AbortHandle, JoinSet},
};
use uuid::Uuid;
use wardroom_store::Location;
use wardroom_upstream::maas::Repeat;
use wardroom_workflow::{Engine, Settings};

use super::{
    cache::{self, Batch},
    drift,
    listing::Listing,
    owners, proof,
    stages::Workers,
    upstream::{Clients, Looker},
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
    jobs.spawn(sweep(workers, holder, stop.clone()));
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
        Self { app, clients, cache: Arc::default(), limits: wardroom_workflow::Limits::default() }
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

/// Looks at the machines that stages wait for, a batch for each MAAS.
pub(crate) async fn poll(workers: Workers, mut stop: watch::Receiver<bool>) {
    let mut sites = Sites::default();
    while sites.pause(TICK, &mut stop).await {
        for batch in workers.cache.due(workers.app.now()) {
            let workers = workers.clone();
            sites.start(batch.maas.clone(), async move { look(&workers, batch).await });
        }
    }
}

/// Compares the nodes of each site with its MAAS when its time has come.
pub(crate) async fn sweep(workers: Workers, holder: String, mut stop: watch::Receiver<bool>) {
    let mut sites = Sites::default();
    while sites.pause(SWEEP, &mut stop).await {
        let due = match drift::due(&workers, &holder).await {
            Ok(due) => due,
            Err(error) => {
                tracing::warn!(job = "drift", %error, "a job failed; it is tried again");
                continue;
            }
        };
        for (name, settings) in due {
            let workers = workers.clone();
            sites.start(name.clone(), async move {
                if let Err(error) = drift::sweep_site(&workers, &name, &settings).await {
                    tracing::warn!(site = name, %error, "a site could not be compared with its MAAS");
                }
            });
        }
    }
}

/// Work at sites, at each by itself: one whose MAAS does not answer keeps no other waiting. All of it ends when this is
/// dropped.
#[derive(Default)]
struct Sites {
    tasks: JoinSet<()>,
    at: HashMap<String, AbortHandle>,
}

impl Sites {
    /// Waits for the next round; false when the server stops.
    async fn pause(&mut self, period: Duration, stop: &mut watch::Receiver<bool>) -> bool {
        while self.tasks.try_join_next().is_some() {}
        self.at.retain(|_, task| !task.is_finished());
        tokio::select! {
            () = tokio::time::sleep(period) => true,
            _ = stop.wait_for(|stop| *stop) => false,
        }
    }

    /// Begins the work at a site, unless the last one is still under way.
    fn start(&mut self, site: String, work: impl Future<Output = ()> + Send + 'static) {
        if self.at.get(&site).is_none_or(AbortHandle::is_finished) {
            self.at.insert(site, self.tasks.spawn(work));
        }
    }
}

/// Looks at the machines of a batch once, for who waits and for the record.
pub(crate) async fn look(workers: &Workers, batch: Batch) {
    let Batch { maas, site, settings, machines } = batch;
    let session = match workers.clients.session(&site, &settings, &workers.limits) {
        Ok(session) => session,
        Err(error) => {
            tracing::warn!(site, error, "the machines of a site cannot be looked at");
            return;
        }
    };
    let ids: Vec<_> = machines.iter().map(|(which, _)| which.system_id.as_str()).collect();
    let mut listing = Listing::new(&session, &ids, Looker::Poll);
    loop {
        let at = workers.app.now();
        let Some((asked, found)) = listing.next().await else { break };
        let mut seen = Vec::with_capacity(asked.len());
        for (which, node) in machines.iter().filter(|(which, _)| asked.contains(&which.system_id.as_str())) {
            let machine = found.iter().find(|machine| machine.system_id == which.system_id).cloned();
            let document = cache::seen(&which.site, &which.system_id, machine.as_ref());
            if let Err(error) = proof::note(&workers.app, node, &document, at).await {
                tracing::info!(node, %error, "what was seen of a machine could not be kept");
            }
            seen.push((which.clone(), machine));
        }
        workers.cache.keep(at, seen);
    }
    let Some(error) = listing.error() else { return };
    tracing::info!(site, %error, "not all machines of a site were seen this time");
    if let Repeat::Blind(Some(after)) = error.repeat() {
        workers.cache.put_off(&maas, workers.app.now() + after);
    }
}

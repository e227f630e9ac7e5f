//! The background jobs of GPU nodes: the engine, the poller, the drift sweep and the check for missing runs.

use std::{
    collections::{HashMap, hash_map::Entry},
    future::ready,
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinSet},
};
use uuid::Uuid;
use wardroom_upstream::maas::Repeat;
use wardroom_workflow::{Engine, Settings};

use super::{
    cache::{self, Batch},
    drift,
    listing::Listing,
    owners, proof,
    stages::Workers,
    upstream::{Clients, Reader},
};
use crate::platform::{
    app::App,
    work::schedule::{Failed, Job, Next, Task},
};

/// How often to see whether a site is due.
const TICK: Duration = Duration::from_millis(100);
/// How often to see whether a site is to be swept.
const SWEEP: Duration = Duration::from_secs(5);

pub(crate) fn jobs(app: &App) -> Vec<Job> {
    let workers = Workers::new(app.clone());
    let holder = format!("server {}", Uuid::now_v7());
    let (clock, mut settings) = (app.clock, Settings::new(holder.clone()));
    settings.limits = workers.limits.clone();
    if !app.store.is_shared() {
        // An embedded database has one server.
        settings.presence = Duration::from_hours(1);
    }
    let engine = Engine::new(app.store.clone(), workers.clone(), settings, move || clock.now());
    let executing = app.clone();
    vec![
        Job::service("runs", |stop| execute(executing, engine, stop)),
        polling(workers.clone()),
        sweeping(workers, holder),
        Job::every("owners", super::settings::Settings::of(&app.config).owners, |app| {
            Box::pin(owners::sweep(app))
        }),
    ]
}

async fn execute(app: App, engine: Engine<Workers>, stop: watch::Receiver<bool>) {
    if !app.store.is_shared()
        && let Err(error) = engine.take_over().await
    {
        tracing::warn!(%error, "runs of the previous process wait until their leases expire");
    }
    Arc::new(engine).run(stop).await;
}

impl Workers {
    pub(crate) fn new(app: App) -> Self {
        let clients = Arc::new(Clients::new(&app.config));
        Self { app, clients, cache: Arc::default(), limits: wardroom_workflow::Limits::default() }
    }
}

/// Polls the machines that stages wait for, a batch for each MAAS.
pub(crate) fn polling(workers: Workers) -> Job {
    Job::of("machines", TICK, Poll { workers, sites: Sites::default() })
}

struct Poll {
    workers: Workers,
    sites: Sites,
}

impl Task for Poll {
    fn run<'a>(&'a mut self, app: &'a App) -> BoxFuture<'a, Result<Next, Failed>> {
        for batch in self.workers.cache.due(app.now()) {
            let workers = self.workers.clone();
            self.sites.start(batch.maas.clone(), async move { look(&workers, batch).await });
        }
        Box::pin(ready(Ok(Next::Period)))
    }
}

/// Compares the nodes of each due site with its MAAS.
pub(crate) fn sweeping(workers: Workers, holder: String) -> Job {
    Job::of("drift", SWEEP, Sweep { workers, holder, sites: Sites::default() })
}

struct Sweep {
    workers: Workers,
    holder: String,
    sites: Sites,
}

impl Task for Sweep {
    fn run<'a>(&'a mut self, _: &'a App) -> BoxFuture<'a, Result<Next, Failed>> {
        Box::pin(async move {
            for (name, settings) in drift::due(&self.workers, &self.holder).await? {
                let workers = self.workers.clone();
                self.sites.start(name.clone(), async move {
                    if let Err(error) = drift::sweep_site(&workers, &name, &settings).await {
                        tracing::warn!(site = name, %error, "site not compared with its MAAS; the next sweep tries again");
                    }
                });
            }
            Ok(Next::Period)
        })
    }
}

/// Tasks for sites, one each, so that a MAAS that does not answer delays only its own site. Dropping this
/// ends them.
#[derive(Default)]
struct Sites {
    tasks: JoinSet<()>,
    at: HashMap<String, AbortHandle>,
}

impl Sites {
    /// Starts the task of a site, unless the last one is still running.
    fn start(&mut self, site: String, work: impl Future<Output = ()> + Send + 'static) {
        while self.tasks.try_join_next().is_some() {}
        self.at.retain(|_, task| !task.is_finished());
        if let Entry::Vacant(free) = self.at.entry(site) {
            free.insert(self.tasks.spawn(work));
        }
    }
}

/// Observes the machines of a batch once, for waiting callers and for the record.
pub(crate) async fn look(workers: &Workers, batch: Batch) {
    let Batch { maas, site, settings, machines } = batch;
    let session = match workers.clients.session(&site, &settings, &workers.limits) {
        Ok(session) => session,
        Err(error) => {
            tracing::warn!(site, error, "machines of a site not observed; retrying");
            return;
        }
    };
    let ids: Vec<_> = machines.iter().map(|(which, _)| which.system_id.as_str()).collect();
    let mut listing = Listing::new(&session, &ids, Reader::Poll);
    loop {
        let at = workers.app.now();
        let Some((asked, found)) = listing.next().await else { break };
        let mut seen = Vec::with_capacity(asked.len());
        for (which, node) in machines.iter().filter(|(which, _)| asked.contains(&which.system_id.as_str())) {
            let machine = found.iter().find(|machine| machine.system_id == which.system_id).cloned();
            let document = cache::seen(&which.site, &which.system_id, machine.as_ref());
            if let Err(error) = proof::note(&workers.app, node, &document, at).await {
                tracing::info!(node, %error, "observation of a machine not stored; the next look tries again");
            }
            seen.push((which.clone(), machine));
        }
        workers.cache.keep(at, seen);
    }
    let Some(error) = listing.error() else { return };
    tracing::info!(site, %error, "some machines of a site were not listed; retrying");
    if let Repeat::Blind(Some(after)) = error.repeat() {
        workers.cache.put_off(&maas, workers.app.now() + after);
    }
}

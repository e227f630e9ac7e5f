//! The MAAS of a site, as stages speak to it: at the rate that the site allows.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use wardroom_store as store;
use wardroom_upstream::maas::{Error as MaasError, Key, Maas, Machine, Settings as Client};
use wardroom_workflow::{Limits, Rate, Slots};

use super::{
    cache::Cache,
    site::{self, Settings},
};
use crate::clock::Clock;

/// A single call must end before the lease of a run does.
const TIMEOUT: Duration = Duration::from_secs(70);

/// Clients of the sites, made once for each setting.
#[derive(Debug, Default)]
pub(crate) struct Clients(Mutex<HashMap<(String, String), Maas>>);

/// A site's MAAS within its limits.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    maas: Maas,
    limits: Limits,
    site: String,
    rate: Rate,
    deploys: Rate,
    deploys_at_once: usize,
    /// How long a run waits when as many deployments are under way.
    pause: Duration,
}

impl Clients {
    /// The client of a site.
    ///
    /// # Errors
    /// What is wrong with the site's settings or secrets, in words.
    pub(crate) fn session(
        &self,
        name: &str,
        settings: &Settings,
        limits: &Limits,
    ) -> Result<Session, String> {
        let key = site::resolve(&settings.key)?;
        let ca = settings.ca.as_deref().map(site::resolve).transpose()?;
        let id = (name.to_owned(), fingerprint(settings, &key, ca.as_deref()));
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let maas = match clients.get(&id) {
            Some(maas) => maas.clone(),
            None => {
                let key: Key =
                    key.parse().map_err(|error| format!("the secret at {}: {error}", settings.key))?;
                let client = Client {
                    url: settings.url.clone(),
                    key,
                    ca: ca.map(String::into_bytes),
                    timeout: TIMEOUT,
                    clock: || Clock.now(),
                };
                let maas = Maas::new(client)?;
                // A setting that was replaced is of no use any more.
                clients.retain(|(of, _), _| of != name);
                clients.insert(id, maas.clone());
                maas
            }
        };
        let per_second = settings.requests_per_second.max(0.01);
        Ok(Session {
            maas,
            limits: limits.clone(),
            site: name.to_owned(),
            rate: Rate { per_second, burst: 4 },
            deploys: Rate { per_second: (settings.deploys_per_minute / 60.0).max(0.001), burst: 4 },
            deploys_at_once: usize::try_from(settings.deploys_at_once).unwrap_or(usize::MAX),
            pause: Cache::pause(settings),
        })
    }
}

/// Tells settings apart without keeping a secret.
fn fingerprint(settings: &Settings, key: &str, ca: Option<&str>) -> String {
    super::secret::hash(&format!("{}\n{key}\n{}", settings.url, ca.unwrap_or_default()))
}

impl Session {
    /// MAAS, when it is this call's turn.
    pub(crate) async fn turn(&self) -> &Maas {
        self.limits.take(&format!("maas/{}", self.site), self.rate).await;
        &self.maas
    }

    /// Takes a place among the deployments of the site for a run, or says when to come back: not more than the site
    /// allows are begun in a minute, nor under way at once.
    pub(crate) async fn begin_deploy(&self, slots: &Slots, run: &str) -> store::Result<Result<(), Duration>> {
        let group = self.deployments();
        if let Err(wait) = self.limits.ask(&group, self.deploys, run, Instant::now()) {
            return Ok(Err(wait));
        }
        if slots.take(&group, self.deploys_at_once, run).await? {
            return Ok(Ok(()));
        }
        self.limits.give_back(&group, self.deploys, run, Instant::now());
        Ok(Err(self.pause))
    }

    /// What the places of the site's deployments are called.
    pub(crate) fn deployments(&self) -> String {
        format!("deploy/{}", self.site)
    }

    /// Keeps the place of a deployment that is still under way.
    pub(crate) async fn keep_deploying(&self, slots: &Slots, run: &str) -> store::Result<bool> {
        slots.take(&self.deployments(), self.deploys_at_once, run).await
    }
}

/// Machines that are asked for in one request.
const BATCH: usize = 100;

impl Session {
    /// Machines by id, in batches, each in its turn. Those that MAAS does not have are missing.
    pub(crate) async fn machines(&self, ids: &[&str]) -> Result<Vec<Machine>, MaasError> {
        let mut found = Vec::with_capacity(ids.len());
        for ids in ids.chunks(BATCH) {
            found.extend(self.turn().await.machines(ids).await?);
        }
        Ok(found)
    }
}

//! The registries that images are pulled from: their clients, and their last failures.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::http::{HeaderMap, Method};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wardroom_upstream::{
    Failure, Secret,
    registry::{
        Credentials, Options, Registry,
        pull::{Part, Pulled},
    },
};

use super::super::settings::{Settings, pull::Pull};
use crate::platform::app::App;

/// How long a registry may take until its answer begins; shorter than a request.
const ANSWER: Duration = Duration::from_secs(20);

/// How long a failure is shown.
const TOLD: SignedDuration = SignedDuration::from_hours(1);

/// The registries of a server. There are as many as the configuration lists.
pub(crate) struct Sources {
    places: Arc<Semaphore>,
    clients: Mutex<HashMap<String, Registry>>,
    failures: Mutex<HashMap<String, (Timestamp, String)>>,
}

impl Sources {
    /// None has been asked yet.
    pub(crate) fn new(settings: &Pull) -> Self {
        let places = Arc::new(Semaphore::new(settings.streams));
        Self { places, clients: Mutex::default(), failures: Mutex::default() }
    }

    pub(crate) fn of(app: &App) -> &Self {
        app.part()
    }

    /// Reserves a slot for one more stream, if one is free.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// When pulling from a registry last failed, and how, unless it worked since.
    pub(crate) fn failure(&self, registry: &str, now: Timestamp) -> Option<(Timestamp, String)> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.get(registry).filter(|(at, _)| now.duration_since(*at) < TOLD).cloned()
    }

    /// Asks a listed registry for a part of a repository.
    pub(super) async fn ask(
        &self,
        app: &App,
        registry: &str,
        (repository, part): (&str, Part<'_>),
        method: Method,
        headers: HeaderMap,
    ) -> Result<Pulled, Failure> {
        let asked = async { self.client(app, registry)?.pull(repository, part, method, headers).await };
        let late = || Failure::Ambiguous("not in time".to_owned());
        let answered = tokio::time::timeout(ANSWER, asked).await.unwrap_or_else(|_| Err(late()));
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        match &answered {
            Ok(_) | Err(Failure::NotFound) => drop(failures.remove(registry)),
            Err(failure) => {
                tracing::warn!(registry, repository, error = %failure, "image not pulled; the satellite is asked to retry");
                failures.insert(registry.to_owned(), (app.now(), failure.to_string()));
            }
        }
        answered
    }

    /// Builds the client of a registry with its current credentials, which may change while the server runs.
    fn client(&self, app: &App, registry: &str) -> Result<Registry, Failure> {
        let settings = &Settings::of(&app.config).pull;
        let credentials = settings.credentials.as_deref().map(|folder| credentials(folder, registry));
        let credentials = credentials.transpose()?.flatten();
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let client = match clients.get(registry) {
            Some(client) => client.clone(),
            None => {
                let read_file = |path: &Path| std::fs::read(path).map_err(|error| unreadable(path, &error));
                let certificates = settings.ca_file.as_deref().map(read_file).transpose()?;
                let (url, timeout) = (registry.to_owned(), Some(ANSWER));
                let client = Registry::new(Options { url, credentials: None, certificates, timeout })?;
                clients.insert(registry.to_owned(), client.clone());
                client
            }
        };
        Ok(client.with(credentials))
    }
}

/// The credentials of a registry, if there is a file for it.
fn credentials(folder: &Path, registry: &str) -> Result<Option<Credentials>, Failure> {
    let host = registry.split_once("://").map_or(registry, |(_, rest)| rest);
    let host = host.split('/').next().unwrap_or_default().replace(':', "_");
    let path = folder.join(&host);
    if !path.exists() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(&path).map_err(|error| unreadable(&path, &error))?;
    let pair = text.trim_end().split_once(':');
    let (username, password) =
        pair.ok_or_else(|| Failure::Setup(format!("{}: must contain USER:PASSWORD", path.display())))?;
    Ok(Some(Credentials { username: username.to_owned(), password: Secret::new(password) }))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Setup(format!("{}: {error}", path.display()))
}

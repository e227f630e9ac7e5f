//! Makes several servers of one database publish the same states.
//!
//! States name the addresses of the registry and the servers, which are settings. Servers with different
//! settings would replace each other's states without end, so the settings of the server that started last
//! count, as in a rolling change. A server with other settings publishes nothing, and warns. Once the
//! deciding server is gone, the settings of any other present server count. A server without a listener for
//! certificates does not know its address, and yields to one that has it.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;
use wardroom_store::{Document, Error as StoreError};

use crate::kinds::satellite::settings::Settings as InForce;
use crate::{
    kinds::{
        satellite::artifact::{registry_url, server_url},
        satellite::document::Flow,
    },
    platform::{
        app::{App, Decided, by_system},
        http::error::Error,
        liveness::replicas,
        work::jobs,
    },
};

/// The kind of the record of the settings in force.
const KIND: &str = "server";
const ID: &str = "registry";

/// The settings that states depend on, beside their records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Settings {
    registry: String,
    satellites: Option<String>,
    spiffe: Option<String>,
}

/// The settings in force, and their server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    #[serde(flatten)]
    settings: Settings,
    by: String,
}

impl Record {
    async fn read(app: &App) -> Result<Option<Self>, Error> {
        let record = app.store.get(KIND, ID).await?;
        // An unreadable record is from a newer server, which decides.
        Ok(record.and_then(|record| record.content.document.read().ok()))
    }
}

/// A server whose settings are in force and that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Missing {
    server: String,
    since: Timestamp,
}

/// A server that is missing for less may return: it was paused, or all waited for the database.
const GONE: SignedDuration = SignedDuration::from_secs(60);

impl Missing {
    fn is_gone(&self, now: Timestamp) -> bool {
        now.duration_since(self.since) >= GONE
    }
}

impl Settings {
    fn of(app: &App) -> Self {
        let url = |flow| server_url(app, flow).map(str::to_owned);
        let registry = registry_url(app).to_owned();
        Self { registry, satellites: url(Flow::Token), spiffe: url(Flow::Spiffe) }
    }

    /// Whether these settings yield to the others: they differ only in the missing listener for certificates.
    fn differ_by_listener(&self, other: &Self) -> bool {
        self.differing(other) == ["spiffe.url"]
    }

    /// The settings that differ.
    fn differing(&self, other: &Self) -> Vec<&'static str> {
        let pairs = [
            ("registry.url", self.registry != other.registry),
            ("server.public_url", self.satellites != other.satellites),
            ("spiffe.url", self.spiffe != other.spiffe),
        ];
        pairs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}

/// Whether this server publishes.
#[derive(Debug, Default)]
pub(super) struct Agreed {
    announced: OnceCell<()>,
    missing: Mutex<Option<Missing>>,
    is_overruled: AtomicBool,
}

impl Agreed {
    /// Whether this server's settings are in force. An embedded database has one server.
    pub(super) async fn publishes(&self, app: &App) -> Result<bool, Error> {
        if InForce::of(&app.config).registry.is_none() || !app.store.is_shared() {
            return Ok(true);
        }
        // Other servers would count a server that is not present yet as gone.
        if !app.liveness.is_present() {
            return Ok(false);
        }
        let own = Settings::of(app);
        self.announced.get_or_try_init(|| announce(app, &own)).await?;
        let mut record = Record::read(app).await?;
        if let Some(counts) = &record
            && self.is_left(app, counts).await?
        {
            write(app, &own).await?;
            record = Record::read(app).await?;
        }
        let differing = record.map_or_else(|| vec!["settings"], |counts| own.differing(&counts.settings));
        let is_overruled = !differing.is_empty();
        app.metrics.registry_overruled(is_overruled);
        if self.is_overruled.swap(is_overruled, Ordering::Relaxed) != is_overruled {
            let settings = differing.join(", ");
            if is_overruled {
                tracing::warn!(
                    settings,
                    "a server that started later has other settings, so this server publishes no states; \
                     give all servers the same settings, and restart this one if its own are right"
                );
            } else {
                tracing::info!("the settings of this server are in force again; it publishes states");
            }
        }
        Ok(!is_overruled)
    }

    /// Whether the server whose settings are in force is gone.
    async fn is_left(&self, app: &App, counts: &Record) -> Result<bool, Error> {
        let other = Some(counts.by.as_str()).filter(|by| *by != app.liveness.name());
        let missing = match other {
            Some(by) if !replicas::is_present(app, by).await? => Some(by),
            Some(_) | None => None,
        };
        Ok(self.has_missed(missing, app.liveness.steady()))
    }

    /// Whether the given server has been missing for long.
    fn has_missed(&self, missing: Option<&str>, now: Timestamp) -> bool {
        let mut before = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        let since = before.take().filter(|before| Some(before.server.as_str()) == missing);
        *before =
            missing.map(|server| since.unwrap_or_else(|| Missing { server: server.to_owned(), since: now }));
        before.as_ref().is_some_and(|missing| missing.is_gone(now))
    }
}

/// Puts the settings of this server, which has just started, in force, unless it yields to more complete
/// ones.
async fn announce(app: &App, own: &Settings) -> Result<(), Error> {
    if own.satellites.is_none() {
        tracing::warn!(
            "server.public_url is not set, so published states of satellites without a config name no \
             server; set it to the URL under which satellites reach the servers"
        );
    }
    let known = Record::read(app).await?;
    let gives_way =
        |known: &Record| InForce::of(&app.config).spiffe.is_none() && own.differ_by_listener(&known.settings);
    if known.is_some_and(|known| known.settings == *own || gives_way(&known)) {
        return Ok(());
    }
    write(app, own).await
}

/// Stores the settings of this server as the ones in force.
async fn write(app: &App, own: &Settings) -> Result<(), Error> {
    let own = Record { settings: own.clone(), by: app.liveness.name().to_owned() };
    let (document, metadata) = (Document::of(&own)?, serde_json::to_value(&own).unwrap_or_default());
    let mut record = jobs::server_record(KIND, ID);
    record.document.clone_from(&document);
    match app.create(record, by_system(app, "registered", metadata.clone())).await {
        Ok(_) => return Ok(()),
        Err(StoreError::Conflict) => {}
        Err(error) => return Err(error.into()),
    }
    let changed = app.change(KIND, ID, |record| {
        if record.content.document == document {
            return Ok(Decided::Nothing(()));
        }
        let mut content = record.content.clone();
        content.document.clone_from(&document);
        Ok(Decided::Commit(Box::new((content, by_system(app, "changed", metadata.clone()))), ()))
    });
    changed.await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(spiffe: Option<&str>) -> Settings {
        let (registry, satellites) = ("http://r".to_owned(), Some("http://s".to_owned()));
        Settings { registry, satellites, spiffe: spiffe.map(str::to_owned) }
    }

    /// Only where that is all in which two servers differ.
    #[test]
    fn settings_without_a_listener_differ_by_it() {
        let (with, without) = (settings(Some("http://spiffe")), settings(Some("http://s")));
        assert!(without.differ_by_listener(&with) && !with.differ_by_listener(&with));
        let other = Settings { registry: "http://other".to_owned(), ..with };
        assert!(!without.differ_by_listener(&other));
    }

    /// A server that was missing for a moment is not gone, nor is another one.
    #[test]
    fn only_a_server_that_is_missing_for_long_is_gone() {
        let (agreed, start) = (Agreed::default(), Timestamp::UNIX_EPOCH);
        let missed = |holder: Option<&str>, second| {
            agreed.has_missed(holder, start + SignedDuration::from_secs(second))
        };
        assert!(!missed(Some("a"), 0) && !missed(Some("a"), 59));
        assert!(!missed(None, 60) && !missed(Some("a"), 61) && !missed(Some("a"), 120));
        assert!(!missed(Some("b"), 122), "another one");
        assert!(!missed(Some("b"), 181) && missed(Some("b"), 182));
    }
}

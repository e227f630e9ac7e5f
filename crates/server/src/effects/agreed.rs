//! What several servers of one database publish is one thing, whichever of them does it.
//!
//! States say where the registry and the servers are, as settings do. Servers with different settings would replace each
//! other's states without end, so the settings of the one that started last count, as in a change that goes from server
//! to server; one that has others publishes nothing, and says so. When that one is gone, those of any other count that is
//! there. One without a listener for certificates cannot say where that is, and gives way to who has one.

use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;
use wardroom_store::{Document, Error as StoreError};

use crate::{
    app::{App, Decided, by_system},
    artifact::{registry_url, told},
    error::Error,
    jobs,
    liveness::company,
    satellite::document::Flow,
};

/// The record of the settings that count.
const KIND: &str = "server";
const ID: &str = "registry";

/// What states are made of beside their records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Settings {
    registry: String,
    satellites: Option<String>,
    spiffe: Option<String>,
}

/// The settings that count, and whose they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    #[serde(flatten)]
    settings: Settings,
    /// The server; nothing in what an older version wrote.
    #[serde(default)]
    by: Option<String>,
}

impl Record {
    async fn read(app: &App) -> Result<Option<Self>, Error> {
        let record = app.store.get(KIND, ID).await?;
        // What cannot be read is from a newer server, which decides.
        Ok(record.and_then(|record| record.content.document.read().ok()))
    }

    /// Whether whoever said so is there no more.
    async fn is_left(&self, app: &App) -> Result<bool, Error> {
        match self.by.as_deref().filter(|by| *by != app.liveness.name()) {
            Some(by) => Ok(!company::is_there(app, by).await?),
            None => Ok(false),
        }
    }
}

impl Settings {
    fn of(app: &App) -> Self {
        let told = |flow| told(app, flow).map(str::to_owned);
        let (registry, spiffe) = (registry_url(app).to_owned(), app.config.spiffe.as_ref());
        Self { registry, satellites: told(Flow::Token), spiffe: spiffe.and_then(|_| told(Flow::Spiffe)) }
    }

    /// Whether who has these gives way to who has others: all is the same but for a listener that it does not have.
    fn gives_way(&self, other: &Self) -> bool {
        self.spiffe.is_none() && self.differing(other) == ["spiffe.url"]
    }

    /// The settings that are others here.
    fn differing(&self, other: &Self) -> Vec<&'static str> {
        let pairs = [
            ("registry.url", self.registry != other.registry),
            ("satellites.url", self.satellites != other.satellites),
            ("spiffe.url", self.spiffe != other.spiffe),
        ];
        pairs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}

/// Whether this server publishes.
#[derive(Debug, Default)]
pub(super) struct Agreed {
    announced: OnceCell<()>,
    is_overruled: AtomicBool,
}

impl Agreed {
    /// Whether its settings are those that count. An embedded database has one server.
    pub(super) async fn publishes(&self, app: &App) -> Result<bool, Error> {
        if app.config.registry.is_none() || !app.satellites.is_shared() {
            return Ok(true);
        }
        // Others would take whoever is not there yet for gone.
        if !app.liveness.is_present() {
            return Ok(false);
        }
        let own = Settings::of(app);
        self.announced.get_or_try_init(|| announce(app, &own)).await?;
        let mut record = Record::read(app).await?;
        if let Some(left) = &record
            && left.is_left(app).await?
        {
            announce(app, &own).await?;
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
                    "a server of this database that started later has other settings: this one publishes no states; give \
                     all servers the same, and start this one again if its own are right"
                );
            } else {
                tracing::info!("the settings of this server are those that count again: it publishes states");
            }
        }
        Ok(!is_overruled)
    }
}

/// Has the settings of this server count from now on.
async fn announce(app: &App, own: &Settings) -> Result<(), Error> {
    if own.satellites.is_none() {
        tracing::warn!(
            "satellites.url is not set, and a database may have several servers: what is published tells satellites \
             without a config not where those are; set it to the URL under which satellites reach them"
        );
    }
    let known = Record::read(app).await?;
    let is_left = match &known {
        Some(known) => known.is_left(app).await?,
        None => false,
    };
    if known.is_some_and(|known| !is_left && (known.settings == *own || own.gives_way(&known.settings))) {
        return Ok(());
    }
    let by = Some(app.liveness.name().to_owned());
    let own = Record { settings: own.clone(), by };
    let (document, told) = (Document::of(&own)?, serde_json::to_value(&own).unwrap_or_default());
    let mut record = jobs::server_record(KIND, ID);
    record.document.clone_from(&document);
    match app.create(record, by_system(app, "registered", told.clone())).await {
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
        Ok(Decided::Commit(Box::new((content, by_system(app, "changed", told.clone()))), ()))
    });
    changed.await.map(drop)
}

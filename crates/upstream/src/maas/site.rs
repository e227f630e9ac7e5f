//! Data of a site rather than of a machine, and the evidence that MAAS keeps about machines.

use serde::Deserialize;

use super::{
    Effect::{Declares, Once},
    Error, Maas, Named,
    call::Op,
    form::Form,
};

/// Which MAAS this is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Version {
    /// Such as `3.5.0`.
    #[serde(default)]
    pub version: String,
    /// Its capabilities.
    #[serde(default)]
    pub capabilities: Vec<String>,
}

/// The user of the API key.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct User {
    /// The name, which machines show as their owner.
    pub username: String,
    /// Whether they may do everything.
    #[serde(default)]
    pub is_superuser: bool,
}

/// How important an event is at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Everything, also changes of status.
    Debug,
    /// Normal events.
    Info,
    /// Failures.
    Error,
}

/// An event of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Event {
    /// Grows with time.
    pub id: i64,
    /// Such as `INFO`.
    #[serde(default)]
    pub level: String,
    /// The type of event.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// The details.
    #[serde(default)]
    pub description: String,
    /// When, in MAAS's words.
    #[serde(default)]
    pub created: String,
    /// The user that caused it.
    #[serde(default)]
    pub username: String,
}

/// A page of events, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Events {
    /// The events.
    pub events: Vec<Event>,
}

/// Results of the scripts of one commissioning, test or installation.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ResultSet {
    /// The id.
    pub id: i64,
    /// Such as `Commissioning`.
    #[serde(default)]
    pub type_name: String,
    /// Such as `Passed`.
    #[serde(default)]
    pub status_name: String,
    /// The scripts.
    #[serde(default)]
    pub results: Vec<ScriptResult>,
}

/// The result of one script.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ScriptResult {
    /// The script.
    #[serde(default)]
    pub name: String,
    /// Such as `Failed`.
    #[serde(default)]
    pub status_name: String,
    /// Its exit code.
    #[serde(default)]
    pub exit_status: Option<i64>,
}

/// How many machines got and lost a tag; MAAS counts also those that had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Tagged {
    /// Got it.
    #[serde(default)]
    pub added: u64,
    /// Lost it.
    #[serde(default)]
    pub removed: u64,
}

impl Maas {
    /// Which MAAS this is; it needs no key.
    ///
    /// # Errors
    /// When MAAS does not answer.
    pub async fn version(&self) -> Result<Version, Error> {
        self.get("version", &["version", ""], &[]).await
    }

    /// Returns the user of the key: the cheapest proof that the key works.
    ///
    /// # Errors
    /// When MAAS does not answer, or does not accept the key.
    pub async fn whoami(&self) -> Result<User, Error> {
        self.get("whoami", &["users", "op-whoami"], &[]).await
    }

    /// Every resource pool.
    ///
    /// # Errors
    /// When MAAS does not answer with them.
    pub async fn pools(&self) -> Result<Vec<Named>, Error> {
        self.get("pools", &["resourcepools", ""], &[]).await
    }

    /// Every zone.
    ///
    /// # Errors
    /// When MAAS does not answer with them.
    pub async fn zones(&self) -> Result<Vec<Named>, Error> {
        self.get("zones", &["zones", ""], &[]).await
    }

    /// Creates a tag; an existing one is refused with a field error for `name`.
    ///
    /// # Errors
    /// When MAAS does not make it.
    pub async fn create_tag(&self, name: &str, comment: &str) -> Result<(), Error> {
        let form = Form::default().set("name", name).set("comment", comment);
        self.post::<serde::de::IgnoredAny>(Op("create_tag", Once), &["tags", ""], form).await.map(drop)
    }

    /// Gives a tag to some machines and takes it from others.
    ///
    /// # Errors
    /// When MAAS does not.
    pub async fn tag(&self, name: &str, add: &[&str], remove: &[&str]) -> Result<Tagged, Error> {
        let form = Form::default().all("add", add).all("remove", remove);
        self.post(Op("update_nodes", Declares), &["tags", name, "op-update_nodes"], form).await
    }

    /// The last events of a machine, newest first; they disappear with it.
    ///
    /// # Errors
    /// When MAAS does not answer with them.
    pub async fn events(
        &self,
        id: &str,
        level: Level,
        limit: u32,
        after: Option<i64>,
    ) -> Result<Vec<Event>, Error> {
        let level = match level {
            Level::Debug => "DEBUG",
            Level::Info => "INFO",
            Level::Error => "ERROR",
        };
        let mut query =
            vec![("id", id.to_owned()), ("level", level.to_owned()), ("limit", limit.to_string())];
        query.extend(after.map(|after| ("after", after.to_string())));
        let page: Events = self.get("events", &["events", "op-query"], &query).await?;
        Ok(page.events)
    }

    /// The results of scripts on a machine.
    ///
    /// # Errors
    /// When MAAS does not answer with them.
    pub async fn results(&self, id: &str) -> Result<Vec<ResultSet>, Error> {
        self.get("results", &["nodes", id, "results", ""], &[]).await
    }
}

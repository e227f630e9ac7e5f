//! Everything outside of the adapter: the API's answers, names, the environment, files and Kubernetes. A dry run reads
//! a recording of it.

use serde_json::Value as Json;
use wardroom_upstream::kubernetes::{Kind, Propagation, Target};

mod live;
mod recorded;

pub(crate) use live::{Live, may_pass};
pub(crate) use recorded::{Recorded, read as read_document};

/// Longest file of a parameter.
const LONGEST: u64 = 256 * 1024;

/// Something outside that did not work. The text holds no secret of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) message: String,
    /// Whether the same attempt may work later without a change of the configuration.
    pub(crate) may_pass: bool,
}

impl Trouble {
    pub(crate) fn lasting(message: impl Into<String>) -> Self {
        Self { message: message.into(), may_pass: false }
    }
}

/// The outside.
#[derive(Debug)]
pub(crate) enum World {
    /// A recording: nothing is changed.
    Recorded(Recorded),
    /// The real thing.
    Live(Box<Live>),
}

impl World {
    /// The address of the API, as templates see it.
    pub(crate) fn base(&self) -> &str {
        match self {
            Self::Recorded(_) => "http://hyperfleet-api",
            Self::Live(live) => &live.base,
        }
    }

    /// Reads an answer of the API.
    pub(crate) async fn read(&mut self, path: &str) -> Result<Json, Trouble> {
        let (status, body) = match self {
            Self::Recorded(recorded) => recorded.read("GET", path)?,
            Self::Live(live) => return live.read(path).await,
        };
        if (200..=299).contains(&status) {
            return Ok(body);
        }
        let may_pass = status == 408 || status == 429 || status >= 500;
        Err(Trouble { message: format!("GET {path} was answered with {status}"), may_pass })
    }

    /// Returns the addresses of a name; none when there is no such name.
    pub(crate) async fn lookup(&self, name: &str) -> Result<Vec<String>, Trouble> {
        match self {
            Self::Recorded(recorded) => Ok(recorded.lookup(name)),
            Self::Live(live) => live.lookup(name).await,
        }
    }

    /// Returns a variable of the environment.
    pub(crate) fn environment(&self, name: &str) -> Option<String> {
        match self {
            Self::Recorded(recorded) => Some(recorded.environment(name)),
            Self::Live(_) => std::env::var(name).ok(),
        }
    }

    /// Reads a file of the configuration.
    pub(crate) async fn file(&self, path: &std::path::Path) -> Result<String, Trouble> {
        let trouble = |why: String| Trouble::lasting(format!("{} cannot be read: {why}", path.display()));
        let size = tokio::fs::metadata(path).await.map_err(|error| trouble(error.to_string()))?.len();
        if size > LONGEST {
            return Err(trouble(format!("it is longer than {LONGEST} bytes")));
        }
        tokio::fs::read_to_string(path).await.map_err(|error| trouble(error.to_string()))
    }

    /// Reads an object of Kubernetes; nothing when it is not there.
    pub(crate) async fn get(&self, target: &Target) -> Result<Option<Json>, Trouble> {
        match self {
            Self::Recorded(recorded) => Ok(recorded.get(&target.name)),
            Self::Live(live) => live.get(target).await,
        }
    }

    /// Returns the objects with some labels.
    pub(crate) async fn list(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &[(String, String)],
    ) -> Result<Vec<Json>, Trouble> {
        match self {
            Self::Recorded(recorded) => Ok(recorded.list(kind, namespace, selector)),
            Self::Live(live) => live.list(kind, namespace, selector).await,
        }
    }

    /// Applies an object and returns it as it is now.
    pub(crate) async fn apply(&mut self, object: &Json) -> Result<Json, Trouble> {
        match self {
            Self::Recorded(recorded) => Ok(recorded.apply(object)),
            Self::Live(live) => live.apply(object).await,
        }
    }

    /// Deletes an object. Returns whether it is gone.
    pub(crate) async fn delete(
        &mut self,
        target: &Target,
        propagation: Propagation,
    ) -> Result<bool, Trouble> {
        match self {
            Self::Recorded(recorded) => Ok(recorded.get(&target.name).is_none()),
            Self::Live(live) => live.delete(target, propagation).await,
        }
    }
}

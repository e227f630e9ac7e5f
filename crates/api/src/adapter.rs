//! Adapters, as far as the server knows them: what waits for each, and when it was heard.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    Page,
    client::{Client, Error, Query},
};

/// An adapter that clusters or node pools wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Adapter {
    /// Its name, under which it reports.
    pub name: String,
    /// The most serious of what is true: `silent`, `failing`, `working` or `idle`.
    pub state: String,
    /// The kinds that it is required for.
    pub required_for: Vec<String>,
    /// When its last valid report arrived, about any resource; absent when none ever did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_heard: Option<Timestamp>,
    /// The requests and streams that wait for its events on the server that answers.
    pub listening: u64,
    /// What it is not done with at the current generation.
    pub waiting: Concern,
    /// What it last said not to be available.
    pub failing: Concern,
    /// What it was not heard about for longer than its patience.
    pub silent: Concern,
}

/// The resources that something is true for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Concern {
    /// How many were found.
    pub count: u64,
    /// Whether there may be more: the server looks at a few thousand.
    pub or_more: bool,
    /// Some of them, the oldest first.
    pub examples: Vec<Concerned>,
}

/// A resource that something is true for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Concerned {
    /// Its kind: `cluster` or `nodepool`.
    pub kind: String,
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Since when, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<Timestamp>,
    /// What the adapter said, or that it said nothing.
    pub detail: String,
}

impl Client {
    /// The adapters that are required, in the order of their names.
    ///
    /// # Errors
    /// As for every call.
    pub async fn adapters(&self, query: &Query) -> Result<Page<Adapter>, Error> {
        self.page(&["adapters"], query).await
    }

    /// One adapter.
    ///
    /// # Errors
    /// As for every call.
    pub async fn adapter(&self, name: &str) -> Result<Adapter, Error> {
        self.one(&["adapters", name]).await
    }
}

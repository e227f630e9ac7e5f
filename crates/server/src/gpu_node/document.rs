//! A GPU node as it is stored, and as it is shown.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use wardroom_api::gpu_node::GpuNode;
use wardroom_core::gpu_node::State;
use wardroom_store::{Content, Observation, Resource};
use wardroom_workflow::NODE;

use crate::{app::App, error::Error};

/// What is stored of a node beside its state and labels. No secret: only hashes of those that were shown once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Document {
    /// The run that works on it, or did so last.
    pub(crate) run: Option<String>,
    /// The enrolment token that was issued and not used yet.
    pub(crate) token: Option<Token>,
    /// The agent that enrolled.
    pub(crate) agent: Option<Agent>,
}

/// A one-time token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Token {
    pub(crate) hash: String,
    pub(crate) expires_at: Timestamp,
}

/// An agent that enrolled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Agent {
    pub(crate) hash: String,
    pub(crate) enrolled_at: Timestamp,
}

impl Document {
    pub(crate) fn of(resource: &Resource) -> Result<Self, Error> {
        Ok(resource.content.document.read()?)
    }

    /// The node of a name, as new.
    pub(crate) fn into_content(
        self,
        id: String,
        name: String,
        state: State,
        labels: BTreeMap<String, String>,
    ) -> Result<Content, Error> {
        let keys = self.keys(&name);
        Ok(Content {
            kind: NODE.to_owned(),
            id,
            name,
            state: state.to_string(),
            document: wardroom_store::Document::of(&self)?,
            labels,
            fields: BTreeMap::new(),
            keys,
            deleted: false,
            due_at: None,
        })
    }

    /// What a node becomes.
    pub(crate) fn into_content_of(self, before: &Resource, state: State) -> Result<Content, Error> {
        let keys = self.keys(&before.content.name);
        let document = wardroom_store::Document::of(&self)?;
        Ok(Content { state: state.to_string(), document, keys, ..before.content.clone() })
    }

    fn keys(&self, name: &str) -> BTreeSet<String> {
        let mut keys = BTreeSet::from([format!("name/{name}")]);
        keys.extend(self.token.iter().map(|token| token_key(&token.hash)));
        keys
    }
}

/// The key by which the node of a token is found.
pub(crate) fn token_key(hash: &str) -> String {
    format!("token/{hash}")
}

pub(crate) fn state(resource: &Resource) -> Result<State, Error> {
    resource.content.state.parse().map_err(|_| Error::Internal)
}

/// The source under which the agent's word on its health is kept.
pub(crate) const AGENT: &str = "agent";

/// What the agent last said about its health.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Health {
    pub(crate) healthy: bool,
    #[serde(default)]
    pub(crate) problems: Vec<String>,
}

/// The agent's newest word, and when it came.
pub(crate) async fn health(app: &App, id: &str) -> Result<Option<(Health, Observation)>, Error> {
    let seen = app.store.observations(NODE, id).await?;
    let Some(seen) = seen.into_iter().find(|seen| seen.source == AGENT) else { return Ok(None) };
    Ok(Some((seen.document.read()?, seen)))
}

pub(crate) async fn view(app: &App, resource: &Resource) -> Result<GpuNode, Error> {
    let (document, content) = (Document::of(resource)?, &resource.content);
    let health = health(app, &content.id).await?;
    let said = health.as_ref().map(|(_, seen)| seen.received_at);
    Ok(GpuNode {
        id: content.id.clone(),
        name: content.name.clone(),
        state: content.state.clone(),
        labels: content.labels.clone(),
        run_id: document.run,
        token_expires_at: document.token.map(|token| token.expires_at),
        enrolled_at: document.agent.map(|agent| agent.enrolled_at),
        healthy: health.map(|(health, _)| health.healthy),
        last_seen: app.liveness.last_seen(NODE, &content.id).max(said),
        state_changed_at: resource.state_changed_at,
        created_at: resource.created_at,
        updated_at: resource.updated_at,
    })
}

//! What one event makes of a cluster: parameters, preconditions, resources, objects that are looked at, and the report.
//!
//! Each step gathers facts from the [`World`], then decides about them; the report is a pure function of all facts
//! ([`report`]). An error in any step ends the steps and is reported: `Health` is then False.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value as Json, json};

use crate::{
    config::{Config, Unbuilt},
    expression::{Scope, Value},
    run::Interest,
    template::Values,
    world::{Trouble, World},
};

mod gather;
mod report;
mod resources;
mod trace;

pub(crate) use resources::{ADAPTER_LABEL, CLUSTER_LABEL};
pub(crate) use trace::Trace;

/// The version of the API in addresses.
const VERSION: &str = "v1";

/// An error of the adapter: a step that could not be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdapterError {
    /// Such as `params`.
    pub(crate) phase: &'static str,
    /// The name of what failed in it.
    pub(crate) step: String,
    pub(crate) message: String,
    /// Whether the same attempt may work later.
    pub(crate) may_pass: bool,
}

impl AdapterError {
    fn new(phase: &'static str, step: &str, trouble: Trouble) -> Self {
        Self { phase, step: step.to_owned(), message: trouble.message, may_pass: trouble.may_pass }
    }

    fn unbuilt(phase: &'static str, step: &str, unbuilt: &Unbuilt) -> Self {
        let message = format!("{}: {}", unbuilt.field, unbuilt.why);
        Self { phase, step: step.to_owned(), message, may_pass: false }
    }

    /// Returns the error in one line.
    fn line(&self) -> String {
        format!("{} {}: {}", self.phase, self.step, self.message)
    }
}

/// What is known about a cluster while an event is worked on.
#[derive(Debug)]
pub(crate) struct Facts {
    /// The generation that was read before anything was done.
    generation: i64,
    is_deleting: bool,
    values: Values,
    scope: Scope,
    /// Values of the environment, which nothing that is shown may contain.
    hidden: BTreeMap<String, String>,
    /// The reason why nothing is applied.
    skipped: Option<String>,
    /// Resources that were not there before.
    created: Vec<String>,
    /// Resources that are still there while the cluster is being deleted.
    remaining: Vec<String>,
    error: Option<AdapterError>,
    /// The objects that were looked at.
    interests: Vec<Interest>,
    trace: Trace,
}

/// The end of the work on an event.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) trace: Trace,
    /// The messages to log.
    pub(crate) messages: Vec<String>,
    pub(crate) error: Option<AdapterError>,
    /// The objects whose changes matter to the cluster.
    pub(crate) interests: Vec<Interest>,
}

/// Works on one event.
pub(crate) async fn process(
    config: &Config,
    event: &Json,
    cluster: &Json,
    world: &mut World,
    now: Timestamp,
) -> Outcome {
    let mut facts = Facts::new(config, event, cluster, world.base(), now);
    if let Err(error) = steps(config, &mut facts, world).await {
        facts.fail(error);
    }
    facts.describe_adapter(config);
    let payload = report::payload(config, &mut facts);
    let messages = report::messages(config, &facts);
    facts.trace.payload = payload;
    facts.trace.status = match (&facts.error, &facts.skipped) {
        (Some(_), _) => "failed",
        (None, Some(_)) => "skipped",
        (None, None) => "success",
    };
    Outcome { trace: facts.trace, messages, error: facts.error, interests: facts.interests }
}

async fn steps(config: &Config, facts: &mut Facts, world: &mut World) -> Result<(), AdapterError> {
    gather::params(config, facts, world).await?;
    gather::preconditions(config, facts, world).await?;
    facts.describe_adapter(config);
    resources::bring_about(config, facts, world).await?;
    resources::discover(config, facts, world).await
}

impl Facts {
    fn new(config: &Config, event: &Json, cluster: &Json, base: &str, now: Timestamp) -> Self {
        let generation = cluster["generation"].as_i64().or_else(|| event["generation"].as_i64()).unwrap_or(1);
        let mut facts = Self {
            generation,
            is_deleting: cluster["deleted_time"].is_string(),
            values: Values { by_name: BTreeMap::new(), now },
            scope: Scope { variables: BTreeMap::new(), now },
            hidden: BTreeMap::new(),
            skipped: None,
            created: Vec::new(),
            remaining: config.resources.iter().map(|resource| resource.name.clone()).collect(),
            error: None,
            interests: Vec::new(),
            trace: Trace::new(event),
        };
        let id = cluster.get("id").or_else(|| event.get("id")).cloned().unwrap_or_default();
        // A node pool is named beside its cluster.
        let owner = cluster.pointer("/owner_references/id").cloned();
        let (id, pool) = owner.map_or((id.clone(), Json::Null), |owner| (owner, id));
        for (name, value) in [
            ("event", event.clone()),
            ("cluster", cluster.clone()),
            ("config", config.raw.clone()),
            ("clusterId", id),
            ("nodePoolId", pool),
            ("clusterName", cluster["name"].clone()),
            ("generation", json!(generation)),
            ("hyperfleetApiBaseUrl", json!(base)),
            ("hyperfleetApiVersion", json!(VERSION)),
            ("resources", json!({})),
            ("externalResources", json!({})),
        ] {
            facts.set(name, value);
        }
        facts.describe_adapter(config);
        facts
    }

    /// Makes a value visible to templates and expressions.
    fn set(&mut self, name: &str, value: Json) {
        self.scope.variables.insert(name.to_owned(), Value::from(&value));
        self.values.by_name.insert(name.to_owned(), value);
    }

    /// Makes a value visible to templates of manifests and calls only.
    fn hide(&mut self, name: &str, value: Json) {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.hidden.insert(name.to_owned(), text);
        self.scope.variables.remove(name);
        self.values.by_name.insert(name.to_owned(), value);
    }

    /// Returns the values without those of the environment.
    fn shown(&self) -> Values {
        let mut values = self.values.clone();
        for name in self.hidden.keys() {
            values.by_name.insert(name.clone(), json!(format!("({name}, from the environment)")));
        }
        values
    }

    /// Sets an object below `resources` or `externalResources`.
    fn set_object(&mut self, root: &str, name: &str, object: Option<Json>) {
        let mut all = match self.values.by_name.get(root) {
            Some(Json::Object(all)) => all.clone(),
            _ => Map::new(),
        };
        match object {
            // What was applied comes back, with what came from the environment.
            Some(mut object) => {
                self.conceal_in(&mut object);
                all.insert(name.to_owned(), object)
            }
            None => all.remove(name),
        };
        self.set(root, Json::Object(all));
    }

    /// Sets `adapter`, with the outcome so far.
    fn describe_adapter(&mut self, config: &Config) {
        let error = self.error.as_ref();
        let described = json!({
            "name": config.name,
            "executionStatus": if error.is_some() { "failed" } else { "success" },
            "resourcesSkipped": self.skipped.is_some(),
            "skipReason": self.skipped.clone().unwrap_or_default(),
            "errorReason": error.map_or("", |_| "AdapterError"),
            "errorMessage": error.map(|error| error.message.clone()).unwrap_or_default(),
            "executionError": error.map(|error| json!({"phase": error.phase, "step": error.step, "message": error.message})),
            "resourceErrors": match error {
                Some(error) if error.phase == "resources" => json!({&error.step: error.message}),
                _ => json!({}),
            },
        });
        self.set("adapter", described);
    }

    /// Ends the steps with an error.
    fn fail(&mut self, mut error: AdapterError) {
        error.message = self.conceal(&error.message);
        self.trace.error(&error);
        self.error = Some(error);
    }

    /// Replaces values of the environment in every text of an object.
    fn conceal_in(&self, json: &mut Json) {
        match json {
            Json::String(text) if self.hidden.values().any(|value| value == text) => "…".clone_into(text),
            Json::String(text) => *text = self.conceal(text),
            Json::Array(values) => values.iter_mut().for_each(|value| self.conceal_in(value)),
            Json::Object(entries) => entries.values_mut().for_each(|value| self.conceal_in(value)),
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }

    /// Replaces values of the environment in a text of another system.
    fn conceal(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for value in self.hidden.values().filter(|value| value.len() >= 4) {
            text = text.replace(value.as_str(), "…");
        }
        text
    }
}

#[cfg(test)]
mod tests;

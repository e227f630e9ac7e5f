//! What happened in the steps, for a dry run and for logs. Values of the environment are not in it.

use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use super::AdapterError;

/// The steps of an event and their results.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Trace {
    pub(crate) event: Json,
    /// `success`, `skipped` or `failed`.
    pub(crate) status: &'static str,
    pub(crate) params: Map<String, Json>,
    pub(crate) preconditions: Vec<Json>,
    pub(crate) resources: Vec<Json>,
    pub(crate) discovered_resources: Map<String, Json>,
    pub(crate) api_requests: Vec<Json>,
    pub(crate) errors: Vec<Json>,
    /// What is reported; nothing when the configuration's `when` says no.
    pub(crate) payload: Option<Json>,
}

impl Trace {
    pub(super) fn new(event: &Json) -> Self {
        Self {
            event: event.clone(),
            status: "success",
            params: Map::new(),
            preconditions: Vec::new(),
            resources: Vec::new(),
            discovered_resources: Map::new(),
            api_requests: Vec::new(),
            errors: Vec::new(),
            payload: None,
        }
    }

    pub(super) fn error(&mut self, error: &AdapterError) {
        self.errors.push(json!({"phase": error.phase, "step": error.step, "message": error.message}));
    }

    /// Notes an object that was looked at.
    pub(super) fn found(&mut self, name: &str, object: Option<&Json>) {
        let shown = object.map_or(Json::Null, without_secrets);
        self.discovered_resources.insert(name.to_owned(), shown);
    }
}

/// Returns an object whose data is left out when it is a Secret.
pub(super) fn without_secrets(object: &Json) -> Json {
    let mut shown = object.clone();
    if shown["kind"] == "Secret"
        && let Some(fields) = shown.as_object_mut()
    {
        for field in ["data", "stringData"] {
            if fields.contains_key(field) {
                fields.insert(field.to_owned(), json!("(left out)"));
            }
        }
        // The last applied content is repeated in annotations.
        if let Some(Json::Object(metadata)) = fields.get_mut("metadata") {
            metadata.remove("annotations");
        }
    }
    shown
}

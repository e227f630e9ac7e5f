//! What the API's own document says of the fields of requests, so that forms ask for what requests take.

use std::collections::BTreeMap;

use serde_json::Value;

/// The fields of each request with a body, with what the document says of each.
pub(crate) struct Fields(Vec<(String, String, BTreeMap<String, String>)>);

impl Fields {
    /// Reads the document.
    pub(crate) fn of(document: &Value) -> Self {
        let schemas = &document["components"]["schemas"];
        let mut all = Vec::new();
        for (path, methods) in document["paths"].as_object().into_iter().flatten() {
            for (method, operation) in methods.as_object().into_iter().flatten() {
                let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
                let fields = fields(schemas, schema);
                if !fields.is_empty() {
                    all.push((method.to_uppercase(), path.clone(), fields));
                }
            }
        }
        Self(all)
    }

    /// The fields of the request at this path, with what each is; nothing for a request without a body.
    pub(crate) fn at(&self, method: &str, path: &str) -> Option<&BTreeMap<String, String>> {
        let fits = |pattern: &str| {
            let mut parts = path.split('/');
            pattern
                .split('/')
                .all(|part| parts.next().is_some_and(|given| part.starts_with('{') || part == given))
                && parts.next().is_none()
        };
        // A path without variables goes before one with them.
        let found = self.0.iter().filter(|(known, pattern, _)| known == method && fits(pattern));
        found.min_by_key(|(_, pattern, _)| pattern.matches('{').count()).map(|(_, _, fields)| fields)
    }
}

/// The fields of a schema, also of one that is named, optional, or one of several.
fn fields(schemas: &Value, schema: &Value) -> BTreeMap<String, String> {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return fields(schemas, &schemas[name]);
    }
    let said = |field: &Value| field["description"].as_str().unwrap_or_default().to_owned();
    let own = schema["properties"].as_object().into_iter().flatten();
    let mut all: BTreeMap<_, _> = own.map(|(name, field)| (name.clone(), said(field))).collect();
    for several in ["oneOf", "allOf", "anyOf"] {
        for one in schema[several].as_array().into_iter().flatten() {
            all.extend(fields(schemas, one));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{kinds::KINDS, platform::http::router};

    #[test]
    fn requests_say_whether_they_take_a_comment() {
        let fields = Fields::of(&serde_json::to_value(router::openapi(KINDS)).unwrap());
        let takes =
            |method, path| fields.at(method, path).is_some_and(|fields| fields.contains_key("comment"));
        assert!(takes("POST", "/api/satellites/edge-1/revoke"));
        assert!(takes("POST", "/api/v1/gpu-nodes/g1/actions/quarantine"));
        assert!(takes("POST", "/api/v1/runs/r1/actions/cancel"));
        assert!(takes("PATCH", "/api/v1/nodes/n1/state"));
        assert!(!takes("DELETE", "/api/satellites/edge-1"));
        assert!(!takes("PATCH", "/api/v1/nodes/n1"));
        assert!(fields.at("POST", "/nowhere").is_none());
    }
}

//! What the API's own document says of the fields of requests, so that forms ask for what requests take.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::platform::http::access::is_at;

/// A field of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    /// What the document says of it.
    pub(crate) hint: String,
    /// Whether it is one line of text.
    pub(crate) is_text: bool,
}

/// The fields of a request by their names.
pub(crate) type Named = BTreeMap<String, Field>;

/// The fields of each request with a body.
pub(crate) struct Fields(Vec<(String, String, Named)>);

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

    /// The fields of the request at this path; nothing for a request without a body.
    pub(crate) fn at(&self, method: &str, path: &str) -> Option<&Named> {
        // A path without variables goes before one with them.
        let found = self.0.iter().filter(|(known, pattern, _)| known == method && is_at(pattern, path));
        found.min_by_key(|(_, pattern, _)| pattern.matches('{').count()).map(|(_, _, fields)| fields)
    }
}

/// The fields of a schema, also of one that is named, optional, or one of several.
fn fields(schemas: &Value, schema: &Value) -> Named {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return fields(schemas, &schemas[name]);
    }
    let own = schema["properties"].as_object().into_iter().flatten();
    let mut all: Named = own.map(|(name, schema)| (name.clone(), field(schema))).collect();
    for several in ["oneOf", "allOf", "anyOf"] {
        for one in schema[several].as_array().into_iter().flatten() {
            all.extend(fields(schemas, one));
        }
    }
    all
}

fn field(schema: &Value) -> Field {
    let is_text = match &schema["type"] {
        Value::String(one) => one == "string",
        Value::Array(several) => several.iter().any(|one| one == "string"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    };
    Field { hint: schema["description"].as_str().unwrap_or_default().to_owned(), is_text }
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
        let mode = &fields.at("POST", "/api/satellites/edge-1/reenable").unwrap()["mode"];
        assert!(mode.is_text && mode.hint.contains("reissue"), "{mode:?}");
        assert!(!fields.at("PATCH", "/api/v1/nodes/n1/state").unwrap()["force"].is_text);
    }
}

//! What the API's own document says of the fields of requests, so that forms ask for what requests take.

use std::collections::BTreeMap;

use serde_json::Value;
use wardroom_api::action::Action;
use wardroom_console::dialog::Input;

use crate::platform::http::access::is_at;

/// A field of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    /// What the document says of it.
    pub(crate) hint: String,
    /// How a person fills it in; nothing for lists, objects and what else a form cannot take.
    pub(crate) input: Option<Input>,
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

    /// The fields of the request of an action; nothing for a request without a body. Several actions may share a route,
    /// and then a field that names actions in its words is only theirs.
    pub(crate) fn of_action(&self, action: &Action) -> Option<Vec<(&str, &Field)>> {
        let (pattern, all) = self.find(&action.method, &action.path)?;
        let is_shared = pattern.ends_with("/{action}");
        let own = format!("`{}`", action.action);
        let is_its = |name: &str, field: &Field| {
            let is_needed = action.needs.iter().any(|needed| needed == name);
            !is_shared || name == "comment" || field.hint.contains(&own) || is_needed
        };
        let found = all.iter().map(|(name, field)| (name.as_str(), field));
        Some(found.filter(|(name, field)| is_its(name, field)).collect())
    }

    #[cfg(test)]
    fn at(&self, method: &str, path: &str) -> Option<&Named> {
        self.find(method, path).map(|(_, fields)| fields)
    }

    fn find(&self, method: &str, path: &str) -> Option<(&str, &Named)> {
        // A path without variables goes before one with them.
        let found = self.0.iter().filter(|(known, pattern, _)| known == method && is_at(pattern, path));
        let found = found.min_by_key(|(_, pattern, _)| pattern.matches('{').count());
        found.map(|(_, pattern, fields)| (pattern.as_str(), fields))
    }
}

/// The fields of a schema, also of one that is named, optional, or one of several.
fn fields(schemas: &Value, schema: &Value) -> Named {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return fields(schemas, &schemas[name]);
    }
    let own = schema["properties"].as_object().into_iter().flatten();
    let mut all: Named = own.map(|(name, schema)| (name.clone(), field(schemas, schema))).collect();
    for several in ["oneOf", "allOf", "anyOf"] {
        for one in schema[several].as_array().into_iter().flatten() {
            all.extend(fields(schemas, one));
        }
    }
    all
}

fn field(schemas: &Value, schema: &Value) -> Field {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        let hint = schema["description"].as_str().unwrap_or_default();
        let named = field(schemas, &schemas[name]);
        return Field { hint: if hint.is_empty() { named.hint } else { hint.to_owned() }, ..named };
    }
    let is = |wanted: &str| match &schema["type"] {
        Value::String(one) => one == wanted,
        Value::Array(several) => several.iter().any(|one| one == wanted),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    };
    let values = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let values: Vec<_> = values.map(str::to_owned).collect();
    let input = if !values.is_empty() {
        Some(Input::Choice(values))
    } else if is("string") {
        Some(if schema["format"] == "date-time" { Input::Time } else { Input::Text(Vec::new()) })
    } else if is("boolean") {
        Some(Input::Flag)
    } else if is("integer") {
        Some(Input::Number)
    } else {
        None
    };
    Field { hint: schema["description"].as_str().unwrap_or_default().to_owned(), input }
}

#[cfg(test)]
mod tests {
    use wardroom_core::run;

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
        assert_eq!(
            mode.input,
            Some(Input::Choice(["refresh", "reissue", "keep"].map(str::to_owned).to_vec()))
        );
        assert_eq!(fields.at("PATCH", "/api/v1/nodes/n1/state").unwrap()["force"].input, Some(Input::Flag));
        let decommission = fields.at("POST", "/api/v1/gpu-nodes/g1/decommissions").unwrap();
        assert!(matches!(&decommission["mode"].input, Some(Input::Choice(modes)) if modes.len() == 4));
        assert_eq!(decommission["skip"].input, None);
    }

    /// Actions that share a route have their own fields.
    #[test]
    fn a_field_belongs_to_the_actions_that_it_names() {
        let fields = Fields::of(&serde_json::to_value(router::openapi(KINDS)).unwrap());
        for (action, expected) in [
            (run::action::Action::RetryStage, &["comment"][..]),
            (run::action::Action::Cancel, &["abandon", "comment"]),
            (run::action::Action::AdoptObservedState, &["comment", "expected_observation_digest"]),
        ] {
            let action: Action = action.call().of("r1").into();
            let names: Vec<_> = fields.of_action(&action).unwrap().iter().map(|(name, _)| *name).collect();
            assert_eq!(names, expected, "{action:?}");
        }
    }
}

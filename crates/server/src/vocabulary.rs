//! Words of the core in the OpenAPI document: which values a property has, so that clients can be generated
//! and nonsense is told apart from what is only not allowed now.

use utoipa::openapi::{
    OpenApi, Ref, RefOr, Schema,
    path::Parameter,
    schema::{ArrayItems, Object, SchemaType, Type},
};
use wardroom_core::{Named, gpu_node, node, node::report::InstallStatus, run, satellite, table::Role};

use crate::token;

/// With colons or hyphens, in any case.
const MAC: &str = "^[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}$";

enum Words {
    Pattern(&'static str),
    Of(fn() -> Vec<&'static str>),
}

/// The schemas, their properties, and what those take.
const VOCABULARY: &[(&str, &str, Words)] = &[
    ("Node", "state", Words::Of(names::<node::State>)),
    ("Node", "mac_address", Words::Pattern(MAC)),
    ("NodeCreate", "mac_address", Words::Pattern(MAC)),
    ("NodeReport", "mac_address", Words::Pattern(MAC)),
    ("NodeReport", "installation_status", Words::Of(names::<InstallStatus>)),
    ("InstallationStatus", "status", Words::Of(names::<InstallStatus>)),
    ("Transition", "from_state", Words::Of(names::<node::State>)),
    ("Transition", "to_state", Words::Of(names::<node::State>)),
    ("BulkItem", "state", Words::Of(names::<node::State>)),
    ("StateTransition", "state", Words::Of(names::<node::State>)),
    ("BulkTransition", "state", Words::Of(names::<node::State>)),
    ("GpuNode", "state", Words::Of(names::<gpu_node::State>)),
    ("GpuNode", "macs", Words::Pattern(MAC)),
    ("GpuNodeCreate", "macs", Words::Pattern(MAC)),
    ("Beat", "state", Words::Of(names::<gpu_node::State>)),
    ("Satellite", "state", Words::Of(names::<satellite::State>)),
    ("Member", "state", Words::Of(names::<satellite::State>)),
    ("Task", "kind", Words::Of(names::<gpu_node::task::Kind>)),
    ("Task", "state", Words::Of(names::<gpu_node::task::State>)),
    ("TaskResult", "outcome", Words::Of(names::<gpu_node::task::Outcome>)),
    ("Run", "state", Words::Of(names::<run::State>)),
    ("Run", "kind", Words::Of(names::<run::plan::Kind>)),
    ("Run", "stage", Words::Of(names::<run::plan::Stage>)),
    ("Run", "goal", Words::Of(names::<run::action::Goal>)),
    ("Token", "role", Words::Of(names::<Role>)),
    ("TokenCreate", "role", Words::Of(names::<Role>)),
];

fn names<T: Named>() -> Vec<&'static str> {
    T::ALL.iter().map(|name| name.as_str()).collect()
}

/// The lists, their parameters, and what those take.
const PARAMETERS: &[(&str, &str, Words)] = &[
    ("/api/v1/nodes", "state", Words::Of(names::<node::State>)),
    ("/api/v1/boot", "mac", Words::Pattern(MAC)),
    ("/api/v1/gpu-nodes", "state", Words::Of(names::<gpu_node::State>)),
    ("/api/v1/runs", "state", Words::Of(names::<run::State>)),
    ("/api/v1/runs", "kind", Words::Of(names::<run::plan::Kind>)),
    ("/api/v1/tokens", "state", Words::Of(|| token::STATES.to_vec())),
    ("/api/satellites", "state", Words::Of(names::<satellite::State>)),
];

/// Writes the words into the document; a test sees that each has its place.
pub(crate) fn write(document: &mut OpenApi) {
    refer(document);
    for (schema, property, words) in VOCABULARY {
        if let Some(object) = object(document, schema, property) {
            say(object, words);
        }
    }
    for (path, name, words) in PARAMETERS {
        if let Some(object) = parameter(document, path, name) {
            say(object, words);
        }
    }
}

fn say(object: &mut Object, words: &Words) {
    match words {
        Words::Pattern(pattern) => object.pattern = Some((*pattern).to_owned()),
        Words::Of(names) => {
            let mut values: Vec<serde_json::Value> = names().into_iter().map(Into::into).collect();
            if matches!(&object.schema_type, SchemaType::Array(types) if types.contains(&Type::Null)) {
                values.push(serde_json::Value::Null);
            }
            object.enum_values = Some(values);
        }
    }
}

/// Envelopes and pages refer to what they hold. They come with copies of it, which would not have the words.
fn refer(document: &mut OpenApi) {
    let Some(components) = document.components.as_mut() else { return };
    let known: Vec<String> = components.schemas.keys().cloned().collect();
    for (name, schema) in &mut components.schemas {
        let held = name.split_once('_').filter(|(outer, _)| matches!(*outer, "Envelope" | "Page"));
        let Some((_, held)) = held.filter(|(_, held)| known.iter().any(|name| name == held)) else {
            continue;
        };
        let RefOr::T(Schema::Object(schema)) = schema else { continue };
        let to = RefOr::Ref(Ref::from_schema_name(held));
        match schema.properties.get_mut("data") {
            Some(RefOr::T(Schema::Array(array))) => array.items = ArrayItems::RefOrSchema(Box::new(to)),
            Some(data) => *data = to,
            None => {}
        }
    }
}

/// The property of a schema, or each element of it.
fn object<'a>(document: &'a mut OpenApi, schema: &str, property: &str) -> Option<&'a mut Object> {
    let schema = document.components.as_mut()?.schemas.get_mut(schema)?;
    let RefOr::T(Schema::Object(schema)) = schema else { return None };
    match schema.properties.get_mut(property)? {
        RefOr::T(Schema::Object(object)) => Some(object),
        RefOr::T(Schema::Array(array)) => match &mut array.items {
            ArrayItems::RefOrSchema(items) => match &mut **items {
                RefOr::T(Schema::Object(object)) => Some(object),
                RefOr::T(_) | RefOr::Ref(_) => None,
            },
            ArrayItems::False => None,
        },
        RefOr::T(_) | RefOr::Ref(_) => None,
    }
}

fn parameter<'a>(document: &'a mut OpenApi, path: &str, name: &str) -> Option<&'a mut Object> {
    let parameters = document.paths.paths.get_mut(path)?.get.as_mut()?.parameters.as_mut()?;
    parameters.iter_mut().find_map(|parameter| match parameter {
        RefOr::T(Parameter { name: known, schema: Some(RefOr::T(Schema::Object(object))), .. })
            if known == name =>
        {
            Some(object)
        }
        RefOr::T(_) | RefOr::Ref(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::{PARAMETERS, VOCABULARY, object, parameter};

    #[test]
    fn every_word_has_its_place() {
        let mut document = crate::router::openapi();
        for (schema, property, _) in VOCABULARY {
            let object = object(&mut document, schema, property);
            let said = object.is_some_and(|object| object.pattern.is_some() || object.enum_values.is_some());
            assert!(said, "{schema}.{property}");
        }
        for (path, name, _) in PARAMETERS {
            assert!(parameter(&mut document, path, name).is_some(), "{path} {name}");
        }
    }

    /// A copy of a schema inside another one would not have the words.
    #[test]
    fn what_is_shown_is_referred_to() {
        let document = serde_json::to_value(crate::router::openapi()).unwrap();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for name in schemas.keys().filter(|name| name.starts_with("Envelope_") || name.starts_with("Page_")) {
            let data = &schemas[name]["properties"]["data"];
            let held = name.split_once('_').unwrap().1;
            let refers = [&data["$ref"], &data["items"]["$ref"]].iter().any(|to| to.is_string());
            assert!(refers || !schemas.contains_key(held), "{name} has a copy of {held}");
        }
    }
}

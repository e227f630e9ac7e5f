//! Words of the core in the OpenAPI document: which values a property has, so that clients can be generated
//! and nonsense is told apart from what is only not allowed now.

use utoipa::openapi::{OpenApi, RefOr, Schema, schema::Object};
use wardroom_core::{Named, gpu_node, node, run, table::Role};

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
    ("StateTransition", "state", Words::Of(names::<node::State>)),
    ("BulkTransition", "state", Words::Of(names::<node::State>)),
    ("GpuNode", "state", Words::Of(names::<gpu_node::State>)),
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

/// Writes the words into the document; a test sees that each has its place.
pub(crate) fn write(document: &mut OpenApi) {
    for (schema, property, words) in VOCABULARY {
        let Some(object) = object(document, schema, property) else { continue };
        match words {
            Words::Pattern(pattern) => object.pattern = Some((*pattern).to_owned()),
            Words::Of(names) => object.enum_values = Some(names().into_iter().map(Into::into).collect()),
        }
    }
}

fn object<'a>(document: &'a mut OpenApi, schema: &str, property: &str) -> Option<&'a mut Object> {
    let schema = document.components.as_mut()?.schemas.get_mut(schema)?;
    let RefOr::T(Schema::Object(schema)) = schema else { return None };
    match schema.properties.get_mut(property)? {
        RefOr::T(Schema::Object(object)) => Some(object),
        RefOr::T(_) | RefOr::Ref(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{VOCABULARY, object};

    #[test]
    fn every_word_has_its_place() {
        let mut document = crate::router::openapi();
        for (schema, property, _) in VOCABULARY {
            assert!(object(&mut document, schema, property).is_some(), "{schema}.{property}");
        }
    }
}

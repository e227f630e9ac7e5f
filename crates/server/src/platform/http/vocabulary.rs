//! Writes the values of enums of the core into the OpenAPI document, for generated clients.

use utoipa::openapi::{
    OpenApi, Ref, RefOr, Schema,
    path::Parameter,
    schema::{ArrayItems, Object, SchemaType, Type},
};
use wardroom_core::{Named, table::Role};

use crate::platform::{identity::token, kind::Kind};

/// The form of a MAC address: with colons or hyphens, in any case.
pub(crate) const MAC: &str = "^[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}$";

/// The values that a property or parameter takes.
#[derive(Debug, Clone, Copy)]
pub enum Values {
    /// Texts of this form.
    Pattern(&'static str),
    /// One of these.
    Of(fn() -> Vec<&'static str>),
}

/// A schema or path, its property or parameter, and the values of that.
pub type Word = (&'static str, &'static str, Values);

/// The words of a kind.
#[derive(Debug)]
pub struct Words {
    /// Of schemas.
    pub schemas: &'static [Word],
    /// Of parameters of lists.
    pub parameters: &'static [Word],
}

const SHARED: Words = Words {
    schemas: &[
        ("Token", "role", Values::Of(names::<Role>)),
        ("TokenCreate", "role", Values::Of(names::<Role>)),
        ("Whoami", "role", Values::Of(names::<Role>)),
    ],
    parameters: &[("/api/v1/tokens", "state", Values::Of(|| token::STATES.to_vec()))],
};

/// The names of an enum of the core.
pub(crate) fn names<T: Named>() -> Vec<&'static str> {
    T::ALL.iter().map(|name| name.as_str()).collect()
}

fn all<'a>(kinds: &'a [&'a Kind]) -> impl Iterator<Item = &'a Words> {
    [&SHARED].into_iter().chain(kinds.iter().map(|kind| kind.words))
}

/// Writes the words into the document; a test checks that each has its place.
pub(crate) fn write(document: &mut OpenApi, kinds: &[&Kind]) {
    refer(document);
    for (schema, property, values) in all(kinds).flat_map(|words| words.schemas) {
        if let Some(object) = object(document, schema, property) {
            say(object, values);
        }
    }
    for (path, name, values) in all(kinds).flat_map(|words| words.parameters) {
        if let Some(object) = parameter(document, path, name) {
            say(object, values);
        }
    }
}

fn say(object: &mut Object, values: &Values) {
    match values {
        Values::Pattern(pattern) => object.pattern = Some((*pattern).to_owned()),
        Values::Of(names) => {
            let mut values: Vec<serde_json::Value> = names().into_iter().map(Into::into).collect();
            if matches!(&object.schema_type, SchemaType::Array(types) if types.contains(&Type::Null)) {
                values.push(serde_json::Value::Null);
            }
            object.enum_values = Some(values);
        }
    }
}

/// Makes envelopes and pages refer to their contents. They contain copies, which would not have the words.
fn refer(document: &mut OpenApi) {
    let Some(components) = document.components.as_mut() else { return };
    let known: Vec<String> = components.schemas.keys().cloned().collect();
    for (name, schema) in &mut components.schemas {
        let held = name.split_once('_').filter(|(outer, _)| matches!(*outer, "Envelope" | "Page" | "Items"));
        let Some((_, held)) = held.filter(|(_, held)| known.iter().any(|name| name == held)) else {
            continue;
        };
        let RefOr::T(Schema::Object(schema)) = schema else { continue };
        let to = RefOr::Ref(Ref::from_schema_name(held));
        let property = if schema.properties.contains_key("data") { "data" } else { "items" };
        match schema.properties.get_mut(property) {
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
    use super::{super::router, all, object, parameter};
    use crate::kinds::KINDS;

    #[test]
    fn every_word_has_its_place() {
        let mut document = router::openapi(KINDS);
        for (schema, property, _) in all(KINDS).flat_map(|words| words.schemas) {
            let object = object(&mut document, schema, property);
            let said = object.is_some_and(|object| object.pattern.is_some() || object.enum_values.is_some());
            assert!(said, "{schema}.{property}");
        }
        for (path, name, _) in all(KINDS).flat_map(|words| words.parameters) {
            assert!(parameter(&mut document, path, name).is_some(), "{path} {name}");
        }
    }

    /// A copy of a schema inside another one would not have the words.
    #[test]
    fn every_schema_is_referred_to() {
        let document = serde_json::to_value(router::openapi(KINDS)).unwrap();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let holds =
            |name: &&String| ["Envelope_", "Page_", "Items_"].iter().any(|start| name.starts_with(start));
        for name in schemas.keys().filter(holds) {
            let properties = &schemas[name]["properties"];
            let data = if properties["data"].is_null() { &properties["items"] } else { &properties["data"] };
            let held = name.split_once('_').unwrap().1;
            let refers = [&data["$ref"], &data["items"]["$ref"]].iter().any(|to| to.is_string());
            assert!(refers || !schemas.contains_key(held), "{name} has a copy of {held}");
        }
    }
}

//! Gives variants of tagged enums their own schemas: generators of clients skip types with inline variants.

use std::collections::BTreeMap;

use utoipa::openapi::{
    Discriminator, OpenApi, Ref, RefOr, Schema,
    schema::{AllOf, Object},
};

/// Moves variants out of their enums, and refers to them.
pub(super) fn name(document: &mut OpenApi) {
    let Some(components) = document.components.as_mut() else { return };
    let mut named = BTreeMap::new();
    for (parent, schema) in &mut components.schemas {
        let RefOr::T(Schema::OneOf(schema)) = schema else { continue };
        let tags: Option<Vec<_>> = schema.items.iter().map(tag).collect();
        let Some(tags) = tags.filter(|tags| tags.iter().all(|(key, _)| *key == tags[0].0)) else { continue };
        let Some((key, _)) = tags.first().cloned() else { continue };
        let mut mapping = BTreeMap::new();
        for ((_, value), item) in tags.into_iter().zip(&mut schema.items) {
            let name = format!("{parent}{}", camel(&value));
            let to = Ref::from_schema_name(&name);
            mapping.insert(value, to.ref_location.clone());
            named.insert(name, std::mem::replace(item, RefOr::Ref(to)));
        }
        let mut discriminator = Discriminator::new(key);
        discriminator.mapping = mapping;
        schema.discriminator = Some(discriminator);
    }
    components.schemas.extend(named);
}

/// The property with a single value that tells a variant from the others.
fn tag(item: &RefOr<Schema>) -> Option<(String, String)> {
    match item {
        RefOr::T(Schema::Object(object)) => tag_of(object),
        RefOr::T(Schema::AllOf(AllOf { items, .. })) => items.iter().find_map(|item| match item {
            RefOr::T(Schema::Object(object)) => tag_of(object),
            RefOr::T(_) | RefOr::Ref(_) => None,
        }),
        RefOr::T(_) | RefOr::Ref(_) => None,
    }
}

fn tag_of(object: &Object) -> Option<(String, String)> {
    object.properties.iter().find_map(|(key, property)| {
        let RefOr::T(Schema::Object(property)) = property else { return None };
        let [value] = property.enum_values.as_deref()? else { return None };
        Some((key.clone(), value.as_str()?.to_owned()))
    })
}

fn camel(word: &str) -> String {
    let part = |part: &str| {
        let mut letters = part.chars();
        letters
            .next()
            .map(|first| first.to_ascii_uppercase().to_string() + letters.as_str())
            .unwrap_or_default()
    };
    word.split('_').map(part).collect()
}

//! The answers that every route may give instead of its own.

use std::collections::BTreeMap;

use utoipa::{
    IntoResponses, PartialSchema, ToSchema,
    openapi::{ContentBuilder, RefOr, Response, ResponseBuilder},
};
use wardroom_api::Problem;

/// Documents that every refusal is a problem.
pub(crate) struct Problems;

impl IntoResponses for Problems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let _ = Problem::schema;
        let schema = utoipa::openapi::Ref::from_schema_name(Problem::name());
        let content = ContentBuilder::new().schema(Some(schema)).build();
        let response = ResponseBuilder::new()
            .description("A refusal or failure: the field, the problem, and the next step")
            .content("application/problem+json", content)
            .build();
        BTreeMap::from([("default".to_owned(), response.into())])
    }
}

/// Refusals in the format of registries.
pub(crate) struct RegistryRefusals;

impl IntoResponses for RegistryRefusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let response = ResponseBuilder::new()
            .description(
                "A refusal or failure, as clients of registries know it: `errors` with `code` and `message`",
            )
            .content("application/json", ContentBuilder::new().build())
            .build();
        BTreeMap::from([("default".to_owned(), response.into())])
    }
}

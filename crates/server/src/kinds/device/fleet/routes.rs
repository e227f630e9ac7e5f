//! The routes of fleets: the callers that may use each, its handler, and its words.

use utoipa_axum::{router::OpenApiRouter, routes};
use wardroom_core::device::fleet::State;

use super::{act, create, edit, versions, view};
use crate::platform::{
    app::App,
    http::{
        access::{Class, OPERATORS, READERS, Route, route},
        vocabulary::{Values, Words, names},
    },
};

#[rustfmt::skip]
pub(super) const ACCESS: &[Route] = &[
    route("GET",    "/api/v1/fleets",                         "fleet", READERS,   Class::Read),
    route("POST",   "/api/v1/fleets",                         "fleet", OPERATORS, Class::Write),
    route("GET",    "/api/v1/fleets/{name}",                  "fleet", READERS,   Class::Read),
    route("PUT",    "/api/v1/fleets/{name}",                  "fleet", OPERATORS, Class::Write),
    route("PATCH",  "/api/v1/fleets/{name}",                  "fleet", OPERATORS, Class::Write),
    route("DELETE", "/api/v1/fleets/{name}",                  "fleet", OPERATORS, Class::Write),
    route("GET",    "/api/v1/fleets/{name}/templateversions", "fleet", READERS,   Class::Read),
    route("POST",   "/api/v1/fleets/{name}/actions/pause",    "fleet", OPERATORS, Class::Write),
    route("POST",   "/api/v1/fleets/{name}/actions/resume",   "fleet", OPERATORS, Class::Write),
    route("POST",   "/api/v1/fleets/{name}/actions/rollback", "fleet", OPERATORS, Class::Write),
];

pub(super) const WORDS: Words = Words {
    schemas: &[
        ("RolloutStatus", "state", Values::Of(names::<State>)),
        ("MatchExpression", "operator", Values::Of(|| vec!["In", "NotIn", "Exists", "DoesNotExist"])),
    ],
    parameters: &[],
};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(view::list, create::create))
        .routes(routes!(view::get, edit::replace, edit::patch, create::delete))
        .routes(routes!(versions::list))
        .routes(routes!(act::pause))
        .routes(routes!(act::resume))
        .routes(routes!(act::rollback))
}

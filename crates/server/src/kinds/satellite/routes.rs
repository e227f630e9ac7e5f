//! The routes of satellites: the callers that may use each, its handler, and its words.

use utoipa_axum::{router::OpenApiRouter, routes};
use wardroom_core::satellite;

use super::{
    config, create, delete, group, patch,
    proof::{CERTIFICATE, CREDENTIAL},
    pull, reenable, refresh, registry, revoke, spiffe, svid, sync, view, ztr,
};
use crate::platform::{
    app::App,
    http::{
        access::{
            Allow::{Anyone, Proven},
            Class, OPERATORS, READERS, Route, route,
        },
        vocabulary::{Values, Words, names},
    },
};

#[rustfmt::skip]
pub(super) const ACCESS: &[Route] = &[
    route("GET",    "/api/satellites",                             "satellite", READERS,  Class::Read),
    route("POST",   "/api/satellites",                             "satellite", OPERATORS, Class::Write).showing_secret(),
    route("GET",    "/api/satellites/active",                      "satellite", READERS,  Class::Read),
    route("GET",    "/api/satellites/stale",                       "satellite", READERS,  Class::Read),
    route("POST",   "/api/satellites/register",                    "satellite", OPERATORS, Class::Write).showing_secret(),
    route("POST",   "/api/join-tokens",                            "satellite", OPERATORS, Class::Write).showing_secret(),
    route("GET",    "/api/satellites/{name}",                      "satellite", READERS,  Class::Read),
    route("PATCH",  "/api/satellites/{name}",                      "satellite", OPERATORS, Class::Write),
    route("DELETE", "/api/satellites/{name}",                      "satellite", OPERATORS, Class::Write),
    route("GET",    "/api/satellites/{name}/effects",              "satellite", READERS,  Class::Read),
    route("POST",   "/api/satellites/{name}/revoke",               "satellite", OPERATORS, Class::Write),
    route("POST",   "/api/satellites/{name}/reenable",             "satellite", OPERATORS, Class::Write).showing_secret(),
    route("GET",    "/satellites/ztr/{token}",                     "",         Anyone,    Class::Register).spending().repeating(),
    route("POST",   "/satellites/ztr",                             "",         Anyone,    Class::Register).repeating(),
    route("GET",    "/satellites/spiffe-ztr",                      "",         Proven(&CERTIFICATE, &[]),      Class::Register).spending().repeating(),
    route("POST",   "/satellites/sync",                            "",         Proven(&CREDENTIAL, &[]), Class::Report).beating().repeating(),
    route("POST",   "/satellites/refresh",                         "",         Proven(&CREDENTIAL, &[]), Class::Report).repeating(),
    route("GET",    "/api/groups",                                 "satellite-group",  READERS,   Class::Read),
    route("POST",   "/api/groups/sync",                            "satellite-group",  OPERATORS, Class::Write),
    route("POST",   "/api/groups/satellite",                       "satellite-group",  OPERATORS, Class::Write),
    route("DELETE", "/api/groups/satellite",                       "satellite-group",  OPERATORS, Class::Write),
    route("GET",    "/api/groups/{group}",                         "satellite-group",  READERS,   Class::Read),
    route("DELETE", "/api/groups/{group}",                         "satellite-group",  OPERATORS, Class::Write),
    route("GET",    "/api/groups/{group}/satellites",              "satellite-group",  READERS,   Class::Read),
    route("GET",    "/api/groups/{group}/effects",                 "satellite-group",  READERS,   Class::Read),
    route("GET",    "/api/configs",                                "satellite-config", READERS,   Class::Read),
    route("POST",   "/api/configs",                                "satellite-config", OPERATORS, Class::Write),
    route("POST",   "/api/configs/satellite",                      "satellite-config", OPERATORS, Class::Write),
    route("GET",    "/api/configs/{config}",                       "satellite-config", READERS,   Class::Read),
    route("PATCH",  "/api/configs/{config}",                       "satellite-config", OPERATORS, Class::Write),
    route("DELETE", "/api/configs/{config}",                       "satellite-config", OPERATORS, Class::Write),
    route("GET",    "/api/configs/{config}/effects",               "satellite-config", READERS,   Class::Read),
    route("GET",    "/v2/",                                        "", Proven(&CREDENTIAL, &[]), Class::Report),
    route("GET",    "/v2/satellite/{family}/{name}/state/manifests/{reference}", "", Proven(&CREDENTIAL, &[]), Class::Report),
    route("GET",    "/v2/satellite/{family}/{name}/state/blobs/{digest}",        "", Proven(&CREDENTIAL, &[]), Class::Report),
    route("GET",    "/v2/satellite/{family}/{name}/state/tags/list",             "", Proven(&CREDENTIAL, &[]), Class::Report),
    route("GET",    "/v2/{*path}",                                 "", Proven(&CREDENTIAL, &[]), Class::Report),
];

pub(super) const WORDS: Words = Words {
    schemas: &[
        ("Satellite", "status", Values::Of(names::<satellite::State>)),
        ("Member", "status", Values::Of(names::<satellite::State>)),
        ("Reenable", "mode", Values::Of(|| reenable::MODES.to_vec())),
    ],
    parameters: &[("/api/satellites", "status", Values::Of(names::<satellite::State>))],
};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(view::list, create::create))
        .routes(routes!(view::active))
        .routes(routes!(view::stale))
        .routes(routes!(spiffe::register_alias))
        .routes(routes!(spiffe::join_token))
        .routes(routes!(view::get, patch::patch, delete::delete))
        .routes(routes!(view::effects))
        .routes(routes!(revoke::revoke))
        .routes(routes!(reenable::reenable))
        .routes(routes!(ztr::by_path))
        .routes(routes!(ztr::by_body))
        .merge(machines())
        .routes(routes!(group::list))
        .routes(routes!(group::sync))
        .routes(routes!(group::assign, group::unassign))
        .routes(routes!(group::get, group::delete))
        .routes(routes!(group::satellites))
        .routes(routes!(group::effects))
        .routes(routes!(config::list, config::create))
        .routes(routes!(config::assign))
        .routes(routes!(config::get, config::patch, config::delete))
        .routes(routes!(config::effects))
}

/// Returns the routes of registered satellites: for the main listener, and for that with certificates.
pub(crate) fn machines() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(svid::register))
        .routes(routes!(sync::sync))
        .routes(routes!(refresh::refresh))
        .routes(routes!(registry::version))
        .routes(routes!(registry::manifest))
        .routes(routes!(registry::blob))
        .routes(routes!(registry::tags))
        // OpenAPI knows no path of any length: the specification of the OCI distribution API describes it.
        .route("/v2/{*path}", axum::routing::get(pull::pull))
}

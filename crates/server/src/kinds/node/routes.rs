//! The routes of nodes: the callers that may use each, its handler, and its words.

use utoipa_axum::{router::OpenApiRouter, routes};
use wardroom_core::{
    node::{self as lifecycle, report::InstallStatus},
    table::Role::{Admin, Operator},
};

use super::{
    boot, bulk, group,
    proof::{MACHINE, NETWORK},
    report, workflow,
};
use crate::{
    kinds::node,
    platform::{
        app::App,
        http::{
            access::{APPROVERS, Allow::Proven, Class, OPERATORS, READERS, Route, route},
            vocabulary::{MAC, Values, Words, names},
        },
    },
};

#[rustfmt::skip]
pub(super) const ACCESS: &[Route] = &[
    route("GET",    "/api/v1/nodes",                               "node",     READERS,   Class::Read),
    route("POST",   "/api/v1/nodes",                               "node",     OPERATORS, Class::Write),
    route("GET",    "/api/v1/nodes/{id}",                          "node",     READERS,   Class::Read),
    route("PATCH",  "/api/v1/nodes/{id}",                          "node",     OPERATORS, Class::Write),
    route("DELETE", "/api/v1/nodes/{id}",                          "node",     OPERATORS, Class::Write),
    route("PATCH",  "/api/v1/nodes/{id}/state",                    "node",     APPROVERS, Class::Write),
    route("POST",   "/api/v1/nodes/bulk/state",                    "node",     APPROVERS, Class::Write),
    route("GET",    "/api/v1/nodes/{id}/history",                  "node",     READERS,   Class::Read),
    route("POST",   "/api/v1/nodes/{id}/installation-status",      "node",     Proven(&MACHINE, &[Operator, Admin]), Class::Report),
    route("POST",   "/api/v1/report",                              "node",     Proven(&MACHINE, &[Operator, Admin]), Class::Report),
    route("GET",    "/api/v1/boot",                                "node",     Proven(&NETWORK, &[Operator, Admin]), Class::Report).changing(),
    route("GET",    "/api/v1/workflows",                           "workflow", READERS,   Class::Read),
    route("POST",   "/api/v1/workflows",                           "workflow", OPERATORS, Class::Write),
    route("GET",    "/api/v1/workflows/{id}",                      "workflow", READERS,   Class::Read),
    route("PUT",    "/api/v1/workflows/{id}",                      "workflow", OPERATORS, Class::Write),
    route("DELETE", "/api/v1/workflows/{id}",                      "workflow", OPERATORS, Class::Write),
    route("GET",    "/api/v1/groups",                              "group",    READERS,   Class::Read),
    route("POST",   "/api/v1/groups",                              "group",    OPERATORS, Class::Write),
    route("GET",    "/api/v1/groups/{id}",                         "group",    READERS,   Class::Read),
    route("PUT",    "/api/v1/groups/{id}",                         "group",    OPERATORS, Class::Write),
    route("DELETE", "/api/v1/groups/{id}",                         "group",    OPERATORS, Class::Write),
];

pub(super) const WORDS: Words = Words {
    schemas: &[
        ("Node", "state", Values::Of(names::<lifecycle::State>)),
        ("Node", "mac_address", Values::Pattern(MAC)),
        ("NodeCreate", "mac_address", Values::Pattern(MAC)),
        ("NodeReport", "mac_address", Values::Pattern(MAC)),
        ("NodeReport", "installation_status", Values::Of(names::<InstallStatus>)),
        ("InstallationStatus", "status", Values::Of(names::<InstallStatus>)),
        ("Transition", "from_state", Values::Of(names::<lifecycle::State>)),
        ("Transition", "to_state", Values::Of(names::<lifecycle::State>)),
        ("BulkItem", "state", Values::Of(names::<lifecycle::State>)),
        ("StateTransition", "state", Values::Of(names::<lifecycle::State>)),
        ("BulkTransition", "state", Values::Of(names::<lifecycle::State>)),
    ],
    parameters: &[
        ("/api/v1/nodes", "state", Values::Of(names::<lifecycle::State>)),
        ("/api/v1/boot", "mac", Values::Pattern(MAC)),
    ],
};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(node::list, node::create))
        .routes(routes!(node::get, node::patch, node::delete))
        .routes(routes!(node::transition))
        .routes(routes!(bulk::transition))
        .routes(routes!(node::transitions))
        .routes(routes!(workflow::list, workflow::create))
        .routes(routes!(workflow::get, workflow::replace, workflow::delete))
        .routes(routes!(group::list, group::create))
        .routes(routes!(group::get, group::replace, group::delete))
        .merge(machines())
}

/// Returns the routes of machines that boot and install: for the main listener, and for one of their own.
pub(crate) fn machines() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(boot::script))
        .routes(routes!(report::report))
        .routes(routes!(report::installation_status))
}

//! The routes of GPU nodes: the callers that may use each, its handler, and its words.

use utoipa_axum::{router::OpenApiRouter, routes};
use wardroom_core::{gpu_node as lifecycle, run as work};

use super::{action, delete, enroll, heartbeat, identity::AGENT, lifecycle as view, patch, run, sites, task};
use crate::{
    kinds::gpu_node,
    platform::{
        app::App,
        http::{
            access::{
                ADMINS,
                Allow::{Anyone, Proven},
                Class, OPERATORS, READERS, Route, route,
            },
            vocabulary::{MAC, Values, Words, names},
        },
    },
};

#[rustfmt::skip]
pub(super) const ACCESS: &[Route] = &[
    route("GET",    "/api/v1/gpu-nodes",                           "gpu-node", READERS,   Class::Read),
    route("POST",   "/api/v1/gpu-nodes",                           "gpu-node", OPERATORS, Class::Write).showing_secret(),
    route("POST",   "/api/v1/gpu-nodes/enroll",                    "",         Anyone,    Class::Register).showing_secret(),
    route("GET",    "/api/v1/gpu-nodes/{id}",                      "gpu-node", READERS,   Class::Read),
    route("PATCH",  "/api/v1/gpu-nodes/{id}",                      "gpu-node", OPERATORS, Class::Write),
    route("DELETE", "/api/v1/gpu-nodes/{id}",                      "gpu-node", OPERATORS, Class::Write),
    route("GET",    "/api/v1/gpu-nodes/{id}/lifecycle",            "gpu-node", READERS,   Class::Read),
    route("POST",   "/api/v1/gpu-nodes/{id}/onboardings",          "gpu-node", OPERATORS, Class::Write),
    route("POST",   "/api/v1/gpu-nodes/{id}/decommissions",        "gpu-node", OPERATORS, Class::Write),
    route("POST",   "/api/v1/gpu-nodes/{id}/actions/{action}",     "gpu-node", OPERATORS, Class::Write),
    route("POST",   "/api/v1/gpu-nodes/{id}/heartbeat",            "",         Proven(&AGENT, &[]),  Class::Report).beating(),
    route("POST",   "/api/v1/gpu-nodes/{id}/tasks/claim",          "",         Proven(&AGENT, &[]),  Class::Report),
    route("POST",   "/api/v1/gpu-nodes/{id}/tasks/{task}/result",  "",         Proven(&AGENT, &[]),  Class::Report),
    route("GET",    "/api/v1/sites",                               "site",     READERS,   Class::Read),
    route("POST",   "/api/v1/sites",                               "site",     ADMINS,    Class::Write),
    route("GET",    "/api/v1/sites/{id}",                          "site",     READERS,   Class::Read),
    route("PUT",    "/api/v1/sites/{id}",                          "site",     ADMINS,    Class::Write),
    route("DELETE", "/api/v1/sites/{id}",                          "site",     ADMINS,    Class::Write),
    route("GET",    "/api/v1/runs",                                "run",      READERS,   Class::Read),
    route("GET",    "/api/v1/runs/{id}",                           "run",      READERS,   Class::Read),
    route("POST",   "/api/v1/runs/{id}/actions/{action}",          "run",      OPERATORS, Class::Write),
];

pub(super) const WORDS: Words = Words {
    schemas: &[
        ("GpuNode", "status", Values::Of(names::<lifecycle::State>)),
        ("GpuNode", "macs", Values::Pattern(MAC)),
        ("GpuNodeCreate", "macs", Values::Pattern(MAC)),
        (
            "DecommissionCreate",
            "mode",
            Values::Of(|| gpu_node::MODES.iter().map(|mode| mode.as_str()).collect()),
        ),
        ("Beat", "status", Values::Of(names::<lifecycle::State>)),
        ("Task", "kind", Values::Of(names::<lifecycle::task::Kind>)),
        ("Task", "state", Values::Of(names::<lifecycle::task::State>)),
        ("TaskResult", "outcome", Values::Of(names::<lifecycle::task::Outcome>)),
        ("Run", "status", Values::Of(names::<work::State>)),
        ("Run", "kind", Values::Of(names::<work::plan::Kind>)),
        ("Run", "stage", Values::Of(names::<work::plan::Stage>)),
        ("Run", "goal", Values::Of(names::<work::action::Goal>)),
    ],
    parameters: &[
        ("/api/v1/gpu-nodes", "status", Values::Of(names::<lifecycle::State>)),
        ("/api/v1/runs", "status", Values::Of(names::<work::State>)),
        ("/api/v1/runs", "kind", Values::Of(names::<work::plan::Kind>)),
    ],
};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(gpu_node::list, gpu_node::create))
        .routes(routes!(enroll::enroll))
        .routes(routes!(gpu_node::get, patch::patch, delete::delete))
        .routes(routes!(view::lifecycle))
        .routes(routes!(gpu_node::onboard))
        .routes(routes!(gpu_node::decommission))
        .routes(routes!(action::act))
        .routes(routes!(heartbeat::heartbeat))
        .routes(routes!(task::claim))
        .routes(routes!(task::result))
        .routes(routes!(sites::list, sites::create))
        .routes(routes!(sites::get, sites::replace, sites::delete))
        .routes(routes!(run::list))
        .routes(routes!(run::get))
        .routes(routes!(run::act_on))
}

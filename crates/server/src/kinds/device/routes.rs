//! The routes of devices: the callers that may use each, its handler, and its words.

use utoipa_axum::{router::OpenApiRouter, routes};
use wardroom_core::table::Role::{Admin, Auditor, Installer, Operator, Viewer};

use super::{
    approve, certificate, edit, enrol, flightctl,
    proof::{CERTIFICATE, TOKEN},
    rendered,
    request::STATES,
    revoke,
    settings::Settings,
    status, token, view,
};
use crate::platform::{
    app::App,
    http::{
        access::{APPROVERS, Allow::Proven, Class, OPERATORS, READERS, Route, route},
        vocabulary::{Values, Words},
    },
};

#[rustfmt::skip]
pub(super) const ACCESS: &[Route] = &[
    route("GET",    "/api/v1/devices",                            "device", READERS,   Class::Read),
    route("GET",    "/api/v1/devices/{name}",                     "device", READERS,   Class::Read),
    route("PUT",    "/api/v1/devices/{name}",                     "device", OPERATORS, Class::Write),
    route("PATCH",  "/api/v1/devices/{name}",                     "device", OPERATORS, Class::Write),
    route("DELETE", "/api/v1/devices/{name}",                     "device", OPERATORS, Class::Write),
    route("POST",   "/api/v1/devices/{name}/revoke",              "device", OPERATORS, Class::Write),
    route("PUT",    "/api/v1/devices/{name}/decommission",        "device", OPERATORS, Class::Write),
    route("POST",   "/api/v1/devices/{name}/actions/reboot",      "device", OPERATORS, Class::Write),
    route("GET",    "/api/v1/devices/{name}/rendered",            "device", Proven(&CERTIFICATE, &[]), Class::Report).beating().waiting(|config| Settings::of(config).poll),
    route("PUT",    "/api/v1/devices/{name}/status",              "device", Proven(&CERTIFICATE, &[]), Class::Report).beating(),
    route("POST",   "/api/v1/devices/{name}/certificate",         "device", Proven(&CERTIFICATE, &[]), Class::Report).beating().repeating(),
    route("GET",    "/api/v1/enrollmentrequests",                 "enrollmentrequest", READERS,   Class::Read),
    route("POST",   "/api/v1/enrollmentrequests",                 "enrollmentrequest", Proven(&TOKEN, &[]), Class::Register).repeating(),
    route("GET",    "/api/v1/enrollmentrequests/{name}",          "enrollmentrequest", Proven(&TOKEN, &[Viewer, Operator, Admin, Installer, Auditor]), Class::Register),
    route("DELETE", "/api/v1/enrollmentrequests/{name}",          "enrollmentrequest", OPERATORS, Class::Write),
    route("PUT",    "/api/v1/enrollmentrequests/{name}/approval", "enrollmentrequest", APPROVERS, Class::Write),
    route("GET",    "/api/v1/enrollmenttokens",                   "enrollmenttoken", READERS,   Class::Read),
    route("POST",   "/api/v1/enrollmenttokens",                   "enrollmenttoken", OPERATORS, Class::Write).showing_secret(),
    route("GET",    "/api/v1/enrollmenttokens/{name}",            "enrollmenttoken", READERS,   Class::Read),
    route("DELETE", "/api/v1/enrollmenttokens/{name}",            "enrollmenttoken", OPERATORS, Class::Write),
    // The same in Flight Control's words.
    route("GET",    "/flightctl/api/v1/version",                             "device", READERS,   Class::Read),
    route("GET",    "/flightctl/api/v1/devices",                             "device", READERS,   Class::Read),
    route("GET",    "/flightctl/api/v1/devices/{name}",                      "device", READERS,   Class::Read),
    route("PUT",    "/flightctl/api/v1/devices/{name}",                      "device", OPERATORS, Class::Write),
    route("PATCH",  "/flightctl/api/v1/devices/{name}",                      "device", OPERATORS, Class::Write),
    route("DELETE", "/flightctl/api/v1/devices/{name}",                      "device", OPERATORS, Class::Write),
    route("GET",    "/flightctl/api/v1/devices/{name}/status",               "device", READERS,   Class::Read),
    route("GET",    "/flightctl/api/v1/devices/{name}/lastseen",             "device", READERS,   Class::Read),
    route("PUT",    "/flightctl/api/v1/devices/{name}/decommission",         "device", OPERATORS, Class::Write),
    route("GET",    "/flightctl/api/v1/enrollmentrequests",                  "enrollmentrequest", READERS,   Class::Read),
    route("GET",    "/flightctl/api/v1/enrollmentrequests/{name}",           "enrollmentrequest", READERS,   Class::Read),
    route("DELETE", "/flightctl/api/v1/enrollmentrequests/{name}",           "enrollmentrequest", OPERATORS, Class::Write),
    route("PUT",    "/flightctl/api/v1/enrollmentrequests/{name}/approval",  "enrollmentrequest", APPROVERS, Class::Write),
    route("GET",    "/flightctl/api/v1/fleets",                              "fleet", READERS,   Class::Read),
    route("POST",   "/flightctl/api/v1/fleets",                              "fleet", OPERATORS, Class::Write),
    route("GET",    "/flightctl/api/v1/fleets/{name}",                       "fleet", READERS,   Class::Read),
    route("PUT",    "/flightctl/api/v1/fleets/{name}",                       "fleet", OPERATORS, Class::Write),
    route("PATCH",  "/flightctl/api/v1/fleets/{name}",                       "fleet", OPERATORS, Class::Write),
    route("DELETE", "/flightctl/api/v1/fleets/{name}",                       "fleet", OPERATORS, Class::Write),
    route("GET",    "/flightctl/api/v1/fleets/{name}/templateversions",      "fleet", READERS,   Class::Read),
];

pub(super) const WORDS: Words = Words {
    schemas: &[("Decommission", "target", Values::Of(|| vec![revoke::TARGET]))],
    parameters: &[("/api/v1/enrollmentrequests", "state", Values::Of(|| STATES.to_vec()))],
};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(view::list))
        .routes(routes!(view::get, edit::replace, edit::patch, revoke::delete))
        .routes(routes!(revoke::revoke))
        .routes(routes!(revoke::decommission))
        .routes(routes!(revoke::reboot))
        .routes(routes!(enrol::list, enrol::create))
        .routes(routes!(enrol::get, approve::delete))
        .routes(routes!(approve::decide))
        .routes(routes!(token::list, token::create))
        .routes(routes!(token::get, token::delete))
        .merge(of_devices())
        .merge(of_flightctl())
}

fn of_flightctl() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(flightctl::version))
        .routes(routes!(flightctl::devices::list))
        .routes(routes!(
            flightctl::devices::get,
            flightctl::devices::replace,
            flightctl::devices::patch,
            flightctl::devices::delete
        ))
        .routes(routes!(flightctl::devices::read_status))
        .routes(routes!(flightctl::devices::last_seen))
        .routes(routes!(flightctl::devices::decommission))
        .routes(routes!(flightctl::enrollment::list))
        .routes(routes!(flightctl::enrollment::get, flightctl::enrollment::delete))
        .routes(routes!(flightctl::enrollment::approve))
        .routes(routes!(flightctl::fleets::list, flightctl::fleets::create))
        .routes(routes!(
            flightctl::fleets::get,
            flightctl::fleets::replace,
            flightctl::fleets::patch,
            flightctl::fleets::delete
        ))
        .routes(routes!(flightctl::fleets::versions))
}

fn of_devices() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(rendered::rendered))
        .routes(routes!(status::report))
        .routes(routes!(certificate::renew))
}

/// Returns the routes of devices with a certificate, and of those that ask for one: for their own listener.
pub(crate) fn machines() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(enrol::create)).routes(routes!(enrol::get)).merge(of_devices())
}

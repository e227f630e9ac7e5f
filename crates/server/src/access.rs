//! Who may do what: one table over every route.
//!
//! Deny by default: a route without a row is refused to everybody, and a test walks the routes of
//! `openapi.json` and fails for one that has none. What depends on the object (an installer may only
//! approve, a machine may only speak of itself) is checked by the handler.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
};

use Allow::{Anyone, GpuAgent, Machine, Network, Roles, Satellite, Svid};
use wardroom_core::table::Role::{self, Admin, Auditor, Installer, Operator, Viewer};

use crate::{
    app::App,
    auth::{Caller, Who},
    error::Error,
};

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allow {
    /// Everybody, with credentials or without.
    Anyone,
    /// Tokens with one of these roles, within their kinds.
    Roles(&'static [Role]),
    /// A machine that is being installed, as its node allows; or a token with one of these roles.
    Machine(&'static [Role]),
    /// Everybody in the networks that machines boot in; elsewhere a token with one of these roles.
    Network(&'static [Role]),
    /// A satellite that shows a credential and is not blocked; what it may do beyond that, its handler says.
    Satellite,
    /// The agent of a GPU node, for its own node.
    GpuAgent,
    /// Who shows an X.509-SVID, on the listener that asks for one.
    Svid,
}

/// Which bucket a request counts against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Reads.
    Read,
    /// Writes by people and programs.
    Write,
    /// Boots and reports of machines.
    Report,
    /// Registrations, which are limited by their failures.
    Register,
    /// Questions after the server's health, which are always answered.
    Health,
}

/// One route.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// The method.
    pub method: &'static str,
    /// The path as it is registered.
    pub path: &'static str,
    /// The kind that a token's scope must cover; empty for what belongs to no kind.
    pub kind: &'static str,
    /// Who may use it.
    pub allow: Allow,
    /// Which bucket it counts against.
    pub class: Class,
}

const READERS: Allow = Roles(&[Viewer, Operator, Admin, Installer, Auditor]);
const OPERATORS: Allow = Roles(&[Operator, Admin]);
const APPROVERS: Allow = Roles(&[Operator, Admin, Installer]);
const ADMINS: Allow = Roles(&[Admin]);
const AUDITORS: Allow = Roles(&[Viewer, Operator, Admin, Auditor]);

/// Every route.
#[rustfmt::skip]
pub const ROUTES: &[Route] = &[
    route("GET",    "/livez",                                      "",         Anyone,    Class::Health),
    route("GET",    "/readyz",                                     "",         Anyone,    Class::Health),
    route("GET",    "/openapi.json",                               "",         Anyone,    Class::Read),
    route("GET",    "/api/v1/lifecycles",                          "",         READERS,   Class::Read),
    route("GET",    "/api/v1/summary",                             "",         READERS,   Class::Read),
    route("GET",    "/api/v1/history",                             "",         AUDITORS,  Class::Read),
    route("GET",    "/api/v1/events",                              "",         AUDITORS,  Class::Read),
    route("GET",    "/api/v1/resources/{kind}/{id}/why",           "",         READERS,   Class::Read),
    route("GET",    "/api/v1/liveness",                            "",         READERS,   Class::Read),
    route("GET",    "/api/v1/incidents",                           "incident", READERS,   Class::Read),
    route("GET",    "/api/v1/incidents/{id}",                      "incident", READERS,   Class::Read),
    route("GET",    "/metrics",                                    "",         READERS,   Class::Read),
    route("GET",    "/api/v1/tokens",                              "token",    ADMINS,    Class::Read),
    route("POST",   "/api/v1/tokens",                              "token",    ADMINS,    Class::Write),
    route("DELETE", "/api/v1/tokens/{id}",                         "token",    ADMINS,    Class::Write),
    route("GET",    "/api/v1/nodes",                               "node",     READERS,   Class::Read),
    route("POST",   "/api/v1/nodes",                               "node",     OPERATORS, Class::Write),
    route("GET",    "/api/v1/nodes/{id}",                          "node",     READERS,   Class::Read),
    route("PATCH",  "/api/v1/nodes/{id}",                          "node",     OPERATORS, Class::Write),
    route("DELETE", "/api/v1/nodes/{id}",                          "node",     OPERATORS, Class::Write),
    route("PATCH",  "/api/v1/nodes/{id}/state",                    "node",     APPROVERS, Class::Write),
    route("POST",   "/api/v1/nodes/bulk/state",                    "node",     APPROVERS, Class::Write),
    route("GET",    "/api/v1/nodes/{id}/history",                  "node",     READERS,   Class::Read),
    route("POST",   "/api/v1/nodes/{id}/installation-status",      "node",     Machine(&[Operator, Admin]), Class::Report),
    route("POST",   "/api/v1/report",                              "node",     Machine(&[Operator, Admin]), Class::Report),
    route("GET",    BOOT,                                          "node",     Network(&[Operator, Admin]), Class::Report),
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
    route("GET",    "/api/v1/gpu-nodes",                           "gpu-node", READERS,   Class::Read),
    route("POST",   "/api/v1/gpu-nodes",                           "gpu-node", OPERATORS, Class::Write),
    route("POST",   "/api/v1/gpu-nodes/enroll",                    "",         Anyone,    Class::Register),
    route("GET",    "/api/v1/gpu-nodes/{id}",                      "gpu-node", READERS,   Class::Read),
    route("PATCH",  "/api/v1/gpu-nodes/{id}",                      "gpu-node", OPERATORS, Class::Write),
    route("GET",    "/api/v1/gpu-nodes/{id}/lifecycle",            "gpu-node", READERS,   Class::Read),
    route("POST",   "/api/v1/gpu-nodes/{id}/onboardings",          "gpu-node", OPERATORS, Class::Write),
    route("POST",   "/api/v1/gpu-nodes/{id}/decommissions",        "gpu-node", OPERATORS, Class::Write),
    route("POST",   "/api/v1/gpu-nodes/{id}/actions/{action}",     "gpu-node", OPERATORS, Class::Write),
    route("POST",   "/api/v1/gpu-nodes/{id}/heartbeat",            "",         GpuAgent,  Class::Report),
    route("POST",   "/api/v1/gpu-nodes/{id}/tasks/claim",          "",         GpuAgent,  Class::Report),
    route("POST",   "/api/v1/gpu-nodes/{id}/tasks/{task}/result",  "",         GpuAgent,  Class::Report),
    route("GET",    "/api/v1/sites",                               "site",     READERS,   Class::Read),
    route("POST",   "/api/v1/sites",                               "site",     ADMINS,    Class::Write),
    route("GET",    "/api/v1/sites/{id}",                          "site",     READERS,   Class::Read),
    route("PUT",    "/api/v1/sites/{id}",                          "site",     ADMINS,    Class::Write),
    route("DELETE", "/api/v1/sites/{id}",                          "site",     ADMINS,    Class::Write),
    route("GET",    "/api/v1/runs",                                "run",      READERS,   Class::Read),
    route("GET",    "/api/v1/runs/{id}",                           "run",      READERS,   Class::Read),
    route("POST",   "/api/v1/runs/{id}/actions/{action}",          "run",      OPERATORS, Class::Write),
    route("GET",    "/api/satellites",                             "satellite", READERS,  Class::Read),
    route("POST",   "/api/satellites",                             "satellite", OPERATORS, Class::Write),
    route("GET",    "/api/satellites/active",                      "satellite", READERS,  Class::Read),
    route("GET",    "/api/satellites/stale",                       "satellite", READERS,  Class::Read),
    route("POST",   "/api/satellites/register",                    "satellite", OPERATORS, Class::Write),
    route("POST",   "/api/join-tokens",                            "satellite", OPERATORS, Class::Write),
    route("GET",    "/api/satellites/{name}",                      "satellite", READERS,  Class::Read),
    route("PATCH",  "/api/satellites/{name}",                      "satellite", OPERATORS, Class::Write),
    route("DELETE", "/api/satellites/{name}",                      "satellite", OPERATORS, Class::Write),
    route("GET",    "/api/satellites/{name}/effects",              "satellite", READERS,  Class::Read),
    route("POST",   "/api/satellites/{name}/revoke",               "satellite", OPERATORS, Class::Write),
    route("POST",   "/api/satellites/{name}/reenable",             "satellite", OPERATORS, Class::Write),
    route("GET",    ZTR,                                           "",         Anyone,    Class::Register),
    route("POST",   "/satellites/ztr",                             "",         Anyone,    Class::Register),
    route("GET",    "/satellites/spiffe-ztr",                      "",         Svid,      Class::Register),
    route("POST",   "/satellites/sync",                            "",         Satellite, Class::Report),
    route("POST",   "/satellites/refresh",                         "",         Satellite, Class::Report),
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
    route("GET",    "/v2/",                                        "", Satellite, Class::Report),
    route("GET",    "/v2/satellite/{family}/{name}/state/manifests/{reference}", "", Satellite, Class::Report),
    route("GET",    "/v2/satellite/{family}/{name}/state/blobs/{digest}",        "", Satellite, Class::Report),
    route("GET",    "/v2/satellite/{family}/{name}/state/tags/list",             "", Satellite, Class::Report),
];

/// Where machines boot, and those that nobody knows are registered.
const BOOT: &str = "/api/v1/boot";

/// A GET that always changes something, for clients that know no other way to register.
pub(crate) const ZTR: &str = "/satellites/ztr/{token}";

const fn route(
    method: &'static str,
    path: &'static str,
    kind: &'static str,
    allow: Allow,
    class: Class,
) -> Route {
    Route { method, path, kind, allow, class }
}

/// The row of a route.
pub(crate) fn find(method: &str, path: &str) -> Option<&'static Route> {
    // A HEAD is answered like the GET it asks about, unless that changes something.
    let (method, is_head) = if method == "HEAD" { ("GET", true) } else { (method, false) };
    let found = ROUTES.iter().find(|route| route.path == path && route.method == method);
    found.filter(|route| !(is_head && registers(route)))
}

/// Whether a GET of the route changes something all the same: registrations, as clients know them.
pub(crate) fn registers(route: &Route) -> bool {
    route.path == ZTR || route.allow == Svid
}

/// Whether a GET of the route may change something: these, and the boot of a machine that nobody knows.
pub(crate) fn changes(route: &Route) -> bool {
    registers(route) || route.path == BOOT
}

/// Whether a member says with it that it is there.
pub(crate) fn is_beat(route: &Route) -> bool {
    matches!(route.path, "/satellites/sync" | "/api/v1/gpu-nodes/{id}/heartbeat")
}

/// Whether the route is open to whoever calls from there.
pub(crate) fn is_open(app: &App, route: &Route, address: IpAddr) -> bool {
    match route.allow {
        Anyone => true,
        Network(_) => app.config.is_boot_network(address),
        Roles(_) | Machine(_) | Satellite | Svid | GpuAgent => false,
    }
}

/// Whether the caller may use the route at all.
pub(crate) fn check(app: &App, route: &Route, caller: &Caller) -> Result<(), Error> {
    let roles = match (route.allow, &caller.who) {
        _ if is_open(app, route, caller.address) => return Ok(()),
        // What a machine shows is checked against its node.
        (Machine(_), Who::Machine(_)) => return Ok(()),
        // Without anything to show, only the networks that machines boot in.
        (Machine(_), Who::Nobody) if app.config.is_boot_network(caller.address) => return Ok(()),
        (Machine(_) | Network(_), Who::Nobody) => {
            return Err(Error::Unauthenticated(
                "send an API token or an install token as Authorization: Bearer …; this address is not in boot.networks",
            ));
        }
        (Satellite, Who::Satellite(_)) => return Ok(()),
        (Svid, Who::Svid(_)) => return Ok(()),
        (Svid, Who::Nobody | Who::Token(_) | Who::Machine(_) | Who::Satellite(_) | Who::GpuAgent(_)) => {
            return Err(Error::Robot("show an X.509-SVID, on the listener of [spiffe]"));
        }
        (GpuAgent, Who::GpuAgent(_)) => return Ok(()),
        (GpuAgent, Who::Nobody | Who::Token(_) | Who::Machine(_) | Who::Satellite(_) | Who::Svid(_)) => {
            return Err(Error::Unauthenticated("send the agent's own credential as Authorization: Bearer …"));
        }
        (Satellite, Who::Nobody | Who::Token(_) | Who::Machine(_) | Who::Svid(_) | Who::GpuAgent(_)) => {
            return Err(Error::Robot("send the satellite's own credential as Authorization: Basic …"));
        }
        (Roles(roles) | Machine(roles) | Network(roles), Who::Token(_)) => roles,
        (Roles(_) | Machine(_) | Network(_), Who::Satellite(_) | Who::Svid(_) | Who::GpuAgent(_))
        | (Roles(_) | Network(_), Who::Machine(_)) => {
            return Err(Error::Unauthenticated("the token is not valid: it is unknown or was revoked"));
        }
        (Anyone, _) => return Ok(()),
        (Roles(_), Who::Nobody) => {
            return Err(Error::Unauthenticated("send an API token as Authorization: Bearer …"));
        }
    };
    let Some(identity) = caller.identity() else { return Err(Error::Internal) };
    if !roles.contains(&identity.role) {
        let needed: Vec<_> = roles.iter().map(|role| role.as_str()).collect();
        let (role, needed) = (identity.role, needed.join(", "));
        return Err(Error::Forbidden(format!("the role {role} may not do this; it takes one of: {needed}")));
    }
    if !route.kind.is_empty() && !identity.covers(route.kind) {
        return Err(Error::Forbidden(format!(
            "the token covers {}, not {}",
            identity.kinds.join(", "),
            route.kind
        )));
    }
    Ok(())
}

/// How often whom what was refused: caller, path and status.
pub(crate) type Counts = BTreeMap<(String, &'static str, u16), u64>;

/// Denials since the last time they were recorded: counted, not a row each.
#[derive(Debug, Default)]
pub(crate) struct Denials(Mutex<Counts>);

/// Different denials that are told apart; past that they are counted together.
const MOST_DENIALS: usize = 1000;

impl Denials {
    pub(crate) fn count(&self, caller: &str, path: &'static str, status: u16) {
        self.add((caller.to_owned(), path, status), 1);
    }

    pub(crate) fn take(&self) -> Counts {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts again what could not be recorded.
    pub(crate) fn put_back(&self, counts: Counts) {
        for (key, count) in counts {
            self.add(key, count);
        }
    }

    fn add(&self, key: (String, &'static str, u16), count: u64) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = counts.contains_key(&key) || counts.len() < MOST_DENIALS;
        let key = if known { key } else { ("others".to_owned(), "", key.2) };
        *counts.entry(key).or_default() += count;
    }
}

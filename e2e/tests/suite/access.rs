//! Permissions: one table over every route; every kind of caller tries each route.
//!
//! The table is written here by hand and shares nothing with the server's own. A route without a row fails.

use serde_json::{Value, json};

use crate::support::{
    Backend, Reply, Site,
    fleet::{token_in, workflow},
    mac, node_in, on_both, satellite, wait_for,
};

on_both! {
    every_caller_tries_every_route,
    every_caller_tries_the_routes_of_machines_from_elsewhere,
    denials_are_recorded_in_aggregate,
}

/// The permitted callers: all; some roles; or some roles and the machine itself.
enum Open {
    Everybody,
    To(&'static [&'static str]),
    ToMachineAnd(&'static [&'static str]),
    ToSatellites,
    /// For satellites and devices with a certificate or a token of theirs, on other listeners.
    ToCertificates,
    /// The agent of the node alone.
    ToAgents,
}
use Open::{Everybody, To, ToAgents, ToCertificates, ToMachineAnd, ToSatellites};

const READ: Open = To(&["viewer", "operator", "admin", "installer", "auditor"]);
const AUDIT: Open = To(&["viewer", "operator", "admin", "auditor"]);
const WRITE: Open = To(&["operator", "admin"]);
const APPROVE: Open = To(&["operator", "admin", "installer"]);
const ADMIN: Open = To(&["admin"]);
const CLUSTER: Open = To(&["viewer", "operator", "admin", "installer", "auditor", "adapter"]);
const ADAPT: Open = To(&["operator", "admin", "adapter"]);
const AGENT: Open = ToAgents;
const REPORT: Open = ToMachineAnd(&["operator", "admin"]);

/// Method, path, the kind that a scope must cover (none: any scope will do), and the permitted callers.
#[rustfmt::skip]
const TABLE: &[(&str, &str, Option<&str>, Open)] = &[
    ("GET",    "/livez",                                 None,             Everybody),
    ("GET",    "/readyz",                                None,             Everybody),
    ("GET",    "/openapi.json",                          None,             Everybody),
    ("GET",    "/api/v1/lifecycles",                     None,             READ),
    ("GET",    "/api/v1/summary",                        None,             READ),
    ("GET",    "/api/v1/attention",                      None,             READ),
    ("GET",    "/api/v1/history",                        None,             AUDIT),
    ("GET",    "/api/v1/events",                         None,             AUDIT),
    ("GET",    "/api/v1/resources",                      None,             READ),
    ("GET",    "/api/v1/resources/{kind}/{id}/why",      Some("node"),     READ),
    ("GET",    "/api/v1/liveness",                       None,             READ),
    ("GET",    "/api/v1/incidents",                      Some("incident"), READ),
    ("GET",    "/api/v1/incidents/{id}",                 Some("incident"), READ),
    ("GET",    "/metrics",                               None,             READ),
    ("GET",    "/api/v1/tokens",                         Some("token"),    ADMIN),
    ("POST",   "/api/v1/bulk",                           None,             APPROVE),
    ("POST",   "/api/v1/tokens",                         Some("token"),    ADMIN),
    ("DELETE", "/api/v1/tokens/{id}",                    Some("token"),    ADMIN),
    ("GET",    "/api/v1/whoami",                         None,             CLUSTER),
    ("POST",   "/api/v1/login-links",                    None,             READ),
    ("GET",    "/api/v1/nodes",                          Some("node"),     READ),
    ("POST",   "/api/v1/nodes",                          Some("node"),     WRITE),
    ("GET",    "/api/v1/nodes/{id}",                     Some("node"),     READ),
    ("PATCH",  "/api/v1/nodes/{id}",                     Some("node"),     WRITE),
    ("DELETE", "/api/v1/nodes/{id}",                     Some("node"),     WRITE),
    ("PATCH",  "/api/v1/nodes/{id}/state",               Some("node"),     APPROVE),
    ("POST",   "/api/v1/nodes/bulk/state",               Some("node"),     APPROVE),
    ("GET",    "/api/v1/nodes/{id}/history",             Some("node"),     READ),
    ("POST",   "/api/v1/nodes/{id}/installation-status", Some("node"),     REPORT),
    ("POST",   "/api/v1/report",                         Some("node"),     REPORT),
    ("GET",    "/api/v1/boot",                           None,             Everybody),
    ("GET",    "/api/v1/workflows",                      Some("workflow"), READ),
    ("POST",   "/api/v1/workflows",                      Some("workflow"), WRITE),
    ("GET",    "/api/v1/workflows/{id}",                 Some("workflow"), READ),
    ("PUT",    "/api/v1/workflows/{id}",                 Some("workflow"), WRITE),
    ("DELETE", "/api/v1/workflows/{id}",                 Some("workflow"), WRITE),
    ("GET",    "/api/v1/groups",                         Some("group"),    READ),
    ("POST",   "/api/v1/groups",                         Some("group"),    WRITE),
    ("GET",    "/api/v1/groups/{id}",                    Some("group"),    READ),
    ("PUT",    "/api/v1/groups/{id}",                    Some("group"),    WRITE),
    ("DELETE", "/api/v1/groups/{id}",                    Some("group"),    WRITE),
    ("GET",    "/api/v1/gpu-nodes",                      Some("gpu-node"), READ),
    ("POST",   "/api/v1/gpu-nodes",                      Some("gpu-node"), WRITE),
    ("GET",    "/api/v1/gpu-nodes/{id}",                 Some("gpu-node"), READ),
    ("PATCH",  "/api/v1/gpu-nodes/{id}",                 Some("gpu-node"), WRITE),
    ("DELETE", "/api/v1/gpu-nodes/{id}",                 Some("gpu-node"), WRITE),
    ("POST",   "/api/v1/gpu-nodes/{id}/actions/{action}", Some("gpu-node"), WRITE),
    ("POST",   "/api/v1/gpu-nodes/{id}/decommissions",   Some("gpu-node"), WRITE),
    ("POST",   "/api/v1/gpu-nodes/enroll",               None,             Everybody),
    ("GET",    "/api/v1/gpu-nodes/{id}/lifecycle",       Some("gpu-node"), READ),
    ("POST",   "/api/v1/gpu-nodes/{id}/onboardings",     Some("gpu-node"), WRITE),
    ("POST",   "/api/v1/gpu-nodes/{id}/heartbeat",       None,             AGENT),
    ("POST",   "/api/v1/gpu-nodes/{id}/tasks/claim",     None,             AGENT),
    ("POST",   "/api/v1/gpu-nodes/{id}/tasks/{task}/result", None,             AGENT),
    ("GET",    "/api/v1/sites",                          Some("site"),     READ),
    ("POST",   "/api/v1/sites",                          Some("site"),     ADMIN),
    ("GET",    "/api/v1/sites/{id}",                     Some("site"),     READ),
    ("PUT",    "/api/v1/sites/{id}",                     Some("site"),     ADMIN),
    ("DELETE", "/api/v1/sites/{id}",                     Some("site"),     ADMIN),
    ("GET",    "/api/v1/runs",                           Some("run"),      READ),
    ("GET",    "/api/v1/runs/{id}",                      Some("run"),      READ),
    ("POST",   "/api/v1/runs/{id}/actions/{action}",     Some("run"),      WRITE),
    ("GET",    "/api/hyperfleet/v1/clusters",            Some("cluster"),  CLUSTER),
    ("POST",   "/api/hyperfleet/v1/clusters",            Some("cluster"),  WRITE),
    ("GET",    "/api/hyperfleet/v1/clusters/{id}",       Some("cluster"),  CLUSTER),
    ("PATCH",  "/api/hyperfleet/v1/clusters/{id}",       Some("cluster"),  WRITE),
    ("DELETE", "/api/hyperfleet/v1/clusters/{id}",       Some("cluster"),  WRITE),
    ("POST",   "/api/hyperfleet/v1/clusters/{id}/force-delete", Some("cluster"), WRITE),
    ("GET",    "/api/hyperfleet/v1/clusters/{id}/statuses", Some("cluster"), CLUSTER),
    ("POST",   "/api/hyperfleet/v1/clusters/{id}/statuses", Some("cluster"), ADAPT),
    ("PUT",    "/api/hyperfleet/v1/clusters/{id}/statuses", Some("cluster"), ADAPT),
    ("GET",    "/api/v1/clusters/{id}/statuses",         Some("cluster"),  CLUSTER),
    ("POST",   "/api/v1/clusters/{id}/statuses",         Some("cluster"),  ADAPT),
    ("PUT",    "/api/v1/clusters/{id}/statuses",         Some("cluster"),  ADAPT),
    ("GET",    "/api/hyperfleet/v1/clusters/{id}/nodepools", Some("nodepool"), CLUSTER),
    ("POST",   "/api/hyperfleet/v1/clusters/{id}/nodepools", Some("nodepool"), WRITE),
    ("GET",    "/api/hyperfleet/v1/clusters/{id}/nodepools/{pool}", Some("nodepool"), CLUSTER),
    ("PATCH",  "/api/hyperfleet/v1/clusters/{id}/nodepools/{pool}", Some("nodepool"), WRITE),
    ("DELETE", "/api/hyperfleet/v1/clusters/{id}/nodepools/{pool}", Some("nodepool"), WRITE),
    ("POST",   "/api/hyperfleet/v1/clusters/{id}/nodepools/{pool}/force-delete", Some("nodepool"), WRITE),
    ("GET",    "/api/hyperfleet/v1/clusters/{id}/nodepools/{pool}/statuses", Some("nodepool"), CLUSTER),
    ("POST",   "/api/hyperfleet/v1/clusters/{id}/nodepools/{pool}/statuses", Some("nodepool"), ADAPT),
    ("PUT",    "/api/hyperfleet/v1/clusters/{id}/nodepools/{pool}/statuses", Some("nodepool"), ADAPT),
    ("GET",    "/api/hyperfleet/v1/nodepools",           Some("nodepool"), CLUSTER),
    ("GET",    "/api/v1/adapters",                       Some("adapter"),  CLUSTER),
    ("GET",    "/api/v1/adapters/{name}",                Some("adapter"),  CLUSTER),
    ("GET",    "/api/satellites",                        Some("satellite"), READ),
    ("POST",   "/api/satellites",                        Some("satellite"), WRITE),
    ("GET",    "/api/satellites/active",                 Some("satellite"), READ),
    ("GET",    "/api/satellites/stale",                  Some("satellite"), READ),
    ("POST",   "/api/satellites/register",               Some("satellite"), WRITE),
    ("POST",   "/api/join-tokens",                       Some("satellite"), WRITE),
    ("GET",    "/api/satellites/{name}",                 Some("satellite"), READ),
    ("PATCH",  "/api/satellites/{name}",                 Some("satellite"), WRITE),
    ("DELETE", "/api/satellites/{name}",                 Some("satellite"), WRITE),
    ("GET",    "/api/satellites/{name}/effects",         Some("satellite"), READ),
    ("POST",   "/api/satellites/{name}/revoke",          Some("satellite"), WRITE),
    ("POST",   "/api/satellites/{name}/reenable",        Some("satellite"), WRITE),
    ("GET",    "/satellites/ztr/{token}",                None,             Everybody),
    ("POST",   "/satellites/ztr",                        None,             Everybody),
    ("POST",   "/satellites/sync",                       None,             ToSatellites),
    ("POST",   "/satellites/refresh",                    None,             ToSatellites),
    ("GET",    "/satellites/spiffe-ztr",                 None,             ToCertificates),
    ("GET",    "/api/groups",                            Some("satellite-group"), READ),
    ("POST",   "/api/groups/sync",                       Some("satellite-group"), WRITE),
    ("POST",   "/api/groups/satellite",                  Some("satellite-group"), WRITE),
    ("DELETE", "/api/groups/satellite",                  Some("satellite-group"), WRITE),
    ("GET",    "/api/groups/{group}",                    Some("satellite-group"), READ),
    ("DELETE", "/api/groups/{group}",                    Some("satellite-group"), WRITE),
    ("GET",    "/api/groups/{group}/satellites",         Some("satellite-group"), READ),
    ("GET",    "/api/groups/{group}/effects",            Some("satellite-group"), READ),
    ("GET",    "/api/configs",                           Some("satellite-config"), READ),
    ("POST",   "/api/configs",                           Some("satellite-config"), WRITE),
    ("POST",   "/api/configs/satellite",                 Some("satellite-config"), WRITE),
    ("GET",    "/api/configs/{config}",                  Some("satellite-config"), READ),
    ("PATCH",  "/api/configs/{config}",                  Some("satellite-config"), WRITE),
    ("DELETE", "/api/configs/{config}",                  Some("satellite-config"), WRITE),
    ("GET",    "/api/configs/{config}/effects",          Some("satellite-config"), READ),
    ("GET",    "/v2/",                                   None,             ToSatellites),
    ("GET",    "/v2/satellite/{family}/{name}/state/manifests/{reference}", None, ToSatellites),
    ("GET",    "/v2/satellite/{family}/{name}/state/blobs/{digest}",        None, ToSatellites),
    ("GET",    "/v2/satellite/{family}/{name}/state/tags/list",             None, ToSatellites),
    ("GET",    "/v2/{*path}",                            None,             ToSatellites),
    ("GET",    "/api/v1/devices",                        Some("device"),   READ),
    ("GET",    "/api/v1/devices/{name}",                 Some("device"),   READ),
    ("PUT",    "/api/v1/devices/{name}",                 Some("device"),   WRITE),
    ("PATCH",  "/api/v1/devices/{name}",                 Some("device"),   WRITE),
    ("DELETE", "/api/v1/devices/{name}",                 Some("device"),   WRITE),
    ("POST",   "/api/v1/devices/{name}/revoke",          Some("device"),   WRITE),
    ("PUT",    "/api/v1/devices/{name}/decommission",    Some("device"),   WRITE),
    ("POST",   "/api/v1/devices/{name}/actions/reboot",  Some("device"),   WRITE),
    ("GET",    "/api/v1/devices/{name}/rendered",        None,             ToCertificates),
    ("PUT",    "/api/v1/devices/{name}/status",          None,             ToCertificates),
    ("POST",   "/api/v1/devices/{name}/certificate",     None,             ToCertificates),
    ("GET",    "/api/v1/enrollmentrequests",             Some("enrollmentrequest"), READ),
    ("POST",   "/api/v1/enrollmentrequests",             None,             ToCertificates),
    ("GET",    "/api/v1/enrollmentrequests/{name}",      Some("enrollmentrequest"), READ),
    ("DELETE", "/api/v1/enrollmentrequests/{name}",      Some("enrollmentrequest"), WRITE),
    ("PUT",    "/api/v1/enrollmentrequests/{name}/approval", Some("enrollmentrequest"), APPROVE),
    ("GET",    "/api/v1/fleets",                              Some("fleet"),    READ),
    ("POST",   "/api/v1/fleets",                              Some("fleet"),    WRITE),
    ("GET",    "/api/v1/fleets/{name}",                       Some("fleet"),    READ),
    ("PUT",    "/api/v1/fleets/{name}",                       Some("fleet"),    WRITE),
    ("PATCH",  "/api/v1/fleets/{name}",                       Some("fleet"),    WRITE),
    ("DELETE", "/api/v1/fleets/{name}",                       Some("fleet"),    WRITE),
    ("GET",    "/api/v1/fleets/{name}/templateversions",      Some("fleet"),    READ),
    ("POST",   "/api/v1/fleets/{name}/actions/pause",         Some("fleet"),    WRITE),
    ("POST",   "/api/v1/fleets/{name}/actions/resume",        Some("fleet"),    WRITE),
    ("POST",   "/api/v1/fleets/{name}/actions/rollback",      Some("fleet"),    WRITE),
    ("GET",    "/api/v1/enrollmenttokens",               Some("enrollmenttoken"), READ),
    ("POST",   "/api/v1/enrollmenttokens",               Some("enrollmenttoken"), WRITE),
    ("GET",    "/api/v1/enrollmenttokens/{name}",        Some("enrollmenttoken"), READ),
    ("DELETE", "/api/v1/enrollmenttokens/{name}",        Some("enrollmenttoken"), WRITE),
    ("GET",    "/flightctl/api/v1/version",                             Some("device"),            READ),
    ("GET",    "/flightctl/api/v1/devices",                             Some("device"),            READ),
    ("GET",    "/flightctl/api/v1/devices/{name}",                      Some("device"),            READ),
    ("PUT",    "/flightctl/api/v1/devices/{name}",                      Some("device"),            WRITE),
    ("PATCH",  "/flightctl/api/v1/devices/{name}",                      Some("device"),            WRITE),
    ("DELETE", "/flightctl/api/v1/devices/{name}",                      Some("device"),            WRITE),
    ("GET",    "/flightctl/api/v1/devices/{name}/status",               Some("device"),            READ),
    ("GET",    "/flightctl/api/v1/devices/{name}/lastseen",             Some("device"),            READ),
    ("PUT",    "/flightctl/api/v1/devices/{name}/decommission",         Some("device"),            WRITE),
    ("GET",    "/flightctl/api/v1/enrollmentrequests",                  Some("enrollmentrequest"), READ),
    ("GET",    "/flightctl/api/v1/enrollmentrequests/{name}",           Some("enrollmentrequest"), READ),
    ("DELETE", "/flightctl/api/v1/enrollmentrequests/{name}",           Some("enrollmentrequest"), WRITE),
    ("PUT",    "/flightctl/api/v1/enrollmentrequests/{name}/approval",  Some("enrollmentrequest"), APPROVE),
    ("GET",    "/flightctl/api/v1/fleets",                              Some("fleet"),             READ),
    ("POST",   "/flightctl/api/v1/fleets",                              Some("fleet"),             WRITE),
    ("GET",    "/flightctl/api/v1/fleets/{name}",                       Some("fleet"),             READ),
    ("PUT",    "/flightctl/api/v1/fleets/{name}",                       Some("fleet"),             WRITE),
    ("PATCH",  "/flightctl/api/v1/fleets/{name}",                       Some("fleet"),             WRITE),
    ("DELETE", "/flightctl/api/v1/fleets/{name}",                       Some("fleet"),             WRITE),
    ("GET",    "/flightctl/api/v1/fleets/{name}/templateversions",      Some("fleet"),             READ),
];

const ROLES: &[&str] = &["viewer", "operator", "admin", "installer", "adapter", "auditor"];

#[rustfmt::skip]
const KINDS: &[&str] = &[
    "node", "workflow", "group", "satellite", "satellite-group", "satellite-config", "token", "gpu-node", "run",
    "site", "incident", "cluster", "nodepool", "adapter", "device", "enrollmentrequest", "enrollmenttoken",
];

/// A caller and its credentials.
struct Caller {
    is: Is,
    token: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Is {
    /// Without a token, or with an invalid one.
    Nobody,
    Role(&'static str),
    /// An administrator whose scope is another kind.
    ScopedTo(&'static str),
    Machine,
    OtherMachine,
    /// A satellite that is online.
    Satellite,
    /// A satellite that an administrator has revoked.
    RevokedSatellite,
    /// The agent of the GPU node that is walked.
    Agent,
    OtherAgent,
}

/// The class of answer that the table asks for; 0 is anything but a refusal of the caller.
fn expected(open: &Open, kind: Option<&str>, is: Is) -> u16 {
    let roles = match open {
        Everybody => return 0,
        ToAgents => {
            return match is {
                Is::Agent => 0,
                Is::OtherAgent => 403,
                Is::Nobody
                | Is::Role(_)
                | Is::ScopedTo(_)
                | Is::Machine
                | Is::OtherMachine
                | Is::Satellite
                | Is::RevokedSatellite => 401,
            };
        }
        ToSatellites => {
            return match is {
                Is::Satellite => 0,
                Is::RevokedSatellite => 403,
                Is::Nobody
                | Is::Role(_)
                | Is::ScopedTo(_)
                | Is::Machine
                | Is::OtherMachine
                | Is::Agent
                | Is::OtherAgent => 401,
            };
        }
        ToCertificates => return 401,
        To(roles) | ToMachineAnd(roles) => roles,
    };
    let for_machines = matches!(open, ToMachineAnd(_));
    match is {
        Is::Machine if for_machines => 0,
        Is::Role(role) if roles.contains(&role) => 0,
        Is::Role(_) => 403,
        Is::ScopedTo(covered) if kind.is_none_or(|kind| kind == covered) => 0,
        Is::ScopedTo(_) => 403,
        Is::Nobody
        | Is::Machine
        | Is::OtherMachine
        | Is::Satellite
        | Is::RevokedSatellite
        | Is::Agent
        | Is::OtherAgent => 401,
    }
}

fn every_caller_tries_every_route(on: Backend) {
    let site = Site::start(on);
    let document = site.admin().get("/openapi.json").expect(200);
    let mut served = routes(&document);
    // OpenAPI has no path of any length.
    for path in ["/openapi.json", "/v2/{*path}"] {
        served.push(("GET".to_owned(), path.to_owned()));
    }
    for (method, path, ..) in TABLE {
        assert!(
            served.iter().any(|(m, p)| m == method && p == path),
            "{method} {path} is gone: strike its row"
        );
    }
    let (walked, callers) = callers(&site);
    let mut wrong = Vec::new();
    for (method, path) in &served {
        let row = TABLE.iter().find(|(m, p, ..)| m == method && p == path);
        let (_, _, kind, open) = row.unwrap_or_else(|| panic!("{method} {path} has no row in the table"));
        for (index, caller) in callers.iter().enumerate() {
            let reply = try_route(&site, index, method, path, &walked, caller.token.as_deref());
            let class = if matches!(reply.status, 401 | 403) { reply.status } else { 0 };
            assert!(reply.status < 500, "{method} {path}: {}", reply.text());
            let expected = expected(open, *kind, caller.is);
            if class != expected {
                wrong.push(format!(
                    "{method} {path} by {:?} ({:?}): {class}, not {expected}",
                    caller.is, caller.token
                ));
            }
            // Clients of registries, and those of Flight Control, know other words.
            if class != 0 && path.starts_with("/flightctl/") {
                assert_eq!(reply.json()["kind"], "Status", "{method} {path}");
            } else if class != 0 && !path.starts_with("/v2/") {
                reply.problem(class);
            }
        }
    }
    assert!(wrong.is_empty(), "{} answers are wrong:\n{}", wrong.len(), wrong.join("\n"));
    let node = site.admin().get(&format!("/api/v1/nodes/{}", walked.node)).expect(200);
    assert_eq!(node["data"]["state"], "installing", "nobody broke what was walked");
}

/// Outside the networks that machines boot in, a script is for callers that may install the node: it contains the token
/// to speak for it.
fn every_caller_tries_the_routes_of_machines_from_elsewhere(on: Backend) {
    let site = Site::start_with(on, &[("WARDROOM_BOOT_NETWORKS", "10.99.0.0/16")]);
    let (walked, callers) = callers(&site);
    let rows = [
        ("GET", "/api/v1/boot", WRITE),
        ("POST", "/api/v1/report", REPORT),
        ("POST", "/api/v1/nodes/{id}/installation-status", REPORT),
    ];
    for (method, path, open) in rows {
        for (index, caller) in callers.iter().enumerate() {
            let reply = try_route(&site, index, method, path, &walked, caller.token.as_deref());
            let class = if matches!(reply.status, 401 | 403) { reply.status } else { 0 };
            assert_eq!(class, expected(&open, Some("node"), caller.is), "{method} {path} by {:?}", caller.is);
        }
    }
}

fn routes(document: &Value) -> Vec<(String, String)> {
    let paths = document["paths"].as_object().unwrap();
    let methods = ["get", "put", "post", "delete", "patch", "head", "options", "trace"];
    paths
        .iter()
        .flat_map(|(path, item)| {
            let served = item.as_object().unwrap().keys().filter(|method| methods.contains(&&***method));
            served.map(|method| (method.to_uppercase(), path.clone())).collect::<Vec<_>>()
        })
        .collect()
}

/// The resources of the walk: a node that installs, and a GPU node.
struct Walked {
    node: String,
    gpu_node: String,
}

/// Returns the resources of the walk, and every kind of caller.
fn callers(site: &Site) -> (Walked, Vec<Caller>) {
    workflow(&site.admin(), "debian");
    let ids: Vec<_> = (0..2).map(|number| node_in(&site.admin(), "installing", number)).collect();
    for id in &ids {
        site.admin().patch(&format!("/api/v1/nodes/{id}"), &json!({"workflow_id": "debian"})).expect(200);
    }
    let install_token =
        |number| token_in(&site.admin().get(&format!("/api/v1/boot?mac={}", mac(number))).text());
    let nobody = |token: &str| Caller { is: Is::Nobody, token: Some(token.to_owned()) };
    let (revoked_id, revoked) = site.new_token(&json!({"name": "revoked", "role": "admin"}));
    site.admin().delete(&format!("/api/v1/tokens/{revoked_id}")).expect(200);
    let mut callers = vec![
        Caller { is: Is::Nobody, token: None },
        nobody("garbage"),
        nobody("wrt_garbage"),
        nobody("wri_1_1_garbage"),
        nobody(&revoked),
        nobody(&expired(site)),
        Caller { is: Is::Machine, token: Some(install_token(0)) },
        Caller { is: Is::OtherMachine, token: Some(install_token(1)) },
    ];
    for role in ROLES {
        let (_, token) = site.new_token(&json!({"name": format!("a {role}"), "role": role}));
        callers.push(Caller { is: Is::Role(role), token: Some(token) });
    }
    for (name, is) in [("edge", Is::Satellite), ("blocked", Is::RevokedSatellite)] {
        let robot = satellite::online(site, name).at(site, 0);
        let (_, shown) = robot.headers.into_iter().find(|(name, _)| name == "authorization").unwrap();
        callers.push(Caller { is, token: Some(shown) });
    }
    satellite::revoke(site, "blocked");
    let mut gpu_node = String::new();
    for (is, name) in [(Is::OtherAgent, "gpu-1"), (Is::Agent, "gpu-2")] {
        let made = site.admin().post("/api/v1/gpu-nodes", &json!({"hostname": name})).expect(201);
        let token = json!({"token": made["data"]["token"]});
        let enrolled = site.caller(0, None).post("/api/v1/gpu-nodes/enroll", &token).expect(200);
        enrolled["node"].as_str().unwrap().clone_into(&mut gpu_node);
        callers.push(Caller { is, token: Some(enrolled["credential"].as_str().unwrap().to_owned()) });
    }
    for kind in KINDS {
        let (_, token) =
            site.new_token(&json!({"name": format!("of {kind}"), "role": "admin", "kinds": [kind]}));
        callers.push(Caller { is: Is::ScopedTo(kind), token: Some(token) });
    }
    (Walked { node: ids[0].clone(), gpu_node }, callers)
}

/// The token of an administrator that has expired.
fn expired(site: &Site) -> String {
    let clock = site.admin().post("/api/v1/tokens", &json!({"name": "clock", "role": "viewer"})).expect(201);
    let now: jiff::Timestamp = clock["data"]["created_at"].as_str().unwrap().parse().unwrap();
    let soon = jiff::Timestamp::from_millisecond(now.as_millisecond() + 3000).unwrap();
    let (_, token) = site.new_token(&json!({"name": "expired", "role": "admin", "expires_at": soon}));
    wait_for("a token to expire", || {
        (site.caller(0, Some(&token)).get("/api/v1/nodes").status == 401).then_some(())
    });
    token
}

/// Calls a route: with existing resources if that is harmless, otherwise with missing ones.
fn try_route(
    site: &Site,
    index: usize,
    method: &str,
    path: &str,
    walked: &Walked,
    token: Option<&str>,
) -> Reply {
    let is_report = path.ends_with("/installation-status");
    let is_agents = path.ends_with("/heartbeat") || path.contains("/tasks/");
    let id = match path {
        _ if is_agents => &walked.gpu_node,
        _ if is_report || method == "GET" => &walked.node,
        _ => "missing",
    };
    let mut target = path.replace("{kind}", "node").replace("{id}", id);
    let satellite = if method == "GET" { "edge" } else { "missing" };
    target = target.replace("{name}", satellite).replace("{token}", "wrz_missing");
    target = target.replace("{group}", "missing").replace("{config}", "missing").replace("{pool}", "missing");
    target = target
        .replace("{family}", "satellite-state")
        .replace("{reference}", "latest")
        .replace("{digest}", "none")
        .replace("{*path}", "library/nginx/manifests/1.27");
    match path {
        "/api/v1/events" => target += "?wait=0",
        "/api/v1/boot" => target += &format!("?mac={}", mac(0)),
        _ => {}
    }
    let body = match path {
        "/api/v1/report" => json!({"mac_address": mac(0), "installation_status": "progress"}),
        _ if is_report => json!({"status": "progress"}),
        _ if path.ends_with("/claim") => json!({"holder": "walker"}),
        _ if path.ends_with("/result") => json!({"epoch": 1, "outcome": "succeeded"}),
        "/api/v1/nodes/{id}/state" => json!({"state": "pending"}),
        "/api/v1/nodes/bulk/state" => json!({"state": "pending", "node_ids": ["missing"]}),
        _ => json!({}),
    };
    let api = match token {
        Some(shown) if shown.starts_with("Basic ") => site.caller(index, None).with("authorization", shown),
        _ => site.caller(index, token),
    };
    if method == "GET" { api.get(&target) } else { api.json(method, &target, &body) }
}

fn denials_are_recorded_in_aggregate(on: Backend) {
    let mut site = Site::start(on);
    let (_, viewer) = site.new_token(&json!({"name": "vera", "role": "viewer"}));
    for _ in 0..20 {
        site.caller(0, Some(&viewer)).post("/api/v1/nodes", &json!({})).problem(403);
        site.caller(0, None).get("/api/v1/nodes").problem(401);
    }
    // Counts are written at the latest when the server ends.
    site.servers[0].terminate();
    assert!(site.servers[0].wait().success());
    site.restart(0);
    let rows = site.admin().get("/api/v1/history?limit=1000").expect(200);
    let denials: Vec<_> =
        rows["data"].as_array().unwrap().iter().filter(|row| row["type"] == "denials").collect();
    let counted: u64 = denials.iter().map(|row| row["metadata"]["total"].as_u64().unwrap()).sum();
    assert_eq!(counted, 40, "{denials:?}");
    assert!(denials.len() <= 2, "a row each is not an aggregate: {denials:?}");
    assert!(denials[0]["metadata"].to_string().contains("vera"), "{denials:?}");
}

//! Every route, by method, path and operation.

use hyper::Method;

use super::body::{decoded, pairs};
use crate::wire::Request;

/// Lists the operations once, with the names that faults and counters use.
macro_rules! ops {
    ($($Op:ident = $name:literal: $method:ident $path:literal $operation:literal,)+) => {
        /// The operation of a request.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "the names are MAAS's own")]
        pub enum Op { $($Op,)+ }

        impl Op {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$Op,)+];

            /// The names of all of them.
            pub const NAMES: &[&str] = &[$($name),+];

            /// The name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$Op => $name,)+ }
            }
        }

        const ROUTES: &[(Op, Method, &str, &str)] = &[$((Op::$Op, Method::$method, $path, $operation),)+];
    };
}

#[rustfmt::skip]
ops! {
    Version         = "version":                      GET    "version"                          "",
    Whoami          = "whoami":                       GET    "users"                            "whoami",
    Pools           = "pools":                        GET    "resourcepools"                    "",
    Zones           = "zones":                        GET    "zones"                            "",
    Subnets         = "subnets":                      GET    "subnets"                          "",
    Events          = "events":                       GET    "events"                           "query",
    Results         = "results":                      GET    "nodes/*/results"                  "",
    List            = "list":                         GET    "machines"                         "",
    Create          = "create":                       POST   "machines"                         "",
    IsRegistered    = "is_registered":                GET    "machines"                         "is_registered",
    Allocate        = "allocate":                     POST   "machines"                         "allocate",
    Read            = "read":                         GET    "machines/*"                       "",
    Update          = "update":                       PUT    "machines/*"                       "",
    Delete          = "delete":                       DELETE "machines/*"                       "",
    PowerParameters = "power_parameters":             GET    "machines/*"                       "power_parameters",
    Commission      = "commission":                   POST   "machines/*"                       "commission",
    Abort           = "abort":                        POST   "machines/*"                       "abort",
    Deploy          = "deploy":                       POST   "machines/*"                       "deploy",
    Release         = "release":                      POST   "machines/*"                       "release",
    Lock            = "lock":                         POST   "machines/*"                       "lock",
    Unlock          = "unlock":                       POST   "machines/*"                       "unlock",
    MarkBroken      = "mark_broken":                  POST   "machines/*"                       "mark_broken",
    MarkFixed       = "mark_fixed":                   POST   "machines/*"                       "mark_fixed",
    RescueMode      = "rescue_mode":                  POST   "machines/*"                       "rescue_mode",
    ExitRescueMode  = "exit_rescue_mode":             POST   "machines/*"                       "exit_rescue_mode",
    Test            = "test":                         POST   "machines/*"                       "test",
    OverrideTesting = "override_failed_testing":      POST   "machines/*"                       "override_failed_testing",
    PowerOn         = "power_on":                     POST   "machines/*"                       "power_on",
    PowerOff        = "power_off":                    POST   "machines/*"                       "power_off",
    QueryPower      = "query_power_state":            GET    "machines/*"                       "query_power_state",
    SetLayout       = "set_storage_layout":           POST   "machines/*"                       "set_storage_layout",
    RestoreStorage  = "restore_storage_configuration": POST  "machines/*"                       "restore_storage_configuration",
    SetOwnerData    = "set_workload_annotations":     POST   "machines/*"                       "set_workload_annotations",
    Disks           = "block_devices":                GET    "nodes/*/blockdevices"             "",
    AddDisk         = "add_block_device":             POST   "nodes/*/blockdevices"             "",
    SetBootDisk     = "set_boot_disk":                POST   "nodes/*/blockdevices/*"           "set_boot_disk",
    Interfaces      = "interfaces":                   GET    "nodes/*/interfaces"               "",
    Interface       = "interface":                    GET    "nodes/*/interfaces/*"             "",
    UpdateInterface = "update_interface":             PUT    "nodes/*/interfaces/*"             "",
    LinkSubnet      = "link_subnet":                  POST   "nodes/*/interfaces/*"             "link_subnet",
    UnlinkSubnet    = "unlink_subnet":                POST   "nodes/*/interfaces/*"             "unlink_subnet",
    Disconnect      = "disconnect":                   POST   "nodes/*/interfaces/*"             "disconnect",
    CreateTag       = "create_tag":                   POST   "tags"                             "",
    Tag             = "update_nodes":                 POST   "tags/*"                           "update_nodes",
}

/// A routed request.
pub(super) struct Routed {
    pub(super) op: Op,
    /// The parts that match a star of the pattern: a machine, and a part of it.
    pub(super) names: Vec<String>,
}

/// The operation that a request names: the last part of its path, or a parameter.
pub(super) fn operation(request: &Request) -> Option<String> {
    let last = request.path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    if let Some(op) = last.strip_prefix("op-") {
        return Some(op.to_owned());
    }
    pairs(&request.query).into_iter().find(|(name, _)| name == "op").map(|(_, value)| value)
}

pub(super) fn route(request: &Request) -> Option<Routed> {
    let path = request.path.strip_prefix("/MAAS/api/2.0/")?.trim_end_matches('/');
    let op = operation(request).unwrap_or_default();
    let mut parts: Vec<_> = path.split('/').collect();
    parts.retain(|part| !part.starts_with("op-"));
    ROUTES.iter().find_map(|(found, method, pattern, operation)| {
        let names = matched(pattern, &parts)?;
        (*method == request.method && *operation == op).then_some(Routed { op: *found, names })
    })
}

fn matched(pattern: &str, parts: &[&str]) -> Option<Vec<String>> {
    let pattern = pattern.split('/');
    if pattern.clone().count() != parts.len() {
        return None;
    }
    let mut names = Vec::new();
    for (expected, part) in pattern.zip(parts) {
        if expected == "*" {
            names.push(decoded(part));
        } else if expected != *part {
            return None;
        }
    }
    Some(names)
}

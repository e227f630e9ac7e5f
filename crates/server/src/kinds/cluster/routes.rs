//! The routes of clusters and node pools: the callers that may use each, its handler, and its words.

use utoipa_axum::{router::OpenApiRouter, routes};
use wardroom_core::{
    cluster::{Discard, Status, adapter::Standing},
    table::Role::{Adapter, Admin, Auditor, Installer, Operator, Viewer},
};

use super::{adapters, create, delete, list, patch, statuses};
use crate::platform::{
    app::App,
    http::{
        access::{Allow, Class, OPERATORS, Route, route},
        vocabulary::{Values, Words, names},
    },
};

/// Roles that may read: adapters too.
const READERS: Allow = Allow::Roles(&[Viewer, Operator, Admin, Installer, Auditor, Adapter]);
/// Roles that may report.
const REPORTERS: Allow = Allow::Roles(&[Adapter, Operator, Admin]);

#[rustfmt::skip]
pub(super) const ACCESS: &[Route] = &[
    route("GET",    "/api/hyperfleet/v1/clusters",                                      "cluster",  READERS,   Class::Read),
    route("POST",   "/api/hyperfleet/v1/clusters",                                      "cluster",  OPERATORS, Class::Write),
    route("GET",    "/api/hyperfleet/v1/clusters/{id}",                                 "cluster",  READERS,   Class::Read),
    route("PATCH",  "/api/hyperfleet/v1/clusters/{id}",                                 "cluster",  OPERATORS, Class::Write),
    route("DELETE", "/api/hyperfleet/v1/clusters/{id}",                                 "cluster",  OPERATORS, Class::Write),
    route("POST",   "/api/hyperfleet/v1/clusters/{id}/force-delete",                    "cluster",  OPERATORS, Class::Write),
    route("GET",    "/api/hyperfleet/v1/clusters/{id}/statuses",                        "cluster",  READERS,   Class::Read),
    route("POST",   "/api/hyperfleet/v1/clusters/{id}/statuses",                        "cluster",  REPORTERS, Class::Report),
    route("PUT",    "/api/hyperfleet/v1/clusters/{id}/statuses",                        "cluster",  REPORTERS, Class::Report),
    route("GET",    "/api/v1/clusters/{id}/statuses",                                   "cluster",  READERS,   Class::Read),
    route("POST",   "/api/v1/clusters/{id}/statuses",                                   "cluster",  REPORTERS, Class::Report),
    route("PUT",    "/api/v1/clusters/{id}/statuses",                                   "cluster",  REPORTERS, Class::Report),
    route("GET",    "/api/hyperfleet/v1/clusters/{id}/nodepools",                       "nodepool", READERS,   Class::Read),
    route("POST",   "/api/hyperfleet/v1/clusters/{id}/nodepools",                       "nodepool", OPERATORS, Class::Write),
    route("GET",    "/api/hyperfleet/v1/clusters/{id}/nodepools/{pool}",                "nodepool", READERS,   Class::Read),
    route("PATCH",  "/api/hyperfleet/v1/clusters/{id}/nodepools/{pool}",                "nodepool", OPERATORS, Class::Write),
    route("DELETE", "/api/hyperfleet/v1/clusters/{id}/nodepools/{pool}",                "nodepool", OPERATORS, Class::Write),
    route("POST",   "/api/hyperfleet/v1/clusters/{id}/nodepools/{pool}/force-delete",   "nodepool", OPERATORS, Class::Write),
    route("GET",    "/api/hyperfleet/v1/clusters/{id}/nodepools/{pool}/statuses",       "nodepool", READERS,   Class::Read),
    route("POST",   "/api/hyperfleet/v1/clusters/{id}/nodepools/{pool}/statuses",       "nodepool", REPORTERS, Class::Report),
    route("PUT",    "/api/hyperfleet/v1/clusters/{id}/nodepools/{pool}/statuses",       "nodepool", REPORTERS, Class::Report),
    route("GET",    "/api/hyperfleet/v1/nodepools",                                     "nodepool", READERS,   Class::Read),
    route("GET",    "/api/v1/adapters",                                                 "adapter",  READERS,   Class::Read),
    route("GET",    "/api/v1/adapters/{name}",                                          "adapter",  READERS,   Class::Read),
];

pub(super) const WORDS: Words = Words {
    schemas: &[
        ("Cluster", "kind", Values::Of(|| vec!["Cluster", "NodePool"])),
        ("ClusterCondition", "status", Values::Of(names::<Status>)),
        ("AdapterCondition", "status", Values::Of(names::<Status>)),
        ("ReportedCondition", "status", Values::Of(names::<Status>)),
        ("Discarded", "discarded", Values::Of(names::<Discard>)),
        ("Adapter", "state", Values::Of(names::<Standing>)),
    ],
    parameters: &[],
};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list::clusters, create::cluster))
        .routes(routes!(list::cluster, patch::cluster, delete::cluster))
        .routes(routes!(delete::force_cluster))
        .routes(routes!(statuses::of_cluster, statuses::post_cluster, statuses::put_cluster))
        .routes(routes!(statuses::of_cluster_v1, statuses::post_cluster_v1, statuses::put_cluster_v1))
        .routes(routes!(list::node_pools, create::node_pool))
        .routes(routes!(list::node_pool, patch::node_pool, delete::node_pool))
        .routes(routes!(delete::force_node_pool))
        .routes(routes!(statuses::of_node_pool, statuses::post_node_pool, statuses::put_node_pool))
        .routes(routes!(list::all_node_pools))
        .routes(routes!(adapters::list::list))
        .routes(routes!(adapters::list::one))
}

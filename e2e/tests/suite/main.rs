//! The guarantees of Wardroom, tested against the built program over HTTP.
//!
//! Most are tested on SQLite and on two servers that share a PostgreSQL. `docs/reliability.md` makes the promises;
//! `docs/reliability-tests.md` lists the tests behind each.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]

mod support;

mod access;
mod adapters;
mod attention;
mod boot;
mod browser;
mod bulk;
mod cluster_adapters;
mod cluster_contract;
mod cluster_document;
mod cluster_load;
mod cluster_stories;
mod clusters;
mod concurrency;
mod conform;
mod console;
mod contract;
mod deleted;
mod demo;
mod device_agents;
mod device_races;
mod devices;
mod discovery;
mod doors;
mod faults;
mod feed;
mod fleet_agents;
mod fleets;
mod flightctl;
mod fuzz;
mod generated;
mod gpu_agents;
mod gpu_faults;
mod gpu_nodes;
mod gpu_races;
mod gpu_sites;
mod groups;
mod heads;
mod history;
mod hostile;
mod idempotency;
mod input;
mod limits;
mod lists;
mod liveness;
mod logs;
mod mended;
mod numbers;
mod pasted;
mod patience;
mod process;
mod races;
mod reports;
mod resources;
mod retired;
mod satellite_races;
mod satellite_secrets;
mod satellite_upstreams;
mod satellites;
mod simulate;
mod tokens;
mod verbs_on_many;

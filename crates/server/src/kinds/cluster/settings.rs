//! `[clusters]` and `[node_pools]`: which adapters must agree, and how long each may be silent.

use std::time::Duration;

use serde::Deserialize;
use wardroom_core::cluster;

use super::{CLUSTER, Sort};
use crate::platform::config::{Config, ConfigError, Resolving, at_least_one, minutes};

/// The settings of clusters and node pools.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The adapters that every cluster waits for, in the order of their conditions.
    pub clusters: Vec<String>,
    /// The adapters that every node pool waits for, likewise.
    pub node_pools: Vec<String>,
    /// How long a required adapter may say nothing about a cluster.
    pub patience: Duration,
    /// How often adapters are told again of a cluster that is not reconciled.
    pub recheck: Duration,
    /// How often they are told again of one that is.
    pub recheck_reconciled: Duration,
}

impl Settings {
    /// The settings in a configuration.
    #[must_use]
    pub fn of(config: &Config) -> &Self {
        config.of()
    }

    /// The adapters that a sort of resource waits for.
    pub(crate) fn required(&self, sort: &Sort) -> &[String] {
        if *sort == CLUSTER { &self.clusters } else { &self.node_pools }
    }
}

/// Reads the sections.
pub(crate) fn resolve(sections: &mut Resolving<'_>) {
    let clusters = sections.section("clusters", RawClusters::resolve);
    let pools =
        sections.section("node_pools", |raw: RawNodePools| checked("node_pools", raw.required_adapters));
    if let (Some(settings), Some(node_pools)) = (clusters, pools) {
        sections.keep(Settings { node_pools, ..settings });
    }
}

#[derive(Deserialize)]
struct RawClusters {
    required_adapters: Vec<String>,
    adapter_patience_seconds: u64,
    recheck_seconds: u64,
    recheck_reconciled_minutes: u64,
}

#[derive(Deserialize)]
struct RawNodePools {
    required_adapters: Vec<String>,
}

impl RawClusters {
    fn resolve(self) -> Result<Settings, ConfigError> {
        let seconds = |key, value| at_least_one(key, value).map(Duration::from_secs);
        let reconciled = "clusters.recheck_reconciled_minutes";
        Ok(Settings {
            clusters: checked("clusters", self.required_adapters)?,
            node_pools: Vec::new(),
            patience: seconds("clusters.adapter_patience_seconds", self.adapter_patience_seconds)?,
            recheck: seconds("clusters.recheck_seconds", self.recheck_seconds)?,
            recheck_reconciled: minutes(reconciled, self.recheck_reconciled_minutes)?,
        })
    }
}

fn checked(section: &str, adapters: Vec<String>) -> Result<Vec<String>, ConfigError> {
    let said = |problems: Vec<wardroom_core::Invalid>| {
        let lines: Vec<_> = problems
            .iter()
            .map(|problem| format!("{section}.{}: {}", problem.field, problem.message))
            .collect();
        ConfigError(lines.join("\n"))
    };
    cluster::check_required(&adapters).map_err(said)?;
    Ok(adapters)
}

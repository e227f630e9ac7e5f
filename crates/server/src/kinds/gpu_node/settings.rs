//! `[gpu_nodes]`: how long tokens and tasks stay with an agent.

use std::time::Duration;

use serde::Deserialize;

use crate::platform::config::{Config, ConfigError, Resolving};

/// Settings for every GPU node; those of a site are set with the site.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// How long a token can be used to enrol.
    pub token: Duration,
    /// How long an exchange whose answer got lost may be repeated.
    pub exchange: Duration,
    /// How long a task stays with a silent agent.
    pub task_lease: Duration,
    /// How often nodes without a run are looked for.
    pub owners: Duration,
    /// Whether keys and passwords may be sent to loopback and link-local addresses.
    pub allow_local_addresses: bool,
}

impl Settings {
    /// The settings in a configuration.
    #[must_use]
    pub fn of(config: &Config) -> &Self {
        config.of()
    }
}

pub(crate) fn resolve(sections: &mut Resolving<'_>) {
    if let Some(settings) = sections.section("gpu_nodes", RawGpuNodes::resolve) {
        sections.keep(settings);
    }
}

#[derive(Deserialize)]
struct RawGpuNodes {
    token_minutes: u64,
    exchange_seconds: u64,
    task_lease_seconds: u64,
    owners_seconds: u64,
    allow_local_addresses: bool,
}

impl RawGpuNodes {
    fn resolve(self) -> Result<Settings, ConfigError> {
        let Self {
            token_minutes,
            exchange_seconds,
            task_lease_seconds,
            owners_seconds,
            allow_local_addresses,
        } = self;
        // A bootstrap by hand is given up after a day, so no token is valid for longer.
        for (key, value, range) in [
            ("token_minutes", token_minutes, 1..=1440),
            ("exchange_seconds", exchange_seconds, 1..=3600),
            ("task_lease_seconds", task_lease_seconds, 5..=3600),
            ("owners_seconds", owners_seconds, 1..=3600),
        ] {
            if !range.contains(&value) {
                let (least, most) = (range.start(), range.end());
                return Err(ConfigError(format!("gpu_nodes.{key}: must be from {least} to {most}")));
            }
        }
        Ok(Settings {
            token: Duration::from_secs(token_minutes * 60),
            exchange: Duration::from_secs(exchange_seconds),
            task_lease: Duration::from_secs(task_lease_seconds),
            owners: Duration::from_secs(owners_seconds),
            allow_local_addresses,
        })
    }
}

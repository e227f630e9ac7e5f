//! `[nodes]` and `[satellites]`: how members are taken in.

use std::time::Duration;

use serde::Deserialize;

use super::{ConfigError, at_least_one, minutes};

/// How unknown machines are taken in.
#[derive(Debug, Clone, Copy)]
pub struct Discovery {
    /// Whether at all.
    pub enabled: bool,
    /// How many in a minute.
    pub per_minute: u32,
    /// How many in all.
    pub max: i64,
}

/// How satellites register and come back.
#[derive(Debug, Clone)]
pub struct Satellites {
    /// The URL under which they reach the server; nothing for the address it listens on.
    pub url: Option<String>,
    /// Whether that was set; else it is the address of this server alone.
    pub url_is_set: bool,
    /// How long a registration token is valid.
    pub token: Duration,
    /// How long a re-enabled satellite may exchange its old credential.
    pub refresh: Duration,
    /// How long effects are kept that are done.
    pub effects_kept: Duration,
}

#[derive(Deserialize)]
pub(super) struct RawNodes {
    discover: bool,
    discover_per_minute: u32,
    discover_max: i64,
    install_patience_minutes: u64,
}

#[derive(Deserialize)]
pub(super) struct RawSatellites {
    url: String,
    token_minutes: u64,
    refresh_minutes: u64,
    effects_kept_hours: u64,
}

impl RawNodes {
    /// How unknown machines are taken in, and how long an install may be silent.
    pub(super) fn resolve(&self) -> Result<(Discovery, Duration), ConfigError> {
        let (enabled, per_minute, max) = (self.discover, self.discover_per_minute, self.discover_max);
        if max < 0 {
            return Err(ConfigError("nodes.discover_max: must be at least 0".to_owned()));
        }
        let patience = minutes("nodes.install_patience_minutes", self.install_patience_minutes)?;
        Ok((Discovery { enabled, per_minute, max }, patience))
    }
}

impl RawSatellites {
    pub(super) fn resolve(self) -> Result<Satellites, ConfigError> {
        let kept = at_least_one("satellites.effects_kept_hours", self.effects_kept_hours)?;
        let url = self.url.trim_end_matches('/').to_owned();
        if !url.is_empty() && !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(ConfigError(format!(
                "satellites.url: {url:?} must be a URL such as https://wardroom.example"
            )));
        }
        let url = (!url.is_empty()).then_some(url);
        Ok(Satellites {
            url_is_set: url.is_some(),
            url,
            token: minutes("satellites.token_minutes", self.token_minutes)?,
            refresh: minutes("satellites.refresh_minutes", self.refresh_minutes)?,
            effects_kept: Duration::from_secs(kept.saturating_mul(3600)),
        })
    }
}

//! `[satellites]`, and the sections of the systems that satellites depend on.

use std::time::Duration;

use serde::Deserialize;

use crate::platform::{
    config::{Config, ConfigError, Resolving, at_least_one, minutes},
    identity::spiffe,
};

pub mod pull;
pub mod upstreams;

/// The settings of satellites.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How they register and come back.
    pub satellites: Satellites,
    /// Harbor, which has their robots.
    pub harbor: Option<upstreams::Harbor>,
    /// The registry that their state is pushed to; nothing to serve it here.
    pub registry: Option<upstreams::Registry>,
    /// SPIRE, which gives them their identities.
    pub spire: Option<upstreams::Spire>,
    /// The listener for those with an X.509-SVID.
    pub spiffe: Option<spiffe::Settings>,
    /// The registries whose images they pull through this server.
    pub pull: pull::Pull,
}

impl Settings {
    /// The settings in a configuration.
    #[must_use]
    pub fn of(config: &Config) -> &Self {
        config.of()
    }

    /// The URL under which satellites with a certificate reach the server: elsewhere a certificate counts for nothing.
    pub(crate) fn url_by_certificate(config: &Config) -> Option<&str> {
        let spiffe = Self::of(config).spiffe.as_ref().and_then(|spiffe| spiffe.url.as_deref());
        spiffe.or(config.public_url.as_deref())
    }
}

pub(crate) fn resolve(sections: &mut Resolving<'_>) {
    let satellites = sections.section("satellites", RawSatellites::resolve);
    let harbor = sections.section("harbor", upstreams::RawHarbor::resolve);
    let registry = sections.section("registry", |raw: upstreams::RawRegistry| {
        raw.resolve(harbor.as_ref().and_then(Option::as_ref))
    });
    let spire = sections.section("spire", upstreams::RawSpire::resolve);
    let spiffe = sections
        .section("spiffe", |raw: upstreams::RawSpiffe| raw.resolve(spire.as_ref().and_then(Option::as_ref)));
    let pull = sections.section("pull", pull::RawPull::resolve);
    let (Some(satellites), Some(harbor), Some(registry), Some(spire), Some(spiffe), Some(pull)) =
        (satellites, harbor, registry, spire, spiffe, pull)
    else {
        return;
    };
    sections.listens("spiffe.listen", spiffe.as_ref().map(|spiffe| spiffe.listen));
    sections.keep(Settings { satellites, harbor, registry, spire, spiffe, pull });
}

/// How satellites register and come back.
#[derive(Debug, Clone)]
pub struct Satellites {
    /// How long a registration token is valid.
    pub token: Duration,
    /// How long a re-enabled satellite may exchange its old credential.
    pub refresh: Duration,
    /// How long effects are kept that are done.
    pub effects_kept: Duration,
}

#[derive(Deserialize)]
struct RawSatellites {
    token_minutes: u64,
    refresh_minutes: u64,
    effects_kept_hours: u64,
}

impl RawSatellites {
    fn resolve(self) -> Result<Satellites, ConfigError> {
        let kept = at_least_one("satellites.effects_kept_hours", self.effects_kept_hours)?;
        Ok(Satellites {
            token: minutes("satellites.token_minutes", self.token_minutes)?,
            refresh: minutes("satellites.refresh_minutes", self.refresh_minutes)?,
            effects_kept: Duration::from_secs(kept.saturating_mul(3600)),
        })
    }
}

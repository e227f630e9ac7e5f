//! `[boot]` and `[nodes]`: the listener for machines that boot, and how unknown machines are taken in.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use ipnet::IpNet;
use serde::Deserialize;

use crate::platform::{
    config::{Config, ConfigError, Resolving, address, at_least_one, minutes},
    http::text,
};

/// The settings of nodes.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The listener for machines that boot.
    pub listen: Option<SocketAddr>,
    /// The networks that machines boot in.
    pub networks: Vec<IpNet>,
    /// The URL under which machines reach it; nothing for the address that it listens on.
    pub url: Option<String>,
    /// Whether install reports must carry a token.
    pub require_install_token: bool,
    /// How long that token is valid.
    pub install_token: Duration,
    /// Discovery of unknown machines.
    pub discovery: Discovery,
    /// How long an install may be silent.
    pub install_patience: Duration,
    /// Install scripts that a node may be handed without a report before a person is needed.
    pub boots_without_report: u32,
}

/// How unknown machines are registered.
#[derive(Debug, Clone, Copy)]
pub struct Discovery {
    /// Whether at all.
    pub enabled: bool,
    /// How many in a minute.
    pub per_minute: u32,
    /// How many in all.
    pub max: i64,
}

impl Settings {
    /// The settings in a configuration.
    #[must_use]
    pub fn of(config: &Config) -> &Self {
        config.of()
    }

    pub(crate) fn is_boot_network(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.contains(&address))
    }
}

pub(crate) fn resolve(sections: &mut Resolving<'_>) {
    let boot = sections.section("boot", RawBoot::resolve);
    let nodes = sections.section("nodes", |raw: RawNodes| raw.resolve());
    let (Some(boot), Some((discovery, install_patience, boots_without_report))) = (boot, nodes) else {
        return;
    };
    sections.listens("boot.listen", boot.listen);
    let Boot { listen, networks, url, require_install_token, install_token } = boot;
    sections.keep(Settings {
        listen,
        networks,
        url,
        require_install_token,
        install_token,
        discovery,
        install_patience,
        boots_without_report,
    });
}

#[derive(Deserialize)]
struct RawNodes {
    discover: bool,
    discover_per_minute: u32,
    discover_max: i64,
    install_patience_minutes: u64,
    boots_without_report: u32,
}

impl RawNodes {
    /// How unknown machines are taken in, how long an install may be silent, and how many boots may end without a report.
    fn resolve(&self) -> Result<(Discovery, Duration, u32), ConfigError> {
        let (enabled, per_minute, max) = (self.discover, self.discover_per_minute, self.discover_max);
        if max < 0 {
            return Err(ConfigError("nodes.discover_max: must be at least 0".to_owned()));
        }
        let patience = minutes("nodes.install_patience_minutes", self.install_patience_minutes)?;
        at_least_one("nodes.boots_without_report", self.boots_without_report.into())?;
        Ok((Discovery { enabled, per_minute, max }, patience, self.boots_without_report))
    }
}

const SUCH_AS: &str = "http://10.0.0.1:8441";

#[derive(Deserialize)]
struct RawBoot {
    listen: String,
    networks: Vec<String>,
    base_url: String,
    require_install_token: bool,
    install_token_minutes: u64,
}

struct Boot {
    listen: Option<SocketAddr>,
    networks: Vec<IpNet>,
    url: Option<String>,
    require_install_token: bool,
    install_token: Duration,
}

impl RawBoot {
    fn resolve(self) -> Result<Boot, ConfigError> {
        let url = (!self.base_url.is_empty()).then(|| self.base_url.trim_end_matches('/').to_owned());
        if let Some(url) = &url {
            // It becomes part of every boot script.
            text::check_address("boot.base_url", url, SUCH_AS).map_err(|_| {
                ConfigError(format!(
                    "boot.base_url: {url:?} must be a URL such as {SUCH_AS}, without credentials, query and fragment"
                ))
            })?;
        }
        Ok(Boot {
            listen: boot_listen(&self.listen, url.as_deref())?,
            networks: networks(&self.networks)?,
            url,
            require_install_token: self.require_install_token,
            install_token: minutes("boot.install_token_minutes", self.install_token_minutes)?,
        })
    }
}

fn boot_listen(listen: &str, url: Option<&str>) -> Result<Option<SocketAddr>, ConfigError> {
    if listen.is_empty() {
        return Ok(None);
    }
    let bound = address("boot.listen", listen)?;
    if bound.ip().is_unspecified() && url.is_none() {
        return Err(ConfigError(format!(
            "boot.base_url: is missing; machines cannot reach {listen}: give the URL under which they reach this listener"
        )));
    }
    Ok(Some(bound))
}

fn networks(texts: &[String]) -> Result<Vec<IpNet>, ConfigError> {
    let network = |text: &String| {
        text.parse().map_err(|_| {
            ConfigError(format!("boot.networks: {text:?} must be a network, such as 10.0.0.0/8"))
        })
    };
    texts.iter().map(network).collect()
}

//! `[boot]`: the listener for machines that boot.

use std::{net::SocketAddr, time::Duration};

use ipnet::IpNet;
use serde::Deserialize;

use super::{ConfigError, address, minutes};
use crate::text;

const SUCH_AS: &str = "http://10.0.0.1:8441";

#[derive(Deserialize)]
pub(super) struct RawBoot {
    listen: String,
    networks: Vec<String>,
    base_url: String,
    require_install_token: bool,
    install_token_minutes: u64,
}

/// The section, resolved.
pub(super) struct Boot {
    pub(super) listen: Option<SocketAddr>,
    pub(super) networks: Vec<IpNet>,
    pub(super) url: Option<String>,
    pub(super) require_install_token: bool,
    pub(super) install_token: Duration,
}

impl RawBoot {
    pub(super) fn resolve(self) -> Result<Boot, ConfigError> {
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
            "boot.base_url: is missing; machines cannot reach {listen}, say under which address they can"
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

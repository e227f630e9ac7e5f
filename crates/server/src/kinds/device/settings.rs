//! `[devices]`: where agents connect, and how long a device may be silent.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use serde::Deserialize;

use crate::platform::config::{Config, ConfigError, DEFAULT, Resolving, address, at_least_one, minutes};

/// The settings of devices.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where agents connect; nothing for no such listener.
    pub listen: Option<SocketAddr>,
    /// Whether that is the address of the default configuration, which another server on this machine may have.
    pub listen_is_default: bool,
    /// The URL under which agents reach the server; the address that it listens on unless it was set.
    pub url: Option<String>,
    /// The interval at which an agent is heard at least.
    pub interval: Duration,
    /// How long a device may be silent.
    pub silence: Duration,
    /// How long a poll is held.
    pub poll: Duration,
    /// How long a certificate of a device is valid.
    pub certificate: Duration,
    /// The certificate of the authority and its key; nothing for the server's own.
    pub authority: Option<(PathBuf, PathBuf)>,
}

impl Settings {
    /// The settings in a configuration.
    #[must_use]
    pub fn of(config: &Config) -> &Self {
        config.of()
    }
}

/// Reads the section.
pub(super) fn resolve(sections: &mut Resolving<'_>) {
    let Some(devices) = sections.section("devices", RawSettings::resolve) else { return };
    // One that is not sure to be free is looked at when the server starts.
    sections.listens("devices.listen", devices.listen.filter(|_| !devices.listen_is_default));
    sections.keep(devices);
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSettings {
    listen: String,
    url: String,
    interval_seconds: u64,
    disconnection_seconds: u64,
    poll_seconds: u64,
    certificate_minutes: u64,
    ca_certificate: String,
    ca_key: String,
}

/// The longest time that a poll may be held: proxies and NAT forget quieter connections.
const LONGEST_POLL: u64 = 600;

/// The longest silence: what liveness counts with.
const LONGEST_SILENCE: u64 = 604_800;

impl RawSettings {
    fn resolve(self) -> Result<Settings, ConfigError> {
        let listen = match &*self.listen {
            "" => None,
            text => Some(address("devices.listen", text)?),
        };
        let url = match &*self.url {
            "" => None,
            text if text.starts_with("https://") && !text.contains(['@', '?', '#']) => {
                Some(text.trim_end_matches('/').to_owned())
            }
            _ => {
                let message = "devices.url: must be a URL such as https://wardroom.example:8442";
                return Err(ConfigError(message.to_owned()));
            }
        };
        let ranged = |key: &str, value: u64, most: u64| {
            if (1..=most).contains(&value) {
                return Ok(Duration::from_secs(value));
            }
            Err(ConfigError(format!("devices.{key}: must be from 1 to {most}")))
        };
        let authority = match (&*self.ca_certificate, &*self.ca_key) {
            ("", "") => None,
            ("", _) | (_, "") => {
                let message = "devices.ca_certificate: and ca_key belong together; give both or none";
                return Err(ConfigError(message.to_owned()));
            }
            (certificate, key) => Some((certificate.into(), key.into())),
        };
        let lifetime = at_least_one("devices.certificate_minutes", self.certificate_minutes)?;
        let interval = ranged("interval_seconds", self.interval_seconds, LONGEST_SILENCE / 3)?;
        let silence = ranged("disconnection_seconds", self.disconnection_seconds, LONGEST_SILENCE)?;
        Ok(Settings {
            listen,
            listen_is_default: is_default(&self.listen),
            url,
            interval,
            silence: silence.max(interval * 3),
            poll: ranged("poll_seconds", self.poll_seconds, LONGEST_POLL)?,
            certificate: minutes("devices.certificate_minutes", lifetime)?,
            authority,
        })
    }
}

fn is_default(listen: &str) -> bool {
    #[derive(Deserialize)]
    struct Section {
        listen: String,
    }
    #[derive(Deserialize)]
    struct Whole {
        devices: Section,
    }
    toml::from_str::<Whole>(DEFAULT).is_ok_and(|whole| whole.devices.listen == listen)
}

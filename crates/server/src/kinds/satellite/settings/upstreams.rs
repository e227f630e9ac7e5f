//! The settings of the systems that satellites depend on: Harbor, a registry, SPIRE; and of the listener for SPIFFE.
//!
//! A section without its address is one that is not used.

use std::{net::SocketAddr, path::PathBuf};

use serde::Deserialize;
use wardroom_upstream::Secret;

use crate::platform::{
    config::{ConfigError, address},
    identity::spiffe::Settings as Spiffe,
};

/// The address of Harbor, and the account that is used.
#[derive(Debug, Clone)]
pub struct Harbor {
    /// Its URL.
    pub url: String,
    /// The user.
    pub username: String,
    /// The user's password.
    pub password: Password,
    /// Certificates to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// The lifetime of a robot, in days.
    pub robot_days: u32,
    /// Whether a robot made outside of Wardroom is taken over for the satellite of its name.
    pub adopt_robots: bool,
}

/// Where the state of satellites is pushed.
#[derive(Debug, Clone)]
pub struct Registry {
    /// Its URL.
    pub url: String,
    /// The account that pushes, and its password.
    pub credentials: Option<(String, Password)>,
    /// Certificates to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Whether configs with secrets are pushed although the registry is public.
    pub allow_public: bool,
}

/// Where a password is.
#[derive(Debug, Clone)]
pub enum Password {
    /// In a file; whitespace at its end does not count.
    File(PathBuf),
    /// In the configuration or the environment.
    Given(Secret),
}

impl Password {
    /// The password.
    ///
    /// # Errors
    /// When the file cannot be read, or has nothing in it.
    pub fn read(&self) -> Result<Secret, String> {
        match self {
            Self::Given(secret) => Ok(secret.clone()),
            Self::File(path) => {
                let text =
                    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
                let text = text.trim_end();
                if text.is_empty() {
                    return Err(format!("{}: is empty", path.display()));
                }
                Ok(Secret::new(text))
            }
        }
    }
}

/// Where SPIRE's server is.
#[derive(Debug, Clone)]
pub struct Spire {
    /// How it is reached.
    pub endpoint: SpireEndpoint,
    /// The trust domain it answers for.
    pub trust_domain: String,
    /// How long an SVID of a satellite is valid.
    pub svid_ttl_seconds: i32,
    /// Host and port under which agents reach it.
    pub agent_address: (String, u16),
}

/// How SPIRE's server is reached.
#[derive(Debug, Clone)]
pub enum SpireEndpoint {
    /// Over its private socket; every process that can open it is an administrator.
    Socket(PathBuf),
    /// Over mTLS, with the SVID of an administrator.
    Tls {
        /// Host and port.
        address: String,
        /// The certificate chain that is presented.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
        /// The trust bundle.
        bundle: PathBuf,
    },
}

#[derive(Deserialize)]
pub(super) struct RawHarbor {
    url: String,
    username: String,
    password: String,
    password_file: String,
    ca_file: String,
    robot_days: u32,
    adopt_robots: bool,
}

#[derive(Deserialize)]
pub(super) struct RawRegistry {
    url: String,
    username: String,
    password: String,
    password_file: String,
    ca_file: String,
    allow_public: bool,
}

#[derive(Deserialize)]
pub(super) struct RawSpire {
    address: String,
    certificate: String,
    key: String,
    bundle: String,
    trust_domain: String,
    svid_ttl_seconds: i32,
    agent_address: String,
}

#[derive(Deserialize)]
pub(super) struct RawSpiffe {
    listen: String,
    url: String,
    trust_domain: String,
    bundle: String,
    certificate: String,
    key: String,
}

impl RawHarbor {
    pub(super) fn resolve(self) -> Result<Option<Harbor>, ConfigError> {
        let Some(url) = url("harbor.url", &self.url)? else { return Ok(None) };
        let password = password("harbor", self.password, self.password_file)?;
        let password = password.ok_or_else(|| {
            ConfigError("harbor.password_file: is missing, and there is no harbor.password either".to_owned())
        })?;
        if self.username.is_empty() {
            return Err(ConfigError("harbor.username: is missing, but harbor.url is set".to_owned()));
        }
        if !(2..=3650).contains(&self.robot_days) {
            return Err(ConfigError("harbor.robot_days: must be 2 to 3650".to_owned()));
        }
        let Self { username, robot_days, adopt_robots, .. } = self;
        Ok(Some(Harbor { url, username, password, ca_file: path(self.ca_file), robot_days, adopt_robots }))
    }
}

impl RawRegistry {
    /// Without its own registry, states are pushed to Harbor's.
    pub(super) fn resolve(self, harbor: Option<&Harbor>) -> Result<Option<Registry>, ConfigError> {
        let Some(url) = url("registry.url", &self.url)? else {
            return Ok(harbor.map(|harbor| Registry {
                url: harbor.url.clone(),
                credentials: Some((harbor.username.clone(), harbor.password.clone())),
                ca_file: harbor.ca_file.clone(),
                allow_public: false,
            }));
        };
        let password = password("registry", self.password, self.password_file)?;
        let credentials = match (self.username.is_empty(), password) {
            (true, None) => None,
            (false, Some(password)) => Some((self.username, password)),
            (true, Some(_)) => {
                return Err(ConfigError("registry.username: is missing, but a password is given".to_owned()));
            }
            (false, None) => {
                return Err(ConfigError(
                    "registry.password_file: is missing, but registry.username is set".to_owned(),
                ));
            }
        };
        Ok(Some(Registry { url, credentials, ca_file: path(self.ca_file), allow_public: self.allow_public }))
    }
}

impl RawSpire {
    pub(super) fn resolve(self) -> Result<Option<Spire>, ConfigError> {
        if self.address.is_empty() {
            return Ok(None);
        }
        let endpoint = match self.address.strip_prefix("unix://") {
            Some(socket) => SpireEndpoint::Socket(socket.into()),
            None => {
                let needed = |key: &str, value: &String| {
                    if value.is_empty() {
                        return Err(ConfigError(format!("spire.{key}: is missing; it is needed over TLS")));
                    }
                    Ok(PathBuf::from(value))
                };
                SpireEndpoint::Tls {
                    certificate: needed("certificate", &self.certificate)?,
                    key: needed("key", &self.key)?,
                    bundle: needed("bundle", &self.bundle)?,
                    address: self.address.clone(),
                }
            }
        };
        if !(60..=86_400).contains(&self.svid_ttl_seconds) {
            return Err(ConfigError("spire.svid_ttl_seconds: must be 60 to 86400".to_owned()));
        }
        let agents = match (&endpoint, self.agent_address.as_str()) {
            (SpireEndpoint::Tls { address, .. }, "") => address.as_str(),
            // This address is given to no satellite.
            (SpireEndpoint::Socket(_), "") => ":8081",
            (_, given) => given,
        };
        let agent_address = agents.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = agent_address.ok_or_else(|| {
            ConfigError(format!(
                "spire.agent_address: {agents:?} must be a host and a port, such as spire:8081"
            ))
        })?;
        let agent_address = (host.to_owned(), port);
        let trust_domain = trust_domain("spire.trust_domain", self.trust_domain)?;
        Ok(Some(Spire { endpoint, trust_domain, svid_ttl_seconds: self.svid_ttl_seconds, agent_address }))
    }
}

impl RawSpiffe {
    pub(super) fn resolve(self, spire: Option<&Spire>) -> Result<Option<Spiffe>, ConfigError> {
        if self.listen.is_empty() {
            return Ok(None);
        }
        let listen = address("spiffe.listen", &self.listen)?;
        let url = url("spiffe.url", &self.url)?;
        if url.as_deref().is_some_and(|url| !url.starts_with("https://")) {
            return Err(ConfigError("spiffe.url: must begin with https://".to_owned()));
        }
        reachable("spiffe.url", listen, url.as_deref())?;
        let trust_domain = match (self.trust_domain.is_empty(), spire) {
            (true, Some(spire)) => spire.trust_domain.clone(),
            _ => trust_domain("spiffe.trust_domain", self.trust_domain)?,
        };
        let bundle = path(self.bundle);
        if bundle.is_none() && spire.is_none() {
            return Err(ConfigError("spiffe.bundle: is missing, and there is no SPIRE to ask".to_owned()));
        }
        let needed = |key: &str, value: String| {
            path(value)
                .ok_or_else(|| ConfigError(format!("spiffe.{key}: is missing, but spiffe.listen is set")))
        };
        let certificate = needed("certificate", self.certificate)?;
        let key = needed("key", self.key)?;
        let url_is_set = url.is_some();
        Ok(Some(Spiffe { listen, url, url_is_set, trust_domain, bundle, certificate, key }))
    }
}

/// Refuses a wildcard listen address without a URL for satellites.
fn reachable(key: &str, listen: SocketAddr, url: Option<&str>) -> Result<(), ConfigError> {
    if listen.ip().is_unspecified() && url.is_none() {
        return Err(ConfigError(format!(
            "{key}: is missing; satellites cannot reach {listen}, say under which URL they can, such as https://wardroom.example"
        )));
    }
    Ok(())
}

fn path(text: String) -> Option<PathBuf> {
    (!text.is_empty()).then(|| text.into())
}

/// Parses a base URL without credentials, query and fragment.
pub(super) fn url(key: &str, text: &str) -> Result<Option<String>, ConfigError> {
    if text.is_empty() {
        return Ok(None);
    }
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match rest {
        Some(rest) if !rest.is_empty() && !rest.contains(['@', '?', '#']) => {
            Ok(Some(text.trim_end_matches('/').to_owned()))
        }
        _ => Err(ConfigError(format!(
            "{key}: must be a URL such as https://registry.example.com, without credentials"
        ))),
    }
}

fn trust_domain(key: &str, text: String) -> Result<String, ConfigError> {
    let decent = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
    if text.is_empty() || text.len() > 255 || !text.bytes().all(decent) {
        return Err(ConfigError(format!("{key}: {text:?} must be a trust domain such as example.org")));
    }
    Ok(text)
}

fn password(section: &str, text: String, file: String) -> Result<Option<Password>, ConfigError> {
    match (text.as_str(), path(file)) {
        ("", None) => Ok(None),
        ("", Some(file)) => Ok(Some(Password::File(file))),
        (_, None) => Ok(Some(Password::Given(Secret::new(text)))),
        (_, Some(_)) => {
            Err(ConfigError(format!("{section}.password_file: and password are both set; choose one")))
        }
    }
}

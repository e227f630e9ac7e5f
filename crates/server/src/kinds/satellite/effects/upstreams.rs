//! The clients of everything that is configured.

use std::path::Path;

use wardroom_upstream::{
    harbor::{self, Harbor},
    registry::{self, Registry},
    spire::{Endpoint, Id, Spire, Tls},
};

use crate::{
    kinds::satellite::settings::{Settings, upstreams as settings},
    platform::config::Config,
};

/// A client is none if its system is not configured.
#[derive(Debug, Default)]
pub(crate) struct Upstreams {
    pub(crate) harbor: Option<Harbor>,
    pub(crate) spire: Option<Spire>,
    pub(crate) registry: Option<Registry>,
}

impl Upstreams {
    /// Makes the clients; nothing is sent yet.
    pub(crate) fn new(config: &Config) -> Result<Self, String> {
        let settings = Settings::of(config);
        Ok(Self {
            harbor: settings.harbor.as_ref().map(harbor).transpose()?,
            spire: settings.spire.as_ref().map(spire).transpose()?,
            registry: settings.registry.as_ref().map(registry).transpose()?,
        })
    }
}

fn harbor(settings: &settings::Harbor) -> Result<Harbor, String> {
    let options = harbor::Options {
        url: settings.url.clone(),
        username: settings.username.clone(),
        password: settings.password.read()?,
        certificates: settings.ca_file.as_deref().map(read).transpose()?,
        timeout: None,
    };
    Harbor::new(options).map_err(|error| format!("harbor: {error}"))
}

fn registry(settings: &settings::Registry) -> Result<Registry, String> {
    let credentials = settings.credentials.as_ref().map(|(username, password)| {
        Ok::<_, String>(registry::Credentials { username: username.clone(), password: password.read()? })
    });
    let options = registry::Options {
        url: settings.url.clone(),
        credentials: credentials.transpose()?,
        certificates: settings.ca_file.as_deref().map(read).transpose()?,
        timeout: None,
    };
    Registry::new(options).map_err(|error| format!("registry: {error}"))
}

fn spire(settings: &settings::Spire) -> Result<Spire, String> {
    let endpoint = match settings.endpoint.clone() {
        settings::SpireEndpoint::Socket(path) => Endpoint::Socket(path),
        settings::SpireEndpoint::Tls { address, certificate, key, bundle } => {
            let server = Id { trust_domain: settings.trust_domain.clone(), path: "/spire/server".to_owned() };
            Endpoint::Tcp(Box::new(Tls { address, server, bundle, certificate, key }))
        }
    };
    Spire::new(&endpoint, None).map_err(|error| format!("spire: {error}"))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

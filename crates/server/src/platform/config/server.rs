//! `[server]`: where people connect, and where the data is.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;
use wardroom_store::Location;

use super::{ConfigError, address, at_least_one};

#[derive(Deserialize)]
pub(super) struct RawServer {
    listen: String,
    public_url: String,
    data_dir: String,
    database_url: String,
    tls_certificate: String,
    tls_key: String,
    insecure_http: bool,
    key_file: String,
    request_timeout_seconds: u64,
    shutdown_seconds: u64,
}

pub(super) struct Server {
    pub(super) listen: SocketAddr,
    pub(super) public_url: Option<String>,
    pub(super) data_dir: PathBuf,
    pub(super) location: Location,
    pub(super) tls: Option<(PathBuf, PathBuf)>,
    pub(super) key_file: PathBuf,
    pub(super) request_timeout: Duration,
    pub(super) shutdown: Duration,
}

impl RawServer {
    pub(super) fn resolve(self) -> Result<Server, ConfigError> {
        let listen = address("server.listen", &self.listen)?;
        let tls = tls(&self)?;
        if tls.is_none() && !listen.ip().is_loopback() && !self.insecure_http {
            return Err(ConfigError(format!(
                "server.listen: {listen} is not loopback; set server.tls_certificate and server.tls_key, or server.insecure_http (--insecure-http)"
            )));
        }
        let url = self.public_url.trim_end_matches('/');
        if !url.is_empty() && !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(ConfigError(format!(
                "server.public_url: {url:?} must be a URL such as https://wardroom.example"
            )));
        }
        let public_url = (!url.is_empty()).then(|| url.to_owned());
        if self.data_dir.is_empty() {
            return Err(ConfigError("server.data_dir: must not be empty".to_owned()));
        }
        let data_dir = PathBuf::from(&self.data_dir);
        let location = location(self.database_url, &data_dir)?;
        let key_file =
            if self.key_file.is_empty() { data_dir.join("server.key") } else { self.key_file.into() };
        let timeout = at_least_one("server.request_timeout_seconds", self.request_timeout_seconds)?;
        Ok(Server {
            listen,
            public_url,
            data_dir,
            location,
            tls,
            key_file,
            request_timeout: Duration::from_secs(timeout),
            shutdown: Duration::from_secs(self.shutdown_seconds),
        })
    }
}

fn location(database_url: String, data_dir: &Path) -> Result<Location, ConfigError> {
    if database_url.is_empty() {
        return Ok(Location::Sqlite { dir: data_dir.to_owned() });
    }
    if database_url.starts_with("postgres://") || database_url.starts_with("postgresql://") {
        return Ok(Location::Postgres { url: database_url });
    }
    Err(ConfigError("server.database_url: must start with postgres://".to_owned()))
}

fn tls(server: &RawServer) -> Result<Option<(PathBuf, PathBuf)>, ConfigError> {
    match (server.tls_certificate.as_str(), server.tls_key.as_str()) {
        ("", "") => Ok(None),
        ("", _) => {
            Err(ConfigError("server.tls_certificate: is missing, but server.tls_key is set".to_owned()))
        }
        (_, "") => {
            Err(ConfigError("server.tls_key: is missing, but server.tls_certificate is set".to_owned()))
        }
        (certificate, key) => Ok(Some((certificate.into(), key.into()))),
    }
}

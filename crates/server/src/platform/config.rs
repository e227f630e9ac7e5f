//! Configuration: raw values laid over each other, then resolved once.
//!
//! Default < file < environment < flags. After [`resolve`] nothing is parsed, defaulted or checked again.

use std::{
    any::Any,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use axum::http::Extensions;
use serde::Deserialize;
use wardroom_store::Location;

use crate::platform::{kind::Kind, liveness};

mod layers;
mod log;
mod print;
mod resolving;
pub mod secrets;
mod server;

pub use print::print;
pub use resolving::Resolving;

/// The commented default, which is the real one.
pub const DEFAULT: &str = include_str!("../../../../wardroom.default.toml");

/// A mistake in the configuration, with its key.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// Where values come from, the weakest first.
#[derive(Debug, Default)]
pub struct Sources {
    /// The text of the configuration file.
    pub file: Option<String>,
    /// What that file is called.
    pub file_name: Option<String>,
    /// Environment variables.
    pub environment: Vec<(String, String)>,
    /// `section.key` and value of each flag that was given.
    pub flags: Vec<(&'static str, String)>,
}

/// The configuration of a server, resolved.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where people and integrators connect.
    pub listen: SocketAddr,
    /// The URL under which members reach the server; the address that it listens on unless it was set.
    pub public_url: Option<String>,
    /// Whether `public_url` was set; otherwise it is the address of this replica only.
    pub public_url_is_set: bool,
    /// Where files are kept.
    pub data_dir: PathBuf,
    /// Where the data is.
    pub location: Location,
    /// Certificate chain and key; nothing for plain HTTP.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// The server's secret key.
    pub key_file: PathBuf,
    /// How long one request may take.
    pub request_timeout: Duration,
    /// How long requests under way may take at the end.
    pub shutdown: Duration,
    /// Where secrets are that sites and nodes refer to.
    pub secrets: secrets::Secrets,
    /// Rate limits.
    pub limits: Limits,
    /// How silence is judged.
    pub liveness: liveness::Settings,
    /// For tests only: a file that moves the clock.
    pub test_clock: Option<PathBuf>,
    /// How often histories are sealed.
    pub checkpoint: Duration,
    /// Log filter.
    pub log_level: String,
    /// Whether logs are JSON.
    pub log_json: bool,
    /// The settings of the kinds, by their types.
    pub kinds: Extensions,
}

impl Config {
    /// The settings of a kind.
    ///
    /// # Panics
    /// When the kind is not served: its own code is not called then.
    #[must_use]
    pub fn of<T: Any + Send + Sync>(&self) -> &T {
        self.kinds.get().expect("a kind keeps its settings while it is served")
    }

    /// The same, mutable: some values are known only once the server listens.
    ///
    /// # Panics
    /// Likewise.
    pub fn of_mut<T: Any + Send + Sync>(&mut self) -> &mut T {
        self.kinds.get_mut().expect("a kind keeps its settings while it is served")
    }
}

/// Requests a second for each identity.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Reads.
    pub read: u32,
    /// Writes.
    pub write: u32,
    /// Reports and boots.
    pub report: u32,
    /// Callers without an identity, by address.
    pub anonymous: u32,
    /// Streams and waiting requests for events of one token, open at a time.
    pub streams: u32,
}

/// Lays the sources over the default and resolves the result, with the sections of these kinds.
///
/// # Errors
/// What is wrong, with the key it is about.
pub fn resolve(sources: &Sources, kinds: &[&Kind]) -> Result<Config, ConfigError> {
    let table = layers::merged(sources)?;
    let mut sections = Resolving::of(&table);
    kinds.iter().for_each(|kind| (kind.settings)(&mut sections));
    let server = sections.section("server", server::RawServer::resolve);
    let log = sections.section("log", log::RawLog::resolve);
    let limits = sections.section("limits", Ok::<Limits, _>);
    let checkpoint = sections.section("audit", |raw: RawAudit| {
        at_least_one("audit.checkpoint_seconds", raw.checkpoint_seconds).map(Duration::from_secs)
    });
    let secrets = server.as_ref().and_then(|server| {
        sections.section("secrets", |raw: secrets::RawSecrets| raw.resolve(&server.data_dir))
    });
    let is_shared = server.as_ref().is_some_and(|server| server.location.is_shared());
    let liveness = sections.section("liveness", |raw: liveness::RawSettings| {
        let file = raw.test_clock_file.clone();
        let test_clock = (!file.is_empty()).then(|| file.into());
        raw.resolve(is_shared).map(|settings| (settings, test_clock)).map_err(ConfigError)
    });
    sections.listens("server.listen", server.as_ref().map(|server| server.listen));
    let kinds = sections.end()?;
    let (Some(server), Some((log_level, log_json)), Some(limits)) = (server, log, limits) else {
        return Err(ConfigError("the configuration is not complete".to_owned()));
    };
    let (Some(checkpoint), Some(secrets), Some((liveness, test_clock))) = (checkpoint, secrets, liveness)
    else {
        return Err(ConfigError("the configuration is not complete".to_owned()));
    };
    Ok(Config {
        secrets,
        listen: server.listen,
        public_url_is_set: server.public_url.is_some(),
        public_url: server.public_url,
        data_dir: server.data_dir,
        location: server.location,
        tls: server.tls,
        key_file: server.key_file,
        request_timeout: server.request_timeout,
        shutdown: server.shutdown,
        limits,
        liveness,
        test_clock,
        checkpoint,
        log_json,
        log_level,
        kinds,
    })
}

#[derive(Deserialize)]
struct RawAudit {
    checkpoint_seconds: u64,
}

/// Refuses two listeners with one address; port 0 is a free port for each. `[::]` also accepts IPv4, the
/// default of most systems; `0.0.0.0` accepts no IPv6.
fn apart(listeners: &[(&str, SocketAddr)]) -> Result<(), ConfigError> {
    for (at, (key, address)) in listeners.iter().enumerate() {
        for (other, taken) in &listeners[..at] {
            let (one, two) = (address.ip().to_canonical(), taken.ip().to_canonical());
            let covers = |one: IpAddr, two: IpAddr| one.is_unspecified() && (one.is_ipv6() || two.is_ipv4());
            let same = one == two || covers(one, two) || covers(two, one);
            if same && address.port() == taken.port() && address.port() != 0 {
                return Err(ConfigError(format!(
                    "{key}: {address} is taken by {other}: choose another port"
                )));
            }
        }
    }
    Ok(())
}

pub(crate) fn address(key: &str, text: &str) -> Result<SocketAddr, ConfigError> {
    text.parse().map_err(|_| {
        ConfigError(format!("{key}: {text:?} must be an address and a port, such as 127.0.0.1:8440"))
    })
}

/// Refuses 0, which would mean never.
pub(crate) fn at_least_one(key: &str, value: u64) -> Result<u64, ConfigError> {
    if value == 0 { Err(ConfigError(format!("{key}: must be at least 1"))) } else { Ok(value) }
}

pub(crate) fn minutes(key: &str, value: u64) -> Result<Duration, ConfigError> {
    Ok(Duration::from_secs(at_least_one(key, value)?.saturating_mul(60)))
}

#[cfg(test)]
mod tests {
    use super::{Sources, apart, resolve};

    #[test]
    fn listeners_are_apart_where_the_system_keeps_them_apart() {
        for (one, two, expected) in [
            ("127.0.0.1:80", "127.0.0.1:80", false),
            ("127.0.0.1:80", "127.0.0.1:81", true),
            ("127.0.0.1:0", "127.0.0.1:0", true),
            ("127.0.0.1:80", "127.0.0.2:80", true),
            ("0.0.0.0:80", "127.0.0.1:80", false),
            ("0.0.0.0:80", "[::1]:80", true),
            ("[::]:80", "[::1]:80", false),
            ("[::]:80", "127.0.0.1:80", false),
            ("[::]:80", "0.0.0.0:80", false),
            ("[::1]:80", "127.0.0.1:80", true),
            ("[::ffff:127.0.0.1]:80", "127.0.0.1:80", false),
            ("[::ffff:127.0.0.1]:80", "0.0.0.0:80", false),
        ] {
            let (first, second) = (one.parse().unwrap(), two.parse().unwrap());
            for listeners in [[("a", first), ("b", second)], [("a", second), ("b", first)]] {
                assert_eq!(apart(&listeners).is_ok(), expected, "{one} and {two}");
            }
        }
    }

    #[test]
    fn a_variable_of_a_section_must_be_one_of_its_keys() {
        let named =
            |name: &str| Sources { environment: vec![(name.into(), "1".into())], ..Sources::default() };
        assert!(
            resolve(&named("WARDROOM_LIMITS_REED"), crate::kinds::KINDS)
                .unwrap_err()
                .0
                .contains("WARDROOM_LIMITS_REED")
        );
        for other in ["WARDROOM_SERVER_URL", "WARDROOM_TOKEN_FILE", "WARDROOM_BLESS"] {
            assert!(resolve(&named(other), crate::kinds::KINDS).is_ok(), "{other}");
        }
    }
}

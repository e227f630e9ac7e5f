//! Configuration: raw values laid over each other, then resolved once.
//!
//! Default < file < environment < flags. After [`resolve`] nothing is parsed, defaulted or checked again.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use ipnet::IpNet;
use serde::Deserialize;
use toml::Value;
use wardroom_store::Location;

use crate::liveness;

mod boot;
pub mod gpu_nodes;
mod layers;
mod log;
mod members;
mod print;
pub mod secrets;
mod server;
pub mod upstreams;

pub use members::{Discovery, Satellites};
pub use print::print;

/// The commented default, which is the real one.
pub const DEFAULT: &str = include_str!("../../../wardroom.default.toml");

/// What is wrong with a configuration, and where.
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
    /// The listener for machines that boot.
    pub boot: Option<SocketAddr>,
    /// Networks that machines boot in.
    pub boot_networks: Vec<IpNet>,
    /// The URL under which machines reach it; nothing for the address it listens on.
    pub boot_url: Option<String>,
    /// Whether install reports must carry a token.
    pub require_install_token: bool,
    /// How long that token is valid.
    pub install_token: Duration,
    /// Discovery of unknown machines.
    pub discovery: Discovery,
    /// How long an install may be silent.
    pub install_patience: Duration,
    /// Satellites.
    pub satellites: Satellites,
    /// GPU nodes.
    pub gpu_nodes: gpu_nodes::GpuNodes,
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
    /// Harbor, which has the robots of satellites.
    pub harbor: Option<upstreams::Harbor>,
    /// The registry that the state of satellites is pushed to; nothing to serve it here.
    pub registry: Option<upstreams::Registry>,
    /// SPIRE, which gives satellites their identities.
    pub spire: Option<upstreams::Spire>,
    /// The listener for satellites with an X.509-SVID.
    pub spiffe: Option<upstreams::Spiffe>,
    /// Log filter.
    pub log_level: String,
    /// Whether logs are JSON.
    pub log_json: bool,
}

impl Config {
    /// Whether machines boot at this address.
    pub(crate) fn is_boot_network(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.boot_networks.iter().any(|network| network.contains(&address))
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

/// Lays the sources over the default and resolves the result.
///
/// # Errors
/// What is wrong, with the key it is about.
pub fn resolve(sources: &Sources) -> Result<Config, ConfigError> {
    let raw: Raw = serde_path_to_error::deserialize(Value::Table(layers::merged(sources)?))
        .map_err(|error| ConfigError(format!("{}: {}", error.path(), ranged(error.inner().message()))))?;
    raw.resolve()
}

/// Numbers are of the right type here, so one that does not fit is out of its range: which that is, in plain words.
fn ranged(message: &str) -> String {
    let most = match message.rsplit_once(", expected ").map(|(_, wanted)| wanted) {
        Some("u16") => i64::from(u16::MAX),
        Some("u32") => i64::from(u32::MAX),
        Some("u64" | "usize") => i64::MAX,
        Some(_) | None => return message.to_owned(),
    };
    format!("must be from 0 to {most}")
}

#[derive(Deserialize)]
struct Raw {
    server: server::RawServer,
    boot: boot::RawBoot,
    nodes: members::RawNodes,
    satellites: members::RawSatellites,
    gpu_nodes: gpu_nodes::RawGpuNodes,
    secrets: secrets::RawSecrets,
    limits: Limits,
    liveness: liveness::RawSettings,
    audit: RawAudit,
    harbor: upstreams::RawHarbor,
    registry: upstreams::RawRegistry,
    spire: upstreams::RawSpire,
    spiffe: upstreams::RawSpiffe,
    log: log::RawLog,
}

#[derive(Deserialize)]
struct RawAudit {
    checkpoint_seconds: u64,
}

impl Raw {
    fn resolve(self) -> Result<Config, ConfigError> {
        let mut wrong = Wrong::default();
        let harbor = wrong.note(self.harbor.resolve());
        let registry = wrong.note(self.registry.resolve(harbor.as_ref().and_then(Option::as_ref)));
        let spire = wrong.note(self.spire.resolve());
        let spiffe = wrong.note(self.spiffe.resolve(spire.as_ref().and_then(Option::as_ref)));
        let server = wrong.note(self.server.resolve());
        let boot = wrong.note(self.boot.resolve());
        let nodes = wrong.note(self.nodes.resolve());
        let satellites = wrong.note(self.satellites.resolve());
        let gpu_nodes = wrong.note(self.gpu_nodes.resolve());
        let checkpoint = wrong.note(at_least_one("audit.checkpoint_seconds", self.audit.checkpoint_seconds));
        let log = wrong.note(self.log.resolve());
        let secrets = server.as_ref().and_then(|server| wrong.note(self.secrets.resolve(&server.data_dir)));
        let test_clock = &self.liveness.test_clock_file;
        let test_clock = (!test_clock.is_empty()).then(|| test_clock.into());
        let is_shared =
            server.as_ref().is_some_and(|server| matches!(server.location, Location::Postgres { .. }));
        let liveness = wrong.note(self.liveness.resolve(is_shared).map_err(ConfigError));
        wrong.note(apart(&[
            ("server.listen", server.as_ref().map(|server| server.listen)),
            ("boot.listen", boot.as_ref().and_then(|boot| boot.listen)),
            ("spiffe.listen", spiffe.iter().flatten().next().map(|spiffe| spiffe.listen)),
        ]));
        let upstreams = harbor.zip(registry).zip(spire.zip(spiffe));
        let members = nodes.zip(satellites).zip(gpu_nodes.zip(liveness));
        let own = server.zip(boot).zip(secrets.zip(checkpoint)).zip(log);
        let (true, Some(upstreams), Some(members), Some(own)) = (wrong.0.is_empty(), upstreams, members, own)
        else {
            return Err(wrong.said());
        };
        let ((harbor, registry), (spire, spiffe)) = upstreams;
        let (((discovery, install_patience), satellites), (gpu_nodes, liveness)) = members;
        let (((server, boot), (secrets, checkpoint)), (log_level, log_json)) = own;
        Ok(Config {
            secrets,
            listen: server.listen,
            data_dir: server.data_dir,
            location: server.location,
            tls: server.tls,
            key_file: server.key_file,
            request_timeout: server.request_timeout,
            shutdown: server.shutdown,
            boot: boot.listen,
            boot_networks: boot.networks,
            boot_url: boot.url,
            require_install_token: boot.require_install_token,
            install_token: boot.install_token,
            discovery,
            install_patience,
            satellites,
            gpu_nodes,
            limits: self.limits,
            liveness,
            test_clock,
            checkpoint: Duration::from_secs(checkpoint),
            harbor,
            registry,
            spire,
            spiffe,
            log_json,
            log_level,
        })
    }
}

/// All that is wrong, so that nobody has to find it one by one.
#[derive(Default)]
struct Wrong(Vec<String>);

impl Wrong {
    fn note<T>(&mut self, resolved: Result<T, ConfigError>) -> Option<T> {
        resolved.map_err(|error| self.0.push(error.0)).ok()
    }

    fn said(&self) -> ConfigError {
        ConfigError(self.0.join("\n"))
    }
}

/// Two listeners cannot have one address; port 0 is a free one for each. `[::]` takes what comes over IPv4 too, as
/// systems have it by default, `0.0.0.0` nothing that comes over IPv6.
fn apart(listeners: &[(&str, Option<SocketAddr>)]) -> Result<(), ConfigError> {
    for (at, (key, address)) in listeners.iter().enumerate() {
        for (other, taken) in &listeners[..at] {
            let (Some(address), Some(taken)) = (address, taken) else { continue };
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

fn address(key: &str, text: &str) -> Result<SocketAddr, ConfigError> {
    text.parse().map_err(|_| {
        ConfigError(format!("{key}: {text:?} must be an address and a port, such as 127.0.0.1:8440"))
    })
}

/// Refuses to tell satellites to go to an address that is none.
fn reachable(key: &str, listen: SocketAddr, url: Option<&str>) -> Result<(), ConfigError> {
    if listen.ip().is_unspecified() && url.is_none() {
        return Err(ConfigError(format!(
            "{key}: is missing; satellites cannot reach {listen}, say under which URL they can, such as https://wardroom.example"
        )));
    }
    Ok(())
}

/// Nothing at all would mean never.
fn at_least_one(key: &str, value: u64) -> Result<u64, ConfigError> {
    if value == 0 { Err(ConfigError(format!("{key}: must be at least 1"))) } else { Ok(value) }
}

fn minutes(key: &str, value: u64) -> Result<Duration, ConfigError> {
    Ok(Duration::from_secs(at_least_one(key, value)?.saturating_mul(60)))
}

#[cfg(test)]
mod tests {
    use super::{DEFAULT, Sources, apart, print, resolve};

    #[test]
    fn what_is_printed_gives_the_same_configuration() {
        let given =
            Sources { environment: vec![("WARDROOM_LIMITS_READ".into(), "7".into())], ..Sources::default() };
        assert_eq!(print(&Sources::default()).unwrap(), DEFAULT);
        let again = Sources { file: Some(print(&given).unwrap()), ..Sources::default() };
        assert_eq!(format!("{:?}", resolve(&again).unwrap()), format!("{:?}", resolve(&given).unwrap()));
    }

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
            let (first, second) = (Some(one.parse().unwrap()), Some(two.parse().unwrap()));
            for listeners in [[("a", first), ("b", second)], [("a", second), ("b", first)]] {
                assert_eq!(apart(&listeners).is_ok(), expected, "{one} and {two}");
            }
        }
    }

    #[test]
    fn a_variable_of_a_section_must_be_one_of_its_keys() {
        let named =
            |name: &str| Sources { environment: vec![(name.into(), "1".into())], ..Sources::default() };
        assert!(resolve(&named("WARDROOM_LIMITS_REED")).unwrap_err().0.contains("WARDROOM_LIMITS_REED"));
        for other in ["WARDROOM_SERVER_URL", "WARDROOM_TOKEN_FILE", "WARDROOM_BLESS"] {
            assert!(resolve(&named(other)).is_ok(), "{other}");
        }
    }
}

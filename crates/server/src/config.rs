//! Configuration: raw values laid over each other, then resolved once.
//!
//! Default < file < environment < flags. After [`resolve`] nothing is parsed, defaulted or checked again.

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use ipnet::IpNet;
use serde::Deserialize;
use toml::{Table, Value};
use wardroom_store::Location;

use crate::liveness;

pub mod gpu_nodes;
pub mod upstreams;

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
    /// How long a registration token is valid.
    pub token: Duration,
    /// How long a re-enabled satellite may exchange its old credential.
    pub refresh: Duration,
    /// How long effects are kept that are done.
    pub effects_kept: Duration,
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
}

/// Lays the sources over the default and resolves the result.
///
/// # Errors
/// What is wrong, with the key it is about.
pub fn resolve(sources: &Sources) -> Result<Config, ConfigError> {
    let raw: Raw = serde_path_to_error::deserialize(Value::Table(merged(sources)?))
        .map_err(|error| ConfigError(format!("{}: {}", error.path(), error.inner().message())))?;
    raw.resolve()
}

/// The configuration in force as a file with the comments of the default, without passwords.
///
/// # Errors
/// What is wrong, with the key it is about.
pub fn print(sources: &Sources) -> Result<String, ConfigError> {
    let table = merged(sources)?;
    let mut section = "";
    let mut printed = String::new();
    for line in DEFAULT.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
        }
        let key = line.split_once(" = ").map(|(key, _)| key).filter(|key| !key.starts_with('#'));
        let value = key.and_then(|key| Some((key, table.get(section)?.get(key)?)));
        match value {
            Some((key, Value::String(text))) if key.ends_with("_url") => {
                printed.push_str(&format!("{key} = {}\n", Value::String(redacted(text))));
            }
            Some((key @ "password", Value::String(text))) if !text.is_empty() => {
                printed.push_str(&format!("{key} = \"***\"\n"));
            }
            Some((key, value)) => printed.push_str(&format!("{key} = {value}\n")),
            None => printed.push_str(&format!("{line}\n")),
        }
    }
    Ok(printed)
}

/// A URL without its password, wherever it is: before the host or among the parameters.
fn redacted(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let rest = match rest.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((user, _)) => format!("{user}:***@{host}"),
            None => rest.to_owned(),
        },
        None => rest.to_owned(),
    };
    let hidden = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if name.contains("password") => format!("{name}=***"),
        Some(_) | None => pair.to_owned(),
    };
    let query = query.map(|query| query.split('&').map(hidden).collect::<Vec<_>>().join("&"));
    format!("{scheme}://{rest}{}", query.map_or_else(String::new, |query| format!("?{query}")))
}

fn merged(sources: &Sources) -> Result<Table, ConfigError> {
    let mut table = parse(DEFAULT, "the built-in default")?;
    if let Some(file) = &sources.file {
        overlay(&mut table, parse(file, "the configuration file")?)?;
    }
    for (name, value) in &sources.environment {
        if let Some((section, key)) = environment_key(&table, name)? {
            set(&mut table, &section, &key, value, name)?;
        }
    }
    for (key, value) in &sources.flags {
        let (section, key) = key.split_once('.').ok_or_else(|| ConfigError(format!("flag {key}")))?;
        set(&mut table, section, key, value, key)?;
    }
    Ok(table)
}

fn parse(text: &str, source: &str) -> Result<Table, ConfigError> {
    text.parse().map_err(|error: toml::de::Error| ConfigError(format!("{source} is not TOML: {error}")))
}

/// Only keys that the default has exist: a typing error is an error.
fn overlay(table: &mut Table, over: Table) -> Result<(), ConfigError> {
    for (section, values) in over {
        let Value::Table(values) = values else {
            return Err(ConfigError(format!("{section}: is a section, write [{section}]")));
        };
        let known = table.get_mut(&section).and_then(Value::as_table_mut);
        let known = known.ok_or_else(|| ConfigError(format!("[{section}]: no such section")))?;
        for (key, value) in values {
            let default = known.get(&key);
            let default = default.ok_or_else(|| ConfigError(format!("{section}.{key}: no such key")))?;
            if !default.same_type(&value) {
                let (wanted, given) = (default.type_str(), value.type_str());
                return Err(ConfigError(format!(
                    "{section}.{key}: is of type {given}, must be of type {wanted}"
                )));
            }
            known.insert(key, value);
        }
    }
    Ok(())
}

/// Looks like a key of the section `server`, but says where clients find one.
const OF_CLIENTS: &str = "WARDROOM_SERVER_URL";

/// A variable that names a section must also name a key of it: a typing error is an error.
fn environment_key(table: &Table, name: &str) -> Result<Option<(String, String)>, ConfigError> {
    let Some(rest) = name.strip_prefix("WARDROOM_").filter(|_| name != OF_CLIENTS) else { return Ok(None) };
    let rest = rest.to_lowercase();
    let in_section =
        |section: &String| Some(rest.strip_prefix(section.as_str())?.strip_prefix('_')?.to_owned());
    let Some((section, key)) = table.keys().find_map(|section| Some((section.clone(), in_section(section)?)))
    else {
        return Ok(None);
    };
    let known = table.get(&section).and_then(Value::as_table).is_some_and(|keys| keys.contains_key(&key));
    if known {
        Ok(Some((section, key)))
    } else {
        Err(ConfigError(format!("{name}: no such key in [{section}]")))
    }
}

/// Reads a text as the type that the default has; a list is separated by commas.
fn set(table: &mut Table, section: &str, key: &str, text: &str, source: &str) -> Result<(), ConfigError> {
    let wrong = |wanted: &str| ConfigError(format!("{source}: {text:?} must be {wanted}"));
    let slot = table.get_mut(section).and_then(Value::as_table_mut).and_then(|keys| keys.get_mut(key));
    let slot = slot.ok_or_else(|| ConfigError(format!("{source}: no such key")))?;
    *slot = match slot {
        Value::Boolean(_) => Value::Boolean(text.parse().map_err(|_| wrong("true or false"))?),
        Value::Integer(_) => Value::Integer(text.parse().map_err(|_| wrong("a whole number"))?),
        Value::Array(_) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Value::Array(items.map(|item| Value::String(item.to_owned())).collect())
        }
        Value::String(_) | Value::Float(_) | Value::Datetime(_) | Value::Table(_) => {
            Value::String(text.to_owned())
        }
    };
    Ok(())
}

#[derive(Deserialize)]
struct Raw {
    server: RawServer,
    boot: RawBoot,
    nodes: RawNodes,
    satellites: RawSatellites,
    gpu_nodes: gpu_nodes::RawGpuNodes,
    limits: Limits,
    liveness: liveness::RawSettings,
    audit: RawAudit,
    harbor: upstreams::RawHarbor,
    registry: upstreams::RawRegistry,
    spire: upstreams::RawSpire,
    spiffe: upstreams::RawSpiffe,
    log: RawLog,
}

#[derive(Deserialize)]
struct RawServer {
    listen: String,
    data_dir: String,
    database_url: String,
    tls_certificate: String,
    tls_key: String,
    insecure_http: bool,
    key_file: String,
    request_timeout_seconds: u64,
    shutdown_seconds: u64,
}

#[derive(Deserialize)]
struct RawBoot {
    listen: String,
    networks: Vec<String>,
    base_url: String,
    require_install_token: bool,
    install_token_minutes: u64,
}

#[derive(Deserialize)]
struct RawNodes {
    discover: bool,
    discover_per_minute: u32,
    discover_max: i64,
    install_patience_minutes: u64,
}

#[derive(Deserialize)]
struct RawSatellites {
    url: String,
    token_minutes: u64,
    refresh_minutes: u64,
    effects_kept_hours: u64,
}

#[derive(Deserialize)]
struct RawAudit {
    checkpoint_seconds: u64,
}

#[derive(Deserialize)]
struct RawLog {
    level: String,
    format: String,
}

impl Raw {
    fn resolve(self) -> Result<Config, ConfigError> {
        let Self {
            server,
            boot,
            nodes,
            satellites,
            gpu_nodes,
            limits,
            liveness,
            audit,
            harbor,
            registry,
            spire,
            spiffe,
            log,
        } = self;
        let harbor = harbor.resolve()?;
        let registry = registry.resolve(harbor.as_ref())?;
        let spire = spire.resolve()?;
        let spiffe = spiffe.resolve(spire.as_ref())?;
        let listen = address("server.listen", &server.listen)?;
        let tls = tls(&server)?;
        if tls.is_none() && !listen.ip().is_loopback() && !server.insecure_http {
            return Err(ConfigError(format!(
                "server.listen: {listen} is not loopback; set server.tls_certificate and server.tls_key, or server.insecure_http (--insecure-http)"
            )));
        }
        let data_dir = PathBuf::from(&server.data_dir);
        let location = location(server.database_url, &data_dir)?;
        let key_file =
            if server.key_file.is_empty() { data_dir.join("server.key") } else { server.key_file.into() };
        at_least_one(&[
            ("server.request_timeout_seconds", server.request_timeout_seconds),
            ("boot.install_token_minutes", boot.install_token_minutes),
            ("nodes.install_patience_minutes", nodes.install_patience_minutes),
            ("satellites.token_minutes", satellites.token_minutes),
            ("satellites.refresh_minutes", satellites.refresh_minutes),
            ("audit.checkpoint_seconds", audit.checkpoint_seconds),
        ])?;
        let log_json = log.is_json()?;
        let boot_networks = networks(&boot.networks)?;
        let boot_url = (!boot.base_url.is_empty()).then(|| boot.base_url.trim_end_matches('/').to_owned());
        let boot_listen = boot_listen(&boot.listen, boot_url.as_deref())?;
        let test_clock =
            (!liveness.test_clock_file.is_empty()).then(|| liveness.test_clock_file.clone().into());
        let liveness =
            liveness.resolve(matches!(location, Location::Postgres { .. })).map_err(ConfigError)?;
        Ok(Config {
            listen,
            data_dir,
            location,
            tls,
            key_file,
            request_timeout: Duration::from_secs(server.request_timeout_seconds),
            shutdown: Duration::from_secs(server.shutdown_seconds),
            boot: boot_listen,
            boot_networks,
            boot_url,
            require_install_token: boot.require_install_token,
            install_token: Duration::from_secs(boot.install_token_minutes.saturating_mul(60)),
            discovery: Discovery {
                enabled: nodes.discover,
                per_minute: nodes.discover_per_minute,
                max: nodes.discover_max,
            },
            install_patience: Duration::from_secs(nodes.install_patience_minutes.saturating_mul(60)),
            satellites: satellites.resolve()?,
            gpu_nodes: gpu_nodes.resolve()?,
            limits,
            liveness,
            test_clock,
            checkpoint: Duration::from_secs(audit.checkpoint_seconds),
            harbor,
            registry,
            spire,
            spiffe,
            log_level: log.level,
            log_json,
        })
    }
}

fn at_least_one(values: &[(&str, u64)]) -> Result<(), ConfigError> {
    match values.iter().find(|(_, value)| *value == 0) {
        Some((key, _)) => Err(ConfigError(format!("{key}: must be at least 1"))),
        None => Ok(()),
    }
}

impl RawSatellites {
    fn resolve(self) -> Result<Satellites, ConfigError> {
        if self.effects_kept_hours == 0 {
            return Err(ConfigError("satellites.effects_kept_hours: must be at least 1".to_owned()));
        }
        let url = self.url.trim_end_matches('/').to_owned();
        if !url.is_empty() && !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(ConfigError(format!(
                "satellites.url: {url:?} must be a URL such as https://wardroom.example"
            )));
        }
        Ok(Satellites {
            url: (!url.is_empty()).then_some(url),
            token: Duration::from_secs(self.token_minutes.saturating_mul(60)),
            refresh: Duration::from_secs(self.refresh_minutes.saturating_mul(60)),
            effects_kept: Duration::from_secs(self.effects_kept_hours.saturating_mul(3600)),
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

impl RawLog {
    fn is_json(&self) -> Result<bool, ConfigError> {
        match self.format.as_str() {
            "json" => Ok(true),
            "text" => Ok(false),
            other => Err(ConfigError(format!("log.format: {other:?} must be text or json"))),
        }
    }
}

fn address(key: &str, text: &str) -> Result<SocketAddr, ConfigError> {
    text.parse().map_err(|_| {
        ConfigError(format!("{key}: {text:?} must be an address and a port, such as 127.0.0.1:8440"))
    })
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

fn networks(texts: &[String]) -> Result<Vec<IpNet>, ConfigError> {
    let network = |text: &String| {
        text.parse().map_err(|_| {
            ConfigError(format!("boot.networks: {text:?} must be a network, such as 10.0.0.0/8"))
        })
    };
    texts.iter().map(network).collect()
}

#[cfg(test)]
mod tests {
    use super::{DEFAULT, Sources, print, redacted, resolve};

    #[test]
    fn passwords_are_not_shown() {
        let check = |url: &str, expected: &str| assert_eq!(redacted(url), expected);
        check("postgres://me:secret@db:5432/w", "postgres://me:***@db:5432/w");
        check("postgres://me:se@cr:et@db/w?sslmode=require", "postgres://me:***@db/w?sslmode=require");
        check("postgres://db/w?user=me&password=secret", "postgres://db/w?user=me&password=***");
        check("postgres://db/w", "postgres://db/w");
        check("", "");
    }

    #[test]
    fn what_is_printed_gives_the_same_configuration() {
        let given =
            Sources { environment: vec![("WARDROOM_LIMITS_READ".into(), "7".into())], ..Sources::default() };
        assert_eq!(print(&Sources::default()).unwrap(), DEFAULT);
        let again = Sources { file: Some(print(&given).unwrap()), ..Sources::default() };
        assert_eq!(format!("{:?}", resolve(&again).unwrap()), format!("{:?}", resolve(&given).unwrap()));
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

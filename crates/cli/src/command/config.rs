//! `wardroom config`.

use clap::Subcommand;
use wardroom_server::{
    config::{self, Config as Resolved},
    maintenance::Location,
};

use super::serve::Settings;
use crate::output;

/// Checks and shows the configuration of the server.
#[derive(Subcommand)]
pub(crate) enum Config {
    /// Says whether a server could start with this configuration.
    Check(Settings),
    /// Writes the default with its comments: a file to start from.
    Default,
    /// Writes the configuration in force, without passwords.
    Print(Settings),
}

impl Config {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Check(settings) => {
                settings.resolve()?;
                output::line("the configuration is good")
            }
            Self::Default => output::print(config::DEFAULT),
            Self::Print(settings) => output::print(&toml(&settings.resolve()?)),
        }
    }
}

/// The configuration as a file that gives the same one, but for the password.
fn toml(config: &Resolved) -> String {
    let (certificate, key) = config.tls.clone().unwrap_or_default();
    let url = match &config.location {
        Location::Sqlite { .. } => String::new(),
        Location::Postgres { url } => redacted(url),
    };
    let insecure = config.tls.is_none() && !config.listen.ip().is_loopback();
    let boot = config.boot.map(|boot| boot.to_string()).unwrap_or_default();
    let networks: Vec<_> = config.boot_networks.iter().map(ToString::to_string).collect();
    let (discovery, limits) = (&config.discovery, &config.limits);
    let minutes = |duration: std::time::Duration| (duration.as_secs() / 60).to_string();
    let seconds = |duration: std::time::Duration| duration.as_secs().to_string();
    #[rustfmt::skip]
    let sections: &[(&str, &[(&str, String)])] = &[
        ("server", &[
            ("listen", quoted(config.listen)),
            ("data_dir", quoted(config.data_dir.display())),
            ("database_url", quoted(url)),
            ("tls_certificate", quoted(certificate.display())),
            ("tls_key", quoted(key.display())),
            ("insecure_http", insecure.to_string()),
            ("key_file", quoted(config.key_file.display())),
            ("request_timeout_seconds", seconds(config.request_timeout)),
            ("shutdown_seconds", seconds(config.shutdown)),
        ]),
        ("boot", &[
            ("listen", quoted(boot)),
            ("networks", format!("[{}]", networks.iter().map(quoted).collect::<Vec<_>>().join(", "))),
            ("base_url", quoted(config.boot_url.as_deref().unwrap_or_default())),
            ("require_install_token", config.require_install_token.to_string()),
            ("install_token_minutes", minutes(config.install_token)),
        ]),
        ("nodes", &[
            ("discover", discovery.enabled.to_string()),
            ("discover_per_minute", discovery.per_minute.to_string()),
            ("discover_max", discovery.max.to_string()),
            ("install_patience_minutes", minutes(config.install_patience)),
        ]),
        ("limits", &[
            ("read", limits.read.to_string()),
            ("write", limits.write.to_string()),
            ("report", limits.report.to_string()),
            ("anonymous", limits.anonymous.to_string()),
        ]),
        ("audit", &[("checkpoint_seconds", seconds(config.checkpoint))]),
        ("log", &[
            ("level", quoted(&config.log_level)),
            ("format", quoted(if config.log_json { "json" } else { "text" })),
        ]),
    ];
    let section = |(name, keys): &(&str, &[(&str, String)])| {
        let keys: String = keys.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        format!("[{name}]\n{keys}")
    };
    sections.iter().map(section).collect::<Vec<_>>().join("\n")
}

/// A text as TOML reads it; the escapes of JSON are among those of TOML.
fn quoted(text: impl ToString) -> String {
    serde_json::Value::String(text.to_string()).to_string()
}

/// A URL without its password, wherever it is: before the host or among the parameters.
fn redacted(url: &str) -> String {
    let (start, query) = url.split_once('?').map_or((url, None), |(start, query)| (start, Some(query)));
    let (scheme, rest) = start.split_once("://").unwrap_or(("", start));
    let rest = match rest.rsplit_once('@') {
        Some((user, host)) => format!("{}:***@{host}", user.split(':').next().unwrap_or_default()),
        None => rest.to_owned(),
    };
    let hidden = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if name.contains("password") => format!("{name}=***"),
        Some(_) | None => pair.to_owned(),
    };
    let query = query.map(|query| query.split('&').map(hidden).collect::<Vec<_>>().join("&"));
    format!("{scheme}://{rest}{}", query.map_or_else(String::new, |query| format!("?{query}")))
}

#[cfg(test)]
mod tests {
    use wardroom_server::config::{self, Sources};

    use super::{redacted, toml};

    #[test]
    fn passwords_are_not_shown() {
        let check = |url: &str, expected: &str| assert_eq!(redacted(url), expected);
        check("postgres://me:secret@db:5432/w", "postgres://me:***@db:5432/w");
        check("postgres://me:se@cr:et@db/w?sslmode=require", "postgres://me:***@db/w?sslmode=require");
        check("postgres://db/w?user=me&password=secret", "postgres://db/w?user=me&password=***");
        check("postgres://db/w", "postgres://db/w");
    }

    #[test]
    fn what_is_printed_gives_the_same_configuration() {
        let default = config::resolve(&Sources::default()).unwrap();
        let printed = toml(&default);
        for line in config::DEFAULT.lines().filter(|line| !line.starts_with('#') && line.contains(" = ")) {
            let key = line.split(" = ").next().unwrap();
            assert!(printed.contains(&format!("\n{key} = ")), "{key} is not printed");
        }
        let again = config::resolve(&Sources { file: Some(printed), ..Sources::default() }).unwrap();
        assert_eq!(format!("{again:?}"), format!("{default:?}"));
    }
}

//! Where a store is, for commands that work on it without a server.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use wardroom_server::config::{self, Config, Sources};

/// Which store; what is not given is as for `wardroom serve`: environment, then file, then default.
#[derive(Args)]
#[command(next_help_heading = "Store")]
pub(crate) struct Place {
    /// The folder of an embedded database.
    #[arg(long, value_name = "DIR", conflicts_with = "database_url")]
    data_dir: Option<String>,
    /// postgres://…; in WARDROOM_SERVER_DATABASE_URL its password stays out of the list of processes.
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// The configuration file of the server.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Place {
    /// The configuration of a server on this store.
    pub(crate) fn resolve(&self, key_file: Option<&str>) -> anyhow::Result<Config> {
        let mut flags = Vec::new();
        if let Some(dir) = &self.data_dir {
            // A folder that was asked for is not overruled by a URL in the environment.
            flags.extend([("server.data_dir", dir.clone()), ("server.database_url", String::new())]);
        }
        if let Some(url) = &self.database_url {
            flags.push(("server.database_url", url.clone()));
        }
        if let Some(path) = key_file {
            flags.push(("server.key_file", path.to_owned()));
        }
        Ok(config::resolve(&sources(self.config.as_deref(), flags)?)?)
    }
}

/// Reads file and environment, and puts flags beside them.
pub(crate) fn sources(file: Option<&Path>, flags: Vec<(&'static str, String)>) -> anyhow::Result<Sources> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    let file = file.map(read).transpose()?;
    // What is not Unicode is not for us.
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let environment = variables.filter(|(name, _)| name.starts_with("WARDROOM_")).collect();
    Ok(Sources { file, environment, flags })
}

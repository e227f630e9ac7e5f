//! The location of a store, for commands that work without a server.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::Args;
use wardroom_server::{
    maintenance::{Error, Location},
    platform::config::{self, Config, Sources},
};

use crate::exit::{Code, failure};

/// Which store. Options not given are as for `wardroom serve`: environment, then file, then default.
#[derive(Args)]
pub(crate) struct Place {
    /// The folder of an embedded database.
    #[arg(help_heading = "Store", long, value_name = "DIR", conflicts_with = "database_url")]
    data_dir: Option<String>,
    /// postgres://…; use WARDROOM_SERVER_DATABASE_URL to keep its password out of the list of processes.
    #[arg(help_heading = "Store", long, value_name = "URL")]
    database_url: Option<String>,
    /// The configuration file of the server.
    #[arg(help_heading = "Store", long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Place {
    /// The configuration of a server on this store.
    pub(crate) fn resolve(&self, key_file: Option<&str>) -> anyhow::Result<Config> {
        let mut flags = Vec::new();
        if let Some(dir) = &self.data_dir {
            // A folder given here wins over a URL in the environment.
            flags.extend([("server.data_dir", dir.clone()), ("server.database_url", String::new())]);
        }
        if let Some(url) = &self.database_url {
            flags.push(("server.database_url", url.clone()));
        }
        if let Some(path) = key_file {
            flags.push(("server.key_file", path.to_owned()));
        }
        Ok(config::resolve(&sources(self.config.as_deref(), flags)?, wardroom_server::KINDS)?)
    }
}

/// Turns an error of a store into a failure with a next step.
pub(crate) fn hindered(config: &Config, error: Error) -> anyhow::Error {
    if matches!(error, Error::NotEmpty) {
        let target = match &config.location {
            Location::Sqlite { dir } => dir.display().to_string(),
            Location::Postgres { .. } => "the database".to_owned(),
        };
        let next = "restore into an empty store: choose another with --data-dir or --database-url";
        return failure(Code::Failed, format!("{target} is not empty\nnext: {next}"));
    }
    let Error::File { path, source } = &error else { return error.into() };
    let said = if source.kind() == ErrorKind::AlreadyExists {
        format!(
            "{} already exists
next: choose another name; existing files are never replaced",
            path.display()
        )
    } else if source.kind() == ErrorKind::PermissionDenied {
        format!(
            "{error}
next: run this command as the user of the server"
        )
    } else if source.kind() == ErrorKind::NotFound && path.starts_with(&config.data_dir) {
        let next = "give the location of the server's data: --data-dir, --database-url or --config";
        format!("{error}\nnext: {next}")
    } else {
        return error.into();
    };
    failure(Code::Failed, said)
}

/// Reads file and environment, and puts flags beside them.
pub(crate) fn sources(file: Option<&Path>, flags: Vec<(&'static str, String)>) -> anyhow::Result<Sources> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    let file_name = file.map(|path| path.display().to_string());
    let file = file.map(read).transpose()?;
    // Variables that are not Unicode are not ours.
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let environment = variables.filter(|(name, _)| name.starts_with("WARDROOM_")).collect();
    Ok(Sources { file, file_name, environment, flags })
}

//! `wardroom config`.

use clap::Subcommand;
use wardroom_server::{config, serve};

use super::serve::Settings;
use crate::output;

/// Checks and shows the configuration of the server.
#[derive(Subcommand)]
pub(crate) enum Config {
    /// Says whether a server could start with this configuration: values, files and the data folder.
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
                // Clients of upstreams are made where they could work, though they do not.
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                let _inside = runtime.enter();
                serve::check(&settings.resolve()?)?;
                output::line("the configuration is good")
            }
            Self::Default => output::print(config::DEFAULT),
            Self::Print(settings) => output::print(&config::print(&settings.sources()?)?),
        }
    }
}

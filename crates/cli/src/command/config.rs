//! `wardroom config`.

use clap::Subcommand;
use wardroom_server::{platform::config, serve};

use super::serve::Settings;
use crate::output;

/// Checks and shows the configuration of the server.
#[derive(Subcommand)]
pub(crate) enum Config {
    /// Checks whether a server can start with this configuration: values, files and the data folder.
    Check(Settings),
    /// Writes the default configuration with its comments.
    Default,
    /// Writes the resulting configuration, without passwords.
    Print(Settings),
}

impl Config {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Check(settings) => {
                // This builds the clients of upstreams but does not call them.
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

//! `wardroom create satellite-config`.

use clap::Args;
use wardroom_api::satellite_config::ConfigSpec;

use crate::{
    connection::Connection,
    document,
    kind::Kind,
    view::{Made, print_made},
};

/// Creates a satellite config, from a file with its settings or from a complete document.
#[derive(Args)]
pub(crate) struct SatelliteConfig {
    /// The name: lower case letters and digits, with single '.', '_' or '-' between them.
    #[arg(required_unless_present = "file")]
    name: Option<String>,
    /// A file as for `wardroom apply`; - for standard input.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["name", "settings", "registry"])]
    file: Option<String>,
    /// A file with the settings that satellites read, YAML or JSON; - for standard input.
    #[arg(long, value_name = "FILE", required_unless_present = "file")]
    settings: Option<String>,
    /// The registry that satellites replicate from, for display; the settings decide.
    #[arg(long, value_name = "URL")]
    registry: Option<String>,
    #[command(flatten)]
    made: Made,
    #[command(flatten)]
    connection: Connection,
}

impl SatelliteConfig {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let spec = match (&self.file, &self.settings) {
            (Some(file), _) => {
                let document = document::read_one(file, Kind::SatelliteConfig)?;
                document::spec(document::rename(document, "config_name"))?
            }
            (None, settings) => ConfigSpec {
                config_name: self.name.unwrap_or_default(),
                registry: self.registry,
                config: settings.as_deref().map(document::settings).transpose()?.unwrap_or_default(),
            },
        };
        print_made(&self.made, &self.connection.client()?.create_satellite_config(&spec).await?)
    }
}

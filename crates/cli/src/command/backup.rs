//! `wardroom backup`.

use std::path::PathBuf;

use clap::Args;
use wardroom_server::maintenance;

use crate::{
    output,
    place::{Place, hindered},
};

/// Writes a backup to one file, also while servers run.
#[derive(Args)]
pub(crate) struct Backup {
    /// The file to write; it must not exist yet.
    to: PathBuf,
    #[command(flatten)]
    place: Place,
}

impl Backup {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let config = self.place.resolve(None)?;
        maintenance::backup(&config, &self.to).await.map_err(|error| hindered(&config, error))?;
        output::line(&format!("backup written to {}", self.to.display()))?;
        let (key, secrets) = (config.key_file.display(), config.secrets.directory.display());
        output::note(&format!("keep {key} and {secrets} too: the backup does not contain them"));
        Ok(())
    }
}

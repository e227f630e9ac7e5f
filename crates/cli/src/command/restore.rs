//! `wardroom restore`.

use std::path::PathBuf;

use clap::Args;
use wardroom_server::maintenance;

use crate::{
    bar, output,
    place::{Place, hindered},
};

/// Restores a backup into an empty store that no server uses.
#[derive(Args)]
pub(crate) struct Restore {
    /// The backup.
    from: PathBuf,
    #[command(flatten)]
    place: Place,
}

impl Restore {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let config = self.place.resolve(None)?;
        let work = maintenance::restore(&self.from, &config);
        let restoring = |took| format!("restoring {}  {}", self.from.display(), bar::length(took));
        bar::while_done(work, restoring).await.map_err(|error| hindered(&config, error))?;
        output::line("the backup is restored")?;
        if !config.key_file.exists() {
            output::note(&format!(
                "copy the key of the old server to {}: this store works only with that key",
                config.key_file.display()
            ));
        }
        if !config.secrets.directory.exists() {
            output::note(&format!(
                "copy the secrets of sites and nodes into {}: a backup does not contain them",
                config.secrets.directory.display()
            ));
        }
        Ok(())
    }
}

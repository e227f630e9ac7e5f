//! `wardroom restore`.

use std::path::PathBuf;

use clap::Args;
use wardroom_server::maintenance;

use crate::{output, place::Place};

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
        maintenance::restore(&self.from, &config).await?;
        output::line("the backup is restored")?;
        if !config.key_file.exists() {
            output::note(&format!(
                "copy the key of the old server to {}: no server starts on this store with another one",
                config.key_file.display()
            ));
        }
        Ok(())
    }
}

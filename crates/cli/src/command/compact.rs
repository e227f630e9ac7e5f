//! `wardroom compact`.

use clap::Args;
use wardroom_server::maintenance;

use crate::{
    output,
    place::{Place, hindered},
};

/// Writes the database anew, so that its files have nothing of what was overwritten; no server may use it.
///
/// The file of an embedded database needs its size twice in free room meanwhile: beside itself, and in the folder for
/// temporary files (SQLITE_TMPDIR, otherwise /var/tmp). On PostgreSQL tables are locked, and servers wait.
#[derive(Args)]
pub(crate) struct Compact {
    #[command(flatten)]
    place: Place,
}

impl Compact {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let config = self.place.resolve(None)?;
        maintenance::compact(&config).await.map_err(|error| hindered(&config, error))?;
        output::line("the database is written anew")
    }
}

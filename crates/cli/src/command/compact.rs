//! `wardroom compact`.

use clap::Args;
use wardroom_server::maintenance;

use crate::{
    output,
    place::{Place, hindered},
};

/// Writes the database anew, so that its files have nothing of what was overwritten; no server may use it.
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

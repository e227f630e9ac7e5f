//! `wardroom audit`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use wardroom_server::maintenance::{self, Checkpoint, Verified};

use crate::{
    bar,
    exit::{Code, failure},
    output,
    place::{Place, hindered},
    text,
};

/// Verifies history, and exports its checkpoints.
#[derive(Subcommand)]
pub(crate) enum Audit {
    /// Checks all of history and names the first row that was altered; works beside a running server.
    Verify(Verify),
    /// Writes the signed checkpoints as JSON lines; kept elsewhere, they reveal rows that the database lost.
    Export(Export),
}

#[derive(Args)]
pub(crate) struct Verify {
    /// The key of the server; default: the one in the data folder, if it can be read.
    #[arg(long, value_name = "FILE")]
    key_file: Option<String>,
    /// Checkpoints that were exported before.
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
pub(crate) struct Export {
    #[command(flatten)]
    place: Place,
}

impl Audit {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Verify(verify) => verify.run().await,
            Self::Export(export) => export.run().await,
        }
    }
}

impl Verify {
    async fn run(self) -> anyhow::Result<()> {
        let config = self.place.resolve(self.key_file.as_deref())?;
        let exported = self.checkpoint.as_deref().map_or_else(|| Ok(Vec::new()), read)?;
        let Verified { report, unsigned } =
            bar::while_done(maintenance::verify(&config, &exported), |took| {
                format!("verifying history  {}", bar::length(took))
            })
            .await
            .map_err(|error| hindered(&config, error))?;
        if let Some(fault) = report.fault {
            return Err(failure(Code::Failed, format!("history was altered: {fault}")));
        }
        if let Some(reason) = unsigned {
            if self.key_file.is_some() {
                return Err(failure(Code::Failed, format!("cannot check signatures: {reason}")));
            }
            output::note(&format!("signatures were not checked: {reason}"));
        }
        let (rows, resources) = (text::count(report.rows, "row"), text::count(report.resources, "resource"));
        let checkpoints = text::count(report.checkpoints, "checkpoint");
        output::line(&format!("history is good: {rows} of {resources}, {checkpoints}"))?;
        let open = report.rows - report.sealed_rows;
        if open > 0 {
            let open = text::count(open, "row");
            output::note(&format!(
                "{open} newer than the last checkpoint; a cut among them would not be noticed"
            ));
        }
        Ok(())
    }
}

impl Export {
    async fn run(self) -> anyhow::Result<()> {
        let config = self.place.resolve(None)?;
        let checkpoints =
            maintenance::checkpoints(&config).await.map_err(|error| hindered(&config, error))?;
        checkpoints.iter().try_for_each(output::json_line)
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<Checkpoint>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let checkpoint = |(number, line): (usize, &str)| {
        serde_json::from_str(line)
            .with_context(|| format!("{}: line {} is no checkpoint", path.display(), number + 1))
    };
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(checkpoint).collect()
}

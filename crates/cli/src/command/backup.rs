//! `wardroom backup`.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use wardroom_server::maintenance;

use crate::{
    bar, output,
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
        let work = maintenance::backup(&config, &self.to);
        let written = |took: Duration| {
            let bytes = partial_size(&self.to);
            let rate = bytes / took.as_secs().max(1);
            format!("backup  {} written, {} a second  {}", size(bytes), size(rate), bar::length(took))
        };
        bar::while_done(work, written).await.map_err(|error| hindered(&config, error))?;
        output::line(&format!("backup written to {}", self.to.display()))?;
        let (key, secrets) = (config.key_file.display(), config.secrets.directory.display());
        output::note(&format!("keep {key} and {secrets} too: the backup does not contain them"));
        Ok(())
    }
}

/// How much was written so far: a backup grows beside its target, and takes its name when it is complete.
fn partial_size(to: &Path) -> u64 {
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let start = format!("{}.{}-", to.file_name().unwrap_or_default().display(), std::process::id());
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&start));
    ours.find_map(|entry| entry.metadata().ok()).map_or(0, |found| found.len())
}

fn size(bytes: u64) -> String {
    match bytes {
        ..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::{partial_size, size};

    #[test]
    fn what_is_written_so_far_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("all.backup");
        assert_eq!(partial_size(&to), 0);
        let partial = dir.path().join(format!("all.backup.{}-0.partial", std::process::id()));
        std::fs::write(partial, [0; 12_345]).unwrap();
        assert_eq!((partial_size(&to), size(12_345)), (12_345, "12 kB".to_owned()));
    }
}

//! `wardroom man`.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, CommandFactory as _};

use crate::{arguments::Arguments, output};

/// Writes the manual pages of every command into a folder. For example: wardroom man share/man/man1
#[derive(Args)]
pub(crate) struct Man {
    /// The folder; it is created.
    folder: PathBuf,
}

impl Man {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let shown = self.folder.display();
        std::fs::create_dir_all(&self.folder).with_context(|| format!("cannot create {shown}"))?;
        let written = clap_mangen::generate_to(Arguments::command(), &self.folder);
        written.with_context(|| format!("cannot write into {shown}"))?;
        output::note(&format!("read them with: man {shown}/wardroom.1"));
        Ok(())
    }
}

//! Secrets that the server shows once: alone on standard output, or in a file that only its owner can read.

use std::{
    fs::File,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::Args;

use crate::output;

/// `--secret-file`.
#[derive(Args)]
pub(crate) struct SecretFile {
    /// Write the secret into this new file, which only its owner can read.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
}

impl SecretFile {
    /// Opens the file before the secret is requested: a secret that cannot be written is lost.
    pub(crate) fn open(&self) -> anyhow::Result<Paper> {
        let Some(path) = &self.secret_file else { return Ok(Paper(None)) };
        Ok(Paper(Some((path.clone(), private(path)?))))
    }

    /// Whether a file was asked for.
    pub(crate) fn is_given(&self) -> bool {
        self.secret_file.is_some()
    }
}

/// The target of a secret. A file that gets no secret is removed again.
pub(crate) struct Paper(Option<(PathBuf, File)>);

impl Paper {
    /// Writes a secret, and nothing else.
    pub(crate) fn write(mut self, secret: &str) -> anyhow::Result<()> {
        match self.0.take() {
            Some((_, mut file)) => Ok(writeln!(file, "{secret}")?),
            None => output::line(secret),
        }
    }
}

impl Drop for Paper {
    fn drop(&mut self) {
        if let Some((path, _)) = self.0.take() {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Writes a secret into a new file that only its owner can read.
pub(crate) fn write_new(path: &Path, secret: &str) -> anyhow::Result<()> {
    Ok(writeln!(private(path)?, "{secret}")?)
}

/// A new file that only its owner can read.
fn private(path: &Path) -> anyhow::Result<File> {
    let opened = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    opened.with_context(|| match path.exists() {
        true => {
            format!("nothing was done: {} already exists; name another file, or remove it", path.display())
        }
        false => format!("nothing was done: cannot create {}", path.display()),
    })
}

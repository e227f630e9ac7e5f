//! All output goes through here: results to standard output, everything else to standard error.

use std::io::{IsTerminal as _, Write as _};
#[cfg(target_os = "linux")]
use std::os::fd::AsFd as _;

use clap::ValueEnum;
use serde::Serialize;
#[cfg(target_os = "linux")]
use tokio::{io::Interest, net::unix::pipe::Sender};

/// How results are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// More columns.
    Wide,
    /// JSON, as the API gives it.
    Json,
    /// YAML.
    Yaml,
    /// Only kind and id.
    Name,
}

/// The formats for a resource with a secret. Shorter forms would be only the secret, or leave it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Whole {
    /// JSON, as the API gives it.
    Json,
    /// YAML.
    Yaml,
}

impl Whole {
    pub(crate) fn write(self, value: &impl Serialize) -> anyhow::Result<()> {
        match self {
            Self::Json => json(value),
            Self::Yaml => yaml(value),
        }
    }
}

/// Writes a text as it is.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Writes a line.
pub(crate) fn line(text: &str) -> anyhow::Result<()> {
    print(&format!("{text}\n"))
}

/// Writes a value as indented JSON.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(&serde_json::to_string_pretty(value)?)
}

/// Writes a value as JSON in one line, for streams.
pub(crate) fn json_line(value: &impl Serialize) -> anyhow::Result<()> {
    line(&serde_json::to_string(value)?)
}

/// Writes a value as a YAML document.
pub(crate) fn yaml(value: &impl Serialize) -> anyhow::Result<()> {
    print(&serde_saphyr::to_string(value)?)
}

/// Waits, and fails with a broken pipe once standard output has no reader any more.
pub(crate) async fn while_read<T>(wait: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::select! {
        waited = wait => waited,
        () = unread() => Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into()),
    }
}

/// Waits until the reader of standard output is gone, as `head` is after its lines. A file has none: then this never ends.
async fn unread() {
    // Only polled, never written to: the descriptor need not be set to non-blocking.
    #[cfg(target_os = "linux")]
    if let Ok(out) = std::io::stdout().as_fd().try_clone_to_owned()
        && let Ok(out) = Sender::from_owned_fd_unchecked(out)
        && out.ready(Interest::ERROR).await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// Writes a message to standard error, and ignores a failure: the command continues.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Asks on the terminal; returns nothing if there is none.
pub(crate) fn confirm(question: &str) -> Option<bool> {
    if !std::io::stdin().is_terminal() {
        return None;
    }
    let mut errors = std::io::stderr().lock();
    let _ = write!(errors, "{question} [y/N] ");
    let _ = errors.flush();
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    Some(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}

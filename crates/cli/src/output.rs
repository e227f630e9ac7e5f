//! The one place that writes: results to standard output, everything else to standard error.

#[cfg(target_os = "linux")]
use std::os::fd::AsFd as _;
use std::{
    ffi::OsString,
    io::{IsTerminal as _, Write as _},
};

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

/// How all of something is written that has a secret: a shorter form would be the secret, or lack it.
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

/// What comes of waiting, unless nobody reads any more what would be written then.
pub(crate) async fn while_read<T>(wait: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::select! {
        waited = wait => waited,
        () = unread() => Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into()),
    }
}

/// Waits until whoever reads has gone, as `head` has after its lines. Of a file nobody can say so, and it never comes.
async fn unread() {
    // Looked at and not written to, so that it need not be told not to block.
    #[cfg(target_os = "linux")]
    if let Ok(out) = std::io::stdout().as_fd().try_clone_to_owned()
        && let Ok(out) = Sender::from_owned_fd_unchecked(out)
        && out.ready(Interest::ERROR).await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// Says something that is not a result. Nobody may be listening; the command goes on.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Whether results may be coloured: only for people, and never when they ask for none.
pub(crate) fn is_coloured() -> bool {
    std::io::stdout().is_terminal() && takes_colours(|name| std::env::var_os(name))
}

/// Whether a terminal takes colours, and its person wants them.
fn takes_colours(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let refused = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    !refused && variable("TERM").is_none_or(|terminal| terminal != "dumb")
}

/// Asks a person who is there to answer; nobody there is a no.
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

#[cfg(test)]
mod tests {
    use super::takes_colours;

    #[test]
    fn colours_are_for_who_takes_them() {
        let with = |set: &[(&str, &str)]| {
            takes_colours(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
        };
        assert!(with(&[]) && with(&[("TERM", "xterm")]) && with(&[("NO_COLOR", "")]));
        assert!(!with(&[("NO_COLOR", "1")]));
        assert!(!with(&[("TERM", "dumb")]));
    }
}

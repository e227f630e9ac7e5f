//! The configuration: a command for each task, and health checks.

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::Context as _;
use serde::Deserialize;
use wardroom_core::gpu_node::task::Kind;

/// The configuration.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// By the name of the task, such as `"node.drain"`.
    #[serde(default)]
    pub(crate) tasks: BTreeMap<String, Command>,
    /// The health checks, reported with each heartbeat.
    #[serde(default)]
    pub(crate) checks: Vec<Check>,
}

/// A command.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Command {
    /// The program and its arguments; run without a shell.
    pub(crate) command: Vec<String>,
    /// The time limit in seconds; the task's own limit if that is shorter, or if this is absent.
    #[serde(default)]
    pub(crate) timeout_seconds: Option<u64>,
}

/// A health check: a command that exits with 0 if the check passes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Check {
    /// The name of the check.
    pub(crate) name: String,
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// The time limit in seconds.
    #[serde(default = "ten")]
    pub(crate) timeout_seconds: u64,
}

const fn ten() -> u64 {
    10
}

impl Config {
    /// Reads and validates the file before any command runs.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read --config {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{}", path.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let config: Self = toml::from_str(text)?;
        for (kind, command) in &config.tasks {
            let _: Kind = kind.parse().map_err(|error| anyhow::anyhow!("tasks.{kind:?}: {error}"))?;
            anyhow::ensure!(!command.command.is_empty(), "tasks.{kind:?}: the command is empty");
        }
        for check in &config.checks {
            anyhow::ensure!(!check.command.is_empty(), "check {:?}: the command is empty", check.name);
        }
        Ok(config)
    }

    /// Returns the command of a task, and its time limit.
    pub(crate) fn of(&self, kind: &str, limit: Duration) -> Option<(&Command, Duration)> {
        let command = self.tasks.get(kind)?;
        let own = command.timeout_seconds.map_or(limit, Duration::from_secs);
        Some((command, own.min(limit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_is_found_at_once() {
        let config =
            Config::parse("[tasks.\"node.drain\"]\ncommand = [\"drain\"]\ntimeout_seconds = 5\n").unwrap();
        let (command, limit) = config.of("node.drain", Duration::from_secs(60)).unwrap();
        assert_eq!((command.command.len(), limit), (1, Duration::from_secs(5)));
        assert!(config.of("node.uninstall", Duration::from_secs(60)).is_none());
        for wrong in [
            "[tasks.\"node.burn\"]\ncommand = [\"x\"]\n",
            "[tasks.\"node.drain\"]\ncommand = []\n",
            "[tasks.\"node.drain\"]\ncomand = [\"x\"]\n",
            "[[checks]]\nname = \"a\"\ncommand = []\n",
        ] {
            assert!(Config::parse(wrong).is_err(), "{wrong}");
        }
    }
}

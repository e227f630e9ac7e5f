//! The configuration of a device's agent.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use serde::Deserialize;

/// The configuration.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Labels that the device proposes when it enrols.
    pub(crate) labels: BTreeMap<String, String>,
    /// Where hooks are found.
    pub(crate) hooks: Hooks,
    /// How the operating system is changed.
    pub(crate) os: Os,
}

/// Where hooks are found: a folder for each hook, with files `*.yaml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Hooks {
    /// The folder of the vendor of the operating system.
    pub(crate) vendor: PathBuf,
    /// The folder of the device. A file here replaces the vendor's file of the same name.
    pub(crate) local: PathBuf,
}

impl Default for Hooks {
    fn default() -> Self {
        Self { vendor: "/usr/lib/wardroom/hooks.d".into(), local: "/etc/wardroom/hooks.d".into() }
    }
}

/// Which program changes the operating system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Driver {
    /// None: a spec with another image than the booted one is refused.
    #[default]
    None,
    /// `bootc`, with its own commands.
    Bootc,
    /// The commands of this section.
    Commands,
}

/// How the operating system is changed. Commands run without a shell.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Os {
    pub(crate) driver: Driver,
    /// Prints the image that runs.
    pub(crate) booted: Vec<String>,
    /// Makes `{image}` the image of the next boot.
    pub(crate) stage: Vec<String>,
    /// Reboots.
    pub(crate) reboot: Vec<String>,
    /// Makes the image before this one the image of the next boot.
    pub(crate) rollback: Vec<String>,
    /// Exits with 0 if the booted image is healthy. Absent: every boot is.
    pub(crate) health: Vec<String>,
    /// How long a command may take, and how long a reboot.
    pub(crate) timeout_seconds: u64,
    /// The file with the id of this boot.
    pub(crate) boot_id: PathBuf,
}

impl Default for Os {
    fn default() -> Self {
        Self {
            driver: Driver::None,
            booted: Vec::new(),
            stage: Vec::new(),
            reboot: words(&["systemctl", "reboot"]),
            rollback: Vec::new(),
            health: Vec::new(),
            timeout_seconds: 1800,
            boot_id: "/proc/sys/kernel/random/boot_id".into(),
        }
    }
}

impl Os {
    pub(crate) const fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }

    /// Fills in the commands of bootc.
    fn resolved(mut self) -> Self {
        if self.driver == Driver::Bootc {
            self.booted = words(&["bootc", "status", "--format", "json"]);
            self.stage = words(&["bootc", "switch", "{image}"]);
            self.rollback = words(&["bootc", "rollback"]);
        }
        self
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

impl Config {
    /// Reads and validates the file.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read --config {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{}", path.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut config: Self = toml::from_str(text)?;
        let os = &config.os;
        let given = [("booted", &os.booted), ("stage", &os.stage), ("rollback", &os.rollback)];
        for (name, command) in given {
            let is_commands = os.driver == Driver::Commands;
            anyhow::ensure!(!is_commands || !command.is_empty(), "os.{name}: the driver `commands` needs it");
            anyhow::ensure!(
                is_commands || command.is_empty(),
                "os.{name}: only the driver `commands` uses it; set os.driver"
            );
        }
        anyhow::ensure!(!os.reboot.is_empty(), "os.reboot: the command is empty");
        anyhow::ensure!(
            (1..=86_400).contains(&os.timeout_seconds),
            "os.timeout_seconds: expected 1 to 86400"
        );
        config.os = config.os.resolved();
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_is_found_at_once() {
        let config = Config::parse("").unwrap();
        assert_eq!((config.os.driver, config.os.reboot.len()), (Driver::None, 2));
        let bootc = Config::parse("[os]\ndriver = \"bootc\"\n").unwrap();
        assert_eq!(bootc.os.stage, ["bootc", "switch", "{image}"]);
        let commands = "[os]\ndriver = \"commands\"\nbooted = [\"b\"]\nstage = [\"s\"]\nrollback = [\"r\"]\n";
        assert_eq!(Config::parse(commands).unwrap().os.stage, ["s"]);
        for wrong in [
            "[hook]\n",
            "[os]\ndriver = \"apt\"\n",
            "[os]\ndriver = \"commands\"\nbooted = [\"b\"]\n",
            "[os]\nstage = [\"s\"]\n",
            "[os]\nreboot = []\n",
            "[os]\ntimeout_seconds = 0\n",
        ] {
            assert!(Config::parse(wrong).is_err(), "{wrong}");
        }
    }
}

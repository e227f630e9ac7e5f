//! The agent of a device: brings it to a spec, and undoes what fails.
//!
//! An update is one transaction over files and the operating system. What is stored in `--state-dir` is enough to finish or
//! undo it after a power cut, before anything else and without a server.

use std::path::PathBuf;

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};
use tokio::signal::unix::{SignalKind, signal};
use wardroom_api::device::{DeviceReport, RENDERED_VERSION, RenderedDevice};
use wardroom_core::device::update::State;

use crate::orphan;

mod clock;
mod config;
mod crash;
mod disk;
mod files;
mod hooks;
mod identity;
mod live;
mod machine;
mod monitor;
mod os;
mod reboot;
mod record;
mod report;
mod retry;
mod spec;
mod update;
mod window;

use config::Config;
use identity::Identity;
use live::Agent;
use record::{Store, Version};
use update::Updater;

/// The options of the agent.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The URL where the server listens for devices.
    #[arg(long)]
    server: String,
    /// The file with an enrolment token; needed until the device has a certificate.
    #[arg(long)]
    token_file: Option<PathBuf>,
    /// PEM certificates to trust instead of the system's.
    #[arg(long)]
    ca_file: Option<PathBuf>,
    /// The folder for the key, the certificate and all that must survive a restart.
    #[arg(long)]
    state_dir: PathBuf,
    /// The configuration, as TOML.
    #[arg(long)]
    config: PathBuf,
}

/// Runs the agent until it is stopped, refused or decommissioned.
pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let config = Config::read(&options.config)?;
    let store = Store::open(&options.state_dir)?;
    if let Some(note) = identity::decommissioned(store.dir()) {
        identity::wipe_again(store.dir())?;
        tracing::warn!("{}; remove --state-dir to enrol it as a new device", note.trim());
        return Ok(());
    }
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        ended = live(&options, &config, &store) => ended,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}

async fn live(options: &Options, config: &Config, store: &Store) -> anyhow::Result<()> {
    end_orphan(store).await;
    let updater = Updater::new(config, store);
    // An update that was interrupted comes first: it needs no server.
    updater.resume().await;
    let identity = Identity::open(store.dir())?;
    let boot_id = os::boot_id(&config.os).map_err(anyhow::Error::msg)?;
    let status = DeviceReport { system_info: report::system(&boot_id), ..DeviceReport::default() };
    identity.enrol(options, config, status).await?;
    Agent::new(options, &identity, &updater).await?.live().await
}

async fn end_orphan(store: &Store) {
    if let Err(left) = orphan::end(&store.running(), orphan::PATIENCE).await {
        tracing::error!("{left}: no command starts until it has ended");
    }
}

/// Returns a number from 0 to 1.
fn random() -> f64 {
    // Without randomness, all agents would wait as long; they would not stop.
    getrandom::u32().map_or(1.0, |number| f64::from(number) / f64::from(u32::MAX))
}

/// The options for a spec from a file.
#[derive(Debug, clap::Args)]
pub(crate) struct ApplyOptions {
    /// The device with its spec, as YAML or JSON. Absent: only finishes or undoes an interrupted update.
    #[arg(long)]
    spec: Option<PathBuf>,
    /// The folder for what must survive a restart.
    #[arg(long)]
    state_dir: PathBuf,
    /// The configuration, as TOML.
    #[arg(long)]
    config: PathBuf,
}

/// Brings the device to the spec of a file, without a server.
pub(crate) async fn apply(options: ApplyOptions) -> anyhow::Result<()> {
    let config = Config::read(&options.config)?;
    let store = Store::open(&options.state_dir)?;
    let wanted = options.spec.as_deref().map(read).transpose()?;
    end_orphan(&store).await;
    let updater = Updater::new(&config, &store);
    updater.finish().await;
    let Some(wanted) = wanted else { return Ok(()) };
    let version = wanted.version.clone();
    updater.begin(wanted).map_err(anyhow::Error::msg)?;
    updater.finish().await;
    let record = store.record();
    match &record.outcome {
        Some(outcome) if outcome.version == version && outcome.state == State::Error => anyhow::bail!(
            "version {version} failed and the device was left as before; it is not tried again: {}",
            outcome.message
        ),
        Some(_) | None => {
            tracing::info!(version, "the device runs this version");
            Ok(())
        }
    }
}

/// Reads a device from a file. A spec without a rendered version gets one from its content.
fn read(path: &std::path::Path) -> anyhow::Result<Version> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read --spec {shown}"))?;
    let device: RenderedDevice = serde_saphyr::from_str(&text).with_context(|| format!("--spec {shown}"))?;
    let spec = device.spec;
    let version = match device.metadata.annotations.get(RENDERED_VERSION) {
        Some(version) => version.clone(),
        None => {
            let hash = Sha256::digest(serde_json::to_vec(&spec)?);
            let letters: String = hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
            format!("file-{letters}")
        }
    };
    Ok(Version { version, spec })
}

#[cfg(test)]
mod tests;

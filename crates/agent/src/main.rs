//! `wardroom-agent`: runs on a member of the fleet.

mod command;
mod device;
mod folder;
mod gpu_node;
mod orphan;

use std::{io::IsTerminal as _, process::ExitCode};

use clap::{Parser, Subcommand};

/// The agent of Wardroom.
#[derive(Parser)]
#[command(name = "wardroom-agent", version)]
struct Arguments {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Subcommand)]
enum Mode {
    /// Runs the agent of a GPU node: enrols, sends heartbeats, and runs the configured command for each task.
    GpuNode(gpu_node::Options),
    /// Runs the agent of a device: enrols, brings the device to the spec that the server has for it, and reports.
    Device(device::Options),
    /// Brings a device to the spec of a file, without a server: files, operating system and hooks as one transaction.
    Apply(device::ApplyOptions),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let level = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    // Only a terminal gets colours.
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(level).with_ansi(colours).with_writer(std::io::stderr).init();
    let ended = match Arguments::parse().mode {
        Mode::GpuNode(options) => gpu_node::run(options).await,
        Mode::Device(options) => device::run(options).await,
        Mode::Apply(options) => device::apply(options).await,
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Each cause once, in one line of the journal.
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

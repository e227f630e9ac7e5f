//! `wardroom-adapter`: drives one adapter from its configuration.

mod clock;
mod command;
mod config;
#[cfg(test)]
mod contract;
mod expression;
mod flow;
mod problem;
mod run;
mod template;
mod world;
mod yaml;

use std::{io::IsTerminal as _, process::ExitCode};

use clap::{Parser, Subcommand};

/// Drives one adapter of clusters from its configuration.
#[derive(Parser)]
#[command(name = "wardroom-adapter", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Reads a configuration and names every mistake in it with file, line and column.
    Check(command::check::Options),
    /// Works on one event with recorded answers, changes nothing, and shows every step.
    DryRun(command::dry_run::Options),
    /// Follows the events of a server, brings about what clusters need, and reports their status.
    Run(command::run::Options),
}

#[tokio::main]
async fn main() -> ExitCode {
    let level = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    // Only a terminal gets colours.
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(level).with_ansi(colours).with_writer(std::io::stderr).init();
    let ended = match Arguments::parse().command {
        Command::Check(options) => Ok(command::check::run(&options)),
        Command::DryRun(options) => command::dry_run::run(&options).await,
        Command::Run(options) => command::run::run(options).await,
    };
    ended.unwrap_or_else(|error| {
        tracing::error!("{error:#}");
        ExitCode::FAILURE
    })
}

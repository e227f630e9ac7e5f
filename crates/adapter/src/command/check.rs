//! `check`: reads a configuration and names every mistake in it.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use crate::config::Config;

/// Which configuration is checked.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The configuration.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Checks a configuration; fails when there is a mistake.
pub(crate) fn run(options: &Options) -> ExitCode {
    let Some(config) = read(&options.config) else { return ExitCode::FAILURE };
    let Config { name, params, preconditions, resources, discoveries, .. } = config;
    let _ = writeln!(
        std::io::stdout(),
        "adapter {name}: {} parameters, {} preconditions, {} resources, {} discoveries; no mistakes found",
        params.len(),
        preconditions.len(),
        resources.len(),
        discoveries.len(),
    );
    ExitCode::SUCCESS
}

/// Reads a configuration, or writes its problems.
pub(crate) fn read(path: &Path) -> Option<Config> {
    match Config::read(path) {
        Ok(config) => Some(config),
        Err(problems) => {
            for problem in problems {
                let _ = writeln!(std::io::stderr(), "{problem}");
            }
            None
        }
    }
}

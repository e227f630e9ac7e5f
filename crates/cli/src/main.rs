//! `wardroom`: the server and the command line in one program.

mod command;

use clap::{Parser, Subcommand};

/// A fleet lifecycle control plane.
#[derive(Parser)]
#[command(name = "wardroom", version, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the server.
    Serve(command::serve::Serve),
}

fn main() -> std::process::ExitCode {
    let done = match Arguments::parse().command {
        Command::Serve(serve) => serve.run(),
    };
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "wardroom: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

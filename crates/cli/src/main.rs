//! `wardroom`: the server and the command line in one program.

mod advice;
mod arguments;
mod command;
mod connection;
#[cfg(test)]
mod docs;
mod document;
mod exit;
mod fields;
mod follow;
mod kind;
mod outcome;
mod output;
mod place;
mod progress;
mod secret;
mod select;
mod table;
mod targets;
mod text;
mod verbs;
mod view;

use clap::Parser as _;

/// Requests allocate and free a lot of small things on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    match arguments::Arguments::parse().command.run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => exit::explain(&error),
    }
}

//! `wardroom`: the server and the command line in one program.

mod arguments;
mod bar;
mod brief;
mod colour;
mod command;
mod complete;
mod conform;
mod connection;
mod context;
mod demo;
#[cfg(test)]
mod docs;
mod document;
mod exit;
mod fields;
mod follow;
mod format;
mod kind;
mod locate;
mod manifest;
mod outcome;
mod output;
mod place;
mod preview;
mod print;
mod progress;
mod said;
mod secret;
mod select;
mod simulate;
mod sort;
mod subject;
mod suggest;
mod table;
mod targets;
mod text;
mod usage;
mod used;
mod verbs;
mod view;
mod word_order;

use clap::{CommandFactory as _, FromArgMatches as _};

/// Requests allocate and free a lot of small things on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    let mut command = arguments::Arguments::command();
    let given = match word_order::settled(&command, std::env::args_os().collect()) {
        Ok(given) => given,
        Err(error) => return exit::explain(&error),
    };
    let matches = command
        .try_get_matches_from_mut(&given)
        .unwrap_or_else(|error| usage::explain(error, command.clone(), &given).exit());
    used::remember(&command, &matches);
    let arguments = arguments::Arguments::from_arg_matches(&matches)
        .unwrap_or_else(|error| error.format(&mut command).exit());
    match arguments.command.run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => exit::explain(&error),
    }
}

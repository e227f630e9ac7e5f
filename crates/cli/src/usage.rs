//! Errors of the command line, with the usage of the command.
//!
//! The usage shown is that of the command alone: clap would list an option whose environment variable is set as if it
//! were required.

use std::ffi::OsString;

use clap::{
    Command, Error,
    builder::PossibleValue,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// Adds the usage of the command, and the possible values of a missing argument, to an error.
pub(crate) fn explain(mut error: Error, mut command: Command, given: &[OsString]) -> Error {
    command.build();
    let path = given.iter().skip(1).scan(&command, |found, word| {
        *found = found.find_subcommand(word)?;
        Some(*found)
    });
    let mut meant = path.last().unwrap_or(&command).clone();
    if error.kind() == ErrorKind::MissingRequiredArgument
        && let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg)
    {
        let missing = missing.iter().map(|argument| with_values(&meant, argument)).collect();
        error.insert(ContextKind::InvalidArg, ContextValue::Strings(missing));
    }
    if error.get(ContextKind::Usage).is_some() {
        error.insert(ContextKind::Usage, ContextValue::StyledStr(meant.render_usage()));
    }
    error
}

fn with_values(command: &Command, argument: &str) -> String {
    let bare = |text: &str| text.trim_matches(['<', '>', '[', ']']).to_owned();
    let found = command.get_arguments().find(|known| bare(&known.to_string()) == bare(argument));
    let values = found.map(clap::Arg::get_possible_values).unwrap_or_default();
    let names: Vec<_> =
        values.iter().filter(|value| !value.is_hide_set()).map(PossibleValue::get_name).collect();
    if names.is_empty() {
        return argument.to_owned();
    }
    format!("{argument} [possible values: {}]", names.join(", "))
}

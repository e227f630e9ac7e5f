//! A command line that cannot be read: what is wrong with it, and how the command is used.
//!
//! What is shown as the usage is that of the command and no more: an option whose variable is set in the environment counts
//! as given, and would be shown as if it had to be.

use std::ffi::OsString;

use clap::{
    Command, Error,
    builder::PossibleValue,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// The error with the usage of the command that was meant, and with what an argument can be that is missing.
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
    let found = command.get_arguments().find(|known| known.to_string() == argument);
    let values = found.map(clap::Arg::get_possible_values).unwrap_or_default();
    let names: Vec<_> =
        values.iter().filter(|value| !value.is_hide_set()).map(PossibleValue::get_name).collect();
    if names.is_empty() {
        return argument.to_owned();
    }
    format!("{argument} [possible values: {}]", names.join(", "))
}

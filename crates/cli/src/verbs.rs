//! Each action of core as a subcommand, with its meaning as the help text.

use clap::{
    ArgMatches, Args, Command, Error, FromArgMatches, Subcommand, error::ErrorKind, parser::ValueSource,
};
use wardroom_core::Named;

use crate::suggest::kebab;

/// A list of actions that share their arguments.
pub(crate) trait Action: Named {
    /// The ids of arguments that one action does not take.
    fn lacks(self) -> Vec<&'static str>;
}

/// One action and its arguments.
pub(crate) struct Verb<A, T> {
    pub(crate) action: A,
    pub(crate) arguments: T,
}

impl<A: Action, T: Args> FromArgMatches for Verb<A, T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let (name, given) = matches.subcommand().ok_or_else(|| missing::<A>())?;
        let action = A::ALL.iter().copied().find(|action| kebab(action.as_str()) == name);
        let action = action.ok_or_else(|| missing::<A>())?;
        for id in action.lacks() {
            if given.value_source(id) == Some(ValueSource::CommandLine) {
                let message = format!("--{} cannot be used with {name}\n", kebab(id));
                return Err(Error::raw(ErrorKind::UnknownArgument, message));
            }
        }
        Ok(Self { action, arguments: T::from_arg_matches(given)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<A: Action, T: Args> Subcommand for Verb<A, T> {
    fn augment_subcommands(command: Command) -> Command {
        A::ALL.iter().fold(command, |command, action| command.subcommand(subcommand::<A, T>(*action)))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        A::ALL.iter().any(|action| kebab(action.as_str()) == name)
    }
}

fn subcommand<A: Action, T: Args>(action: A) -> Command {
    let (name, wire) = (kebab(action.as_str()), action.as_str());
    // The name in the API is an alias.
    let alias = (name != wire).then_some(wire);
    // No other line of help ends with a full stop.
    let about = action.meaning().trim_end_matches('.');
    let command = T::augment_args(Command::new(name)).about(about).aliases(alias);
    action
        .lacks()
        .into_iter()
        .fold(command, |command, id| command.mut_arg(id, |argument| argument.hide(true)))
}

fn missing<A: Action>() -> Error {
    let names: Vec<_> = A::ALL.iter().map(|action| kebab(action.as_str())).collect();
    Error::raw(ErrorKind::MissingSubcommand, format!("give one of: {}\n", names.join(", ")))
}

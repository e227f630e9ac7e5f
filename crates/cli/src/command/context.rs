//! `wardroom context`.

use clap::{Args, Subcommand};
use serde_json::json;

use crate::{
    context::{self, Contexts},
    exit::{Code, failure},
    output::{self, Format},
    table::{Heads, Writer},
};

/// Shows the servers that you logged in to, and chooses the one that commands use.
#[derive(Subcommand)]
pub(crate) enum Context {
    /// Lists contexts, without their tokens. For example: wardroom context list
    List(List),
    /// Makes a context the one that commands use. For example: wardroom context use prod
    Use(Chosen),
    /// Gives a context another name. For example: wardroom context rename 127.0.0.1-8440 lab
    Rename(Rename),
    /// Forgets a context with its token; revoke the token too if no other machine needs it. For example:
    /// wardroom context delete lab
    Delete(Chosen),
}

#[derive(Args)]
pub(crate) struct List {
    /// The output format.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
}

#[derive(Args)]
pub(crate) struct Chosen {
    /// The context.
    name: String,
}

#[derive(Args)]
pub(crate) struct Rename {
    /// The context.
    name: String,
    /// Its new name.
    #[arg(value_parser = context::name)]
    to: String,
}

impl Context {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Self::List(list) => list.run(),
            Self::Use(Chosen { name }) => {
                Contexts::change(|contexts| {
                    contexts.get(&name)?;
                    contexts.current = Some(name.clone());
                    Ok(())
                })?;
                output::line(&format!("context {name} is used from now on"))
            }
            Self::Rename(Rename { name, to }) => {
                Contexts::change(|contexts| renamed(contexts, &name, &to))?;
                output::line(&format!("context {name} is called {to} now"))
            }
            Self::Delete(Chosen { name }) => {
                Contexts::change(|contexts| {
                    contexts.get(&name)?;
                    contexts.contexts.remove(&name);
                    contexts.current.take_if(|current| *current == name);
                    Ok(())
                })?;
                output::line(&format!("context {name} is deleted"))
            }
        }
    }
}

fn renamed(contexts: &mut Contexts, name: &str, to: &str) -> anyhow::Result<()> {
    contexts.get(name)?;
    if name != to && contexts.contexts.contains_key(to) {
        let said = format!(
            "there is a context {to} already\nnext: `wardroom context delete {to}`, or take another name"
        );
        return Err(failure(Code::Conflict, said));
    }
    if let Some(server) = contexts.contexts.remove(name) {
        contexts.contexts.insert(to.to_owned(), server);
    }
    if contexts.current.as_deref() == Some(name) {
        contexts.current = Some(to.to_owned());
    }
    Ok(())
}

impl List {
    fn run(self) -> anyhow::Result<()> {
        let Contexts { current, contexts } = Contexts::read()?;
        let all = contexts.iter().map(|(name, kept)| (name, kept, current.as_ref() == Some(name)));
        let shown: Vec<_> = all
            .clone()
            .map(|(name, kept, is_current)| {
                json!({"name": name, "server": kept.server, "user": kept.user, "ca_file": kept.ca_file, "current": is_current})
            })
            .collect();
        match self.output {
            Format::Json => output::json(&shown),
            Format::Yaml => output::yaml(&shown),
            Format::Name => all.map(|(name, ..)| name).try_for_each(|name| output::line(name)),
            Format::Table | Format::Wide => {
                let rows: Vec<_> = all
                    .map(|(name, kept, is_current)| {
                        let mark = if is_current { "*" } else { "" };
                        vec![mark.to_owned(), name.clone(), kept.server.clone(), kept.user.clone()]
                    })
                    .collect();
                Writer::start(&["CURRENT", "NAME", "SERVER", "USER"], &rows, Heads::Shown).map(drop)
            }
        }
    }
}

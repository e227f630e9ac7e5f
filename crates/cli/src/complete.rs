//! Completion of a command line: subcommands and options from the commands, states and stages from the tables, names from
//! the server.
//!
//! A person waits for it at every press of a key: it takes a tenth of a second at most, and says nothing where there is no
//! server.

use std::{collections::BTreeMap, ffi::OsString, time::Duration};

use clap::{Arg, Command, CommandFactory as _, ValueEnum as _};
use wardroom_api::client::Query;
use wardroom_core::{Named as _, lifecycles, run::State as RunState, run::plan::Stage};

use crate::{
    arguments::Arguments,
    connection::Connection,
    context::Contexts,
    kind::{Kind, with_type},
    view::Resource as _,
    word_order,
};

/// How long the server may take.
const AT_MOST: Duration = Duration::from_millis(80);

/// How many names are asked for.
const NAMES: usize = 1000;

/// What may stand in a place of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Values {
    /// These words.
    Words(Vec<String>),
    /// The names of the resources of a kind.
    Names(Kind),
    /// The names of contexts.
    Contexts,
}

/// The command line up to the word that is completed.
struct Line<'a> {
    command: &'a Command,
    /// The names of the commands that lead to it.
    path: Vec<&'a str>,
    positionals: Vec<String>,
    options: BTreeMap<String, String>,
    /// The option whose value comes next.
    expects: Option<&'a Arg>,
}

/// The words that complete the last word of a line, or begin the next one.
pub(crate) async fn candidates(line: &str) -> Vec<String> {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let current = if line.ends_with(char::is_whitespace) { "" } else { words.pop().unwrap_or_default() };
    let mut command = Arguments::command();
    command.build();
    let given = words.iter().map(OsString::from).collect();
    let Ok(settled) = word_order::settled(&command, given) else {
        return kinds_with(&command, words.get(1).copied().unwrap_or_default(), current);
    };
    let settled: Vec<_> = settled.iter().skip(1).filter_map(|word| word.to_str()).collect();
    let line = Line::read(&command, &settled);
    let (before, current_value, values) = line.values(current);
    let found = match values {
        Values::Words(words) => words,
        Values::Contexts => {
            Contexts::read().map(|all| all.contexts.into_keys().collect()).unwrap_or_default()
        }
        Values::Names(kind) => {
            tokio::time::timeout(AT_MOST, line.names(kind)).await.ok().flatten().unwrap_or_default()
        }
    };
    let fits = |word: &String| word.starts_with(current_value) && is_plain(word);
    found.into_iter().filter(fits).map(|word| format!("{before}{word}")).collect()
}

/// The kinds that have a verb which stands before them.
fn kinds_with(command: &Command, verb: &str, current: &str) -> Vec<String> {
    let verb = word_order::meant(verb);
    let has = |kind: &&Command| {
        Kind::from_str(kind.get_name(), true).is_ok() && kind.find_subcommand(verb).is_some()
    };
    let kinds = command.get_subcommands().filter(has).map(|kind| kind.get_name().to_owned());
    kinds.filter(|kind| kind.starts_with(current)).collect()
}

/// A word that every shell takes as it is. Others are left to be typed, with the quotation marks that they need.
fn is_plain(word: &str) -> bool {
    !word.is_empty()
        && word.chars().all(|character| character.is_ascii_alphanumeric() || "-_=./:@%+,".contains(character))
}

impl<'a> Line<'a> {
    fn read(root: &'a Command, words: &[&str]) -> Self {
        let mut line = Self {
            command: root,
            path: Vec::new(),
            positionals: Vec::new(),
            options: BTreeMap::new(),
            expects: None,
        };
        for word in words {
            line.take(word);
        }
        line
    }

    fn take(&mut self, word: &str) {
        if let Some(option) = self.expects.take() {
            self.options.insert(option.get_id().to_string(), word.to_owned());
        } else if word.starts_with('-') && word.len() > 1 {
            let (name, value) =
                word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
            let Some(option) = self.option(name) else { return };
            match value {
                Some(value) => drop(self.options.insert(option.get_id().to_string(), value.to_owned())),
                None => self.expects = Some(option).filter(|option| option.get_action().takes_values()),
            }
        } else if let Some(child) = self.command.find_subcommand(word).filter(|_| self.positionals.is_empty())
        {
            self.command = child;
            self.path.push(child.get_name());
        } else {
            self.positionals.push(word.to_owned());
        }
    }

    /// The option of a name with its dashes.
    fn option(&self, name: &str) -> Option<&'a Arg> {
        self.command.get_arguments().find(|option| match name.strip_prefix("--") {
            Some(long) => option.get_long() == Some(long),
            None => option.get_short().is_some_and(|short| name.ends_with(short)),
        })
    }

    /// What may stand here: a part of the word that stays, the part that is completed, and the values of that.
    fn values<'b>(&self, current: &'b str) -> (&'b str, &'b str, Values) {
        if let Some(option) = self.expects {
            return ("", current, self.of(option));
        }
        if let Some((name, value)) = current.split_once('=').filter(|(name, _)| name.starts_with("--")) {
            let values =
                self.option(name).map_or_else(|| Values::Words(Vec::new()), |option| self.of(option));
            return (&current[..=name.len()], value, values);
        }
        if current.starts_with('-') {
            let shown = self.command.get_arguments().filter(|option| !option.is_hide_set());
            let longs = shown.filter_map(|option| Some(format!("--{}", option.get_long()?)));
            return ("", current, Values::Words(longs.collect()));
        }
        if self.positionals.is_empty() && self.command.has_subcommands() {
            let shown = self.command.get_subcommands().filter(|child| !child.is_hide_set());
            return ("", current, Values::Words(shown.map(|child| child.get_name().to_owned()).collect()));
        }
        let all: Vec<_> = self.command.get_positionals().collect();
        let many = |argument: &&&Arg| argument.get_num_args().is_some_and(|range| range.max_values() > 1);
        let here = all.get(self.positionals.len()).or_else(|| all.last().filter(many));
        ("", current, here.map_or_else(|| Values::Words(Vec::new()), |argument| self.of(argument)))
    }

    /// The values of an argument.
    fn of(&self, argument: &Arg) -> Values {
        let possible = argument.get_possible_values();
        if !possible.is_empty() && argument.get_action().takes_values() {
            let shown = possible.iter().filter(|value| !value.is_hide_set());
            return Values::Words(shown.map(|value| value.get_name().to_owned()).collect());
        }
        let first = self.path.first().copied().unwrap_or_default();
        let is_new =
            first == "create" || matches!(self.path.last(), Some(&("create" | "join-token" | "recover")));
        match argument.get_id().as_str() {
            "context" => Values::Contexts,
            "name" if first == "context" && argument.is_positional() => Values::Contexts,
            "name" | "names" if argument.is_positional() && !is_new => {
                self.kind().map_or_else(|| Values::Words(Vec::new()), Values::Names)
            }
            "state" | "to" => Values::Words(self.states()),
            "goal" => Values::Words(self.goals()),
            "skip" => Values::Words(Stage::ALL.iter().map(|stage| format!("{stage}=")).collect()),
            // An option that refers to another resource is called as its kind is, or as a kind beside that of the command.
            other if !argument.is_positional() => {
                let beside = Kind::from_str(&format!("{first}-{other}"), true);
                let named = beside.or_else(|_| Kind::from_str(other, true));
                named.map_or_else(|_| Values::Words(Vec::new()), Values::Names)
            }
            _ => Values::Words(Vec::new()),
        }
    }

    /// The kind that the command is about: the one that is given, or the one that it belongs to.
    fn kind(&self) -> Option<Kind> {
        let takes_kind = self.command.get_positionals().any(|argument| argument.get_id() == "kind");
        let word = if takes_kind { self.positionals.first()? } else { *self.path.first()? };
        Kind::from_str(word, true).ok()
    }

    fn states(&self) -> Vec<String> {
        let Some(kind) = self.kind() else { return Vec::new() };
        let tables = lifecycles::all();
        let table = tables.iter().find(|table| table.name == kind.as_str());
        table.into_iter().flat_map(|table| &table.states).map(|state| state.name.to_owned()).collect()
    }

    fn goals(&self) -> Vec<String> {
        let states = self.states().into_iter().map(|state| format!("state={state}"));
        let runs = RunState::ALL.iter().map(|state| format!("run={state}"));
        states.chain(runs).chain(["deleted".to_owned()]).collect()
    }

    /// The names of the resources of a kind; nothing without a server that gives them.
    async fn names(&self, kind: Kind) -> Option<Vec<String>> {
        let given = |name: &str| self.options.get(name).cloned();
        let connection =
            Connection::of(given("server"), given("context"), given("token_file"), given("ca_file"));
        let client = connection.client().ok()?;
        let query = Query { limit: Some(NAMES), ..Query::default() };
        let names: Vec<String> = with_type!(kind, T => {
            let page = T::page(&client, &query).await.ok()?;
            page.data.iter().map(|item| item.title().to_owned()).collect()
        });
        Some(names.into_iter().filter(|name| !self.positionals.contains(name)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::candidates;

    async fn of(line: &str) -> Vec<String> {
        candidates(line).await
    }

    #[tokio::test]
    async fn commands_options_and_states_need_no_server() {
        for (line, expected) in [
            ("wardroom who", vec!["whoami"]),
            ("wardroom node app", vec!["approve"]),
            ("wardroom get gpu", vec!["gpu-nodes"]),
            ("wardroom get nodes --state disc", vec!["discovered"]),
            ("wardroom get nodes --state=disc", vec!["--state=discovered"]),
            ("wardroom get nodes --need", vec!["--needs-attention"]),
            ("wardroom wait gpu-node g1 --for run=comp", vec!["run=completed", "run=compensating"]),
            ("wardroom wait node n1 --for state=retired", vec!["state=retired"]),
            ("wardroom node move n1 --to insta", vec!["installing", "installed", "install_failed"]),
            ("wardroom gpu-node retire g1 --skip drain", vec!["drain_node="]),
            ("wardroom approve d", vec!["device"]),
            ("wardroom approve node n1 --com", vec!["--comment"]),
            ("wardroom satellite create ", vec![]),
            ("wardroom nonsense ", vec![]),
        ] {
            let found = of(line).await;
            for word in &expected {
                assert!(found.iter().any(|found| found == word), "{line}: {found:?}");
            }
            assert!(!expected.is_empty() || found.is_empty(), "{line}: {found:?}");
        }
        assert!(
            of("wardroom ").await.iter().all(|word| !word.starts_with('_')),
            "hidden commands stay hidden"
        );
    }
}

//! The actions that the server offers, as commands that can be pasted: people type those, not requests.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use clap::ValueEnum as _;
use serde_json::Value;
pub(crate) use wardroom_api::words::kebab;
use wardroom_api::{
    action::Action,
    words::{options, quoted},
};
use wardroom_core::action::READ;

use crate::{
    kind::{Kind, with_type},
    view::Resource as _,
};

/// The name by which the user called each resource, by its id.
static TYPED: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// Notes what the user typed for a resource: suggestions name it in the same way.
pub(crate) fn remember(id: &str, typed: &str) {
    TYPED.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), typed.to_owned());
}

/// The name that the user typed for a resource, or its id.
pub(crate) fn typed(id: &str) -> String {
    TYPED.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned().unwrap_or_else(|| id.to_owned())
}

/// The command that carries out an action, or the request where no command does.
pub(crate) fn command(action: &Action) -> String {
    match words(action) {
        Some(words) => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
        None => {
            let body = action.body.as_ref().map_or_else(String::new, |body| format!(" {body}"));
            format!("{} {}{body}", action.method, action.path)
        }
    }
}

/// The words of a command after `wardroom`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Words {
    words: Vec<String>,
    is_whole: bool,
}

impl Words {
    /// A command that takes the fields of the request as options.
    pub(crate) fn open(words: &[&str]) -> Self {
        Self { words: words.iter().map(|word| (*word).to_owned()).collect(), is_whole: false }
    }

    /// A whole command.
    pub(crate) fn whole(words: &[&str]) -> Self {
        Self { is_whole: true, ..Self::open(words) }
    }
}

/// The command that makes or changes a resource that a document describes. It takes more than fits into a suggestion.
pub(crate) fn described(action: &Action, id: &str) -> Option<Words> {
    match &*action.action {
        "create" | "sync" => Some(Words::whole(&["create", &action.kind, id, "--help"])),
        "replace" | "update" => Some(Words::whole(&["apply", "-f", "FILE"])),
        _ => None,
    }
}

/// The words of the command; nothing where no command makes this request.
fn words(action: &Action) -> Option<Vec<String>> {
    let id = typed(&action.id);
    let kind = Kind::from_str(&action.kind, false).ok()?;
    let Words { words: start, is_whole } = match &*action.action {
        READ => Words::whole(&["describe", kind.as_str(), &id]),
        _ => with_type!(kind, T => T::command(action, &id))?,
    };
    let mut words: Vec<_> = ["wardroom".to_owned()].into_iter().chain(start).collect();
    if !is_whole {
        words.extend(options(action));
    }
    Some(words)
}

/// Whether an action empties a field.
pub(crate) fn has_null(action: &Action, field: &str) -> bool {
    action.body.as_ref().is_some_and(|body| body.get(field).is_some_and(Value::is_null))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use wardroom_core::{
        action::{self, Call, Value},
        gpu_node, lifecycles, node, run, satellite,
    };

    use super::{Action, command, quoted, remember, typed, words};
    use crate::arguments::Arguments;

    fn check(action: action::Action, expected: &str) {
        let action = Action::from(action);
        assert_eq!(command(&action), expected);
        parses(&action);
    }

    fn parses(action: &Action) {
        let words = words(action).unwrap_or_else(|| panic!("no command for {action:?}"));
        let parsed = Arguments::command().try_get_matches_from(&words);
        assert!(parsed.is_ok(), "{words:?}: {}", parsed.unwrap_err());
        // The console shows the same command.
        assert_eq!(wardroom_console::command::of(action, &typed(&action.id)), command(action));
    }

    #[test]
    fn actions_become_commands() {
        check(node::ASSIGN.of("n1"), "wardroom node assign n1 --workflow NAME");
        check(node::RELEASE_WORKFLOW.of("n1"), "wardroom node assign n1 --workflow \"\"");
        check(node::RELEASE_GROUP.of("n1"), "wardroom node assign n1 --group \"\"");
        check(node::READ.of("n1"), "wardroom describe node n1");
        check(satellite::REISSUE.of("edge"), "wardroom satellite reenable edge --mode reissue");
        check(
            gpu_node::DECOMMISSION.of("g1").with("mode", "reimage"),
            "wardroom gpu-node decommission g1 --mode reimage",
        );
        check(gpu_node::LIFECYCLE.of("g1"), "wardroom describe gpu-node g1");
        let recover = gpu_node::action::Action::Recover.call().needing(&["comment"]);
        check(
            recover.of("g1").with("unproven", Value::Flag(true)),
            "wardroom gpu-node recover g1 --unproven --comment TEXT",
        );
        let skip = vec![[("stage", "drain_node".into()), ("comment", "it is dead".into())].into()];
        check(
            gpu_node::action::Action::Retire.call().of("g1").with("skip", Value::List(skip)),
            "wardroom gpu-node retire g1 --skip 'drain_node=it is dead'",
        );
        let adopt = run::action::Action::AdoptObservedState.call();
        check(adopt.of("r1"), "wardroom run adopt-observed-state r1 --digest DIGEST");
        check(
            adopt.of("r1").with("expected_observation_digest", "d1"),
            "wardroom run adopt-observed-state r1 --digest d1",
        );
    }

    #[test]
    fn a_resource_is_named_as_the_user_typed_it() {
        remember("0197-id", "edge one");
        check(satellite::REISSUE.of("0197-id"), "wardroom satellite reenable 'edge one' --mode reissue");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    /// Every action of the tables has a command that the command line takes.
    #[test]
    fn every_action_of_the_tables_is_a_command() {
        let tables = lifecycles::all();
        let calls = tables.iter().flat_map(|table| {
            let moves = table.moves.iter().filter_map(|row| row.call);
            moves.chain(table.states.iter().filter_map(|state| state.remedy))
        });
        // Devices have no commands yet.
        let calls: Vec<Call> = calls.filter(|call| call.kind != "device").collect();
        assert!(calls.len() > 50, "{}", calls.len());
        for call in calls {
            parses(&call.of("x1").into());
        }
    }

    #[test]
    fn a_request_without_a_command_is_shown_as_it_is() {
        let call = Call::new("device", "replace", "PUT", "/api/v1/devices/{name}");
        assert_eq!(command(&call.of("d1").into()), "PUT /api/v1/devices/d1");
    }
}

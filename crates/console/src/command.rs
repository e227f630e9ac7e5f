//! The commands that do what the console does: people paste them into scripts.

use wardroom_api::{
    action::Action,
    words::{kebab, options, quoted},
};

/// The command that carries out an action on a resource that is called so; the request where no command does.
#[must_use]
pub fn of(action: &Action, called: &str) -> String {
    let Some(words) = words(action, called) else {
        let body = action.body.as_ref().map_or_else(String::new, |body| format!(" {body}"));
        return format!("{} {}{body}", action.method, action.path);
    };
    let all = ["wardroom".to_owned()].into_iter().chain(words);
    all.map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
}

/// The words after `wardroom`.
fn words(action: &Action, called: &str) -> Option<Vec<String>> {
    let (kind, verb) = (&*action.kind, &*action.action);
    let whole = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
    let start: Vec<String> = match verb {
        "read" => return whole(&["describe", kind, called]),
        // Documents, and what has more fields than a line has room for.
        "replace" | "update" => return whole(&["apply", "-f", "FILE"]),
        "create" if kind == "token" => whole(&["token", "create", called])?,
        "create" | "sync" => return None,
        "force_delete" => return whole(&["delete", kind, called, "--force", "--comment", "TEXT"]),
        "delete" if kind == "device" => whole(&["device", "delete", called])?,
        "delete" => return whole(&["delete", kind, called]),
        "assign_config" => return None,
        // Moves of a stored state are named by the state that they lead to.
        _ if action.path.ends_with("/state") => whole(&[kind, "move", called])?,
        "approve" | "deny" if kind.starts_with("enrollment") => return whole(&["device", verb, called]),
        _ => whole(&[kind, &kebab(verb), called])?,
    };
    Some(start.into_iter().chain(options(action)).collect())
}

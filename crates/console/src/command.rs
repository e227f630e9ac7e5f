//! The commands that do what the console does: people paste them into scripts.

use serde_json::Value;
use wardroom_api::action::Action;

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
        "create" | "sync" => return None,
        "force_delete" => return whole(&["delete", kind, called, "--force", "--comment", "TEXT"]),
        "delete" if kind == "device" => whole(&["device", "delete", called])?,
        "delete" => return whole(&["delete", kind, called]),
        "assign_config" => return None,
        // Moves of a stored state are named by the state that they lead to.
        _ if action.path.ends_with("/state") => whole(&[kind, "move", called])?,
        "approve" | "deny" if kind.starts_with("enrollment") => return whole(&["device", verb, called]),
        _ => whole(&[kind, &verb.replace('_', "-"), called])?,
    };
    Some(start.into_iter().chain(options(action)).collect())
}

/// The fields of the body as options, and those that the caller fills in.
fn options(action: &Action) -> Vec<String> {
    let mut words = Vec::new();
    for (field, value) in action.body.as_ref().and_then(Value::as_object).into_iter().flatten() {
        match value {
            Value::String(text) if *text == action.id => {}
            Value::String(text) => words.extend([option(field), text.clone()]),
            Value::Bool(true) => words.push(option(field)),
            Value::Null => words.extend([option(field), String::new()]),
            Value::Array(skips) => words.extend(skips.iter().flat_map(|skip| {
                let text = |name: &str| skip[name].as_str().unwrap_or_default().to_owned();
                [option(field), format!("{}={}", text("stage"), text("comment"))]
            })),
            Value::Bool(false) | Value::Number(_) | Value::Object(_) => {}
        }
    }
    for field in action.needs.iter().filter(|field| !field.contains('.')) {
        let option = option(field);
        let placeholder = match &**field {
            "comment" => "TEXT".to_owned(),
            "workflow_id" => "NAME".to_owned(),
            _ => option.trim_start_matches('-').to_uppercase(),
        };
        words.extend([option, placeholder]);
    }
    words
}

/// The option behind a field of a body.
fn option(field: &str) -> String {
    let name = match field {
        "state" => "to",
        "workflow_id" => "workflow",
        "group_id" => "group",
        "config_name" => "config",
        "expected_observation_digest" => "digest",
        field => field,
    };
    format!("--{}", name.replace('_', "-"))
}

/// A word as a shell takes it.
#[must_use]
pub fn quoted(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_=./:@%+,".contains(character);
    if word.is_empty() {
        "\"\"".to_owned()
    } else if word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

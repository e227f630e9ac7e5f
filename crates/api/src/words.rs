//! The words of a suggested command: its options, and each word as a shell takes it.
//!
//! The command line and the console suggest the same commands.

use serde_json::Value;

use crate::action::Action;

/// Returns the fields of the body as options, and those that the caller has to fill in with placeholders.
#[must_use]
pub fn options(action: &Action) -> Vec<String> {
    let body = action.body.as_ref().and_then(Value::as_object);
    let mut words = Vec::new();
    for (field, value) in body.into_iter().flatten() {
        match value {
            // The resource is named already.
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
        // A new token is named without an option.
        if field != "name" {
            words.extend([option, placeholder]);
        }
    }
    words
}

/// Returns the option behind a field of a body.
fn option(field: &str) -> String {
    let name = match field {
        "state" => "to",
        "workflow_id" => "workflow",
        "group_id" => "group",
        "config_name" => "config",
        "expected_observation_digest" => "digest",
        field => field,
    };
    format!("--{}", kebab(name))
}

/// Returns a name of the API as commands spell it.
#[must_use]
pub fn kebab(name: &str) -> String {
    name.replace('_', "-")
}

/// Returns a word as a shell takes it.
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

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_word_is_quoted_where_a_shell_would_change_it() {
        for (word, expected) in [("", "\"\""), ("a=b", "a=b"), ("it's", r"'it'\''s'"), ("$HOME", "'$HOME'")] {
            assert_eq!(quoted(word), expected);
        }
    }
}

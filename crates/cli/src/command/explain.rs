//! `wardroom explain`.

use clap::Args;
use serde_json::Value;
use wardroom_core::lifecycles;
use wardroom_server::{KINDS, platform::http::router};

use crate::{
    exit::{Code, failure},
    fields,
    kind::{Kind, with_type},
    output,
    table::{Heads, Writer},
    view::Resource,
};

/// Explains the fields of a kind, one field, or a state. Needs no server. For example: wardroom explain node.labels, wardroom
/// explain state gpu-node/draining
#[derive(Args)]
pub(crate) struct Explain {
    /// KIND, KIND.FIELD, or the word state before KIND/STATE.
    #[arg(required = true, num_args = 1..=2, value_name = "SUBJECT")]
    subject: Vec<String>,
}

impl Explain {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.subject.as_slice() {
            [word, state] if word == "state" => explain_state(state),
            [subject] => explain_fields(subject),
            _ => Err(failure(Code::Usage, "write KIND, KIND.FIELD or state KIND/STATE")),
        }
    }
}

fn explain_state(subject: &str) -> anyhow::Result<()> {
    let tables = lifecycles::all();
    let (kind, state) = subject.split_once('/').ok_or_else(|| {
        failure(Code::Usage, format!("{subject:?}: write KIND/STATE, such as gpu-node/draining"))
    })?;
    let table = tables.iter().find(|table| table.name == kind).ok_or_else(|| {
        let names: Vec<_> = tables.iter().map(|table| table.name).collect();
        failure(
            Code::NotFound,
            format!("there is no lifecycle of {kind:?}: give one of {}", names.join(", ")),
        )
    })?;
    let found = table.state(state).ok_or_else(|| {
        let names: Vec<_> = table.states.iter().map(|state| state.name).collect();
        failure(Code::NotFound, format!("a {kind} is never {state:?}: give one of {}", names.join(", ")))
    })?;
    output::line(&format!("{kind}/{state}: {}", found.meaning))?;
    let patience = found.patience_seconds.map(|seconds| ("Patience", format!("{seconds}s")));
    let marks = [
        (found.initial, "it begins here"),
        (found.service, "all is well"),
        (found.terminal, "nothing leaves it"),
    ];
    let marks: Vec<_> = marks.iter().filter(|(holds, _)| *holds).map(|(_, mark)| *mark).collect();
    let marks = (!marks.is_empty()).then(|| ("Is", marks.join(", ")));
    fields::section("About", &marks.into_iter().chain(patience).collect::<Vec<_>>())?;
    for (title, is_out) in [("Ways out", true), ("Ways in", false)] {
        let rows = table.moves.iter().filter(|row| (if is_out { row.from } else { row.to }) == state);
        let other = |row: &lifecycles::MoveView| if is_out { row.to } else { row.from };
        let rows: Vec<Vec<String>> =
            rows.map(|row| [other(row), row.by.as_str(), row.when].map(str::to_owned).into()).collect();
        if !rows.is_empty() {
            output::line(&format!("\n{title}:"))?;
            Writer::start(&[if is_out { "TO" } else { "FROM" }, "BY", "WHEN"], &rows, Heads::Shown)?;
        }
    }
    Ok(())
}

fn explain_fields(subject: &str) -> anyhow::Result<()> {
    let (word, path) = subject.split_once('.').unwrap_or((subject, ""));
    let kind = <Kind as clap::ValueEnum>::from_str(word, false).map_err(|_| {
        failure(Code::Usage, format!("there is no kind {word:?}; `wardroom get --help` lists them"))
    })?;
    let document = serde_json::to_value(router::openapi(KINDS))?;
    let mut schema = named(&document, schema_of(kind));
    for name in path.split('.').filter(|name| !name.is_empty()) {
        let Some(found) = schema["properties"].get(name) else {
            let names: Vec<_> =
                schema["properties"].as_object().into_iter().flat_map(|all| all.keys().cloned()).collect();
            return Err(failure(
                Code::NotFound,
                format!("{word} has no field {name:?}: give one of {}", names.join(", ")),
            ));
        };
        schema = resolved(&document, found);
    }
    let about = schema["description"].as_str().unwrap_or("No description.");
    output::line(&format!("{subject} ({}): {}", type_of(&document, schema), about.replace('\n', " ")))?;
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<_> = values.iter().filter_map(Value::as_str).collect();
        output::line(&format!("One of: {}", values.join(", ")))?;
    }
    let Some(properties) = schema["properties"].as_object() else { return Ok(()) };
    output::line("")?;
    let row = |(name, field): (&String, &Value)| {
        let about = field["description"].as_str().or(resolved(&document, field)["description"].as_str());
        vec![name.clone(), type_of(&document, field), about.unwrap_or_default().to_owned()]
    };
    let rows: Vec<_> = properties.iter().map(row).collect();
    Writer::start(&["FIELD", "TYPE", "MEANING"], &rows, Heads::Shown).map(drop)
}

fn schema_of(kind: Kind) -> &'static str {
    with_type!(kind, T => <T as Resource>::schema())
}

fn named<'a>(document: &'a Value, name: &str) -> &'a Value {
    &document["components"]["schemas"][name]
}

/// Follows a reference, also one that may be null, and the elements of a list.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return named(document, name);
    }
    let variants = schema["oneOf"].as_array().into_iter().flatten();
    if let Some(variant) = variants.into_iter().find(|variant| variant["type"] != "null") {
        return resolved(document, variant);
    }
    if schema["items"].is_object() { resolved(document, &schema["items"]) } else { schema }
}

fn type_of(document: &Value, schema: &Value) -> String {
    let word = |value: &Value| value.as_str().map(str::to_owned);
    let several = |value: &Value| -> Option<String> {
        let words: Vec<_> =
            value.as_array()?.iter().filter_map(Value::as_str).filter(|word| *word != "null").collect();
        Some(words.join(" or "))
    };
    let own = word(&schema["type"]).or_else(|| several(&schema["type"]));
    match own.as_deref() {
        Some("array") => format!("list of {}", type_of(document, &schema["items"])),
        Some(own) => word(&schema["format"]).unwrap_or_else(|| own.to_owned()),
        None => {
            let inner = resolved(document, schema);
            if inner == schema { "object".to_owned() } else { type_of(document, inner) }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;
    use wardroom_server::{KINDS, platform::http::router};

    use super::{named, schema_of, type_of};
    use crate::kind::Kind;

    /// A kind whose schema is not in the document could not be explained.
    #[test]
    fn every_kind_has_a_schema() {
        let document = serde_json::to_value(router::openapi(KINDS)).unwrap();
        for kind in Kind::value_variants() {
            let schema = named(&document, schema_of(*kind));
            assert!(schema["properties"].is_object(), "{}", schema_of(*kind));
            for (name, field) in schema["properties"].as_object().unwrap() {
                assert!(!type_of(&document, field).is_empty(), "{kind:?}.{name}");
            }
        }
    }
}

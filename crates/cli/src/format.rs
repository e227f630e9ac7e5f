//! The formats of lists: those of `output::Format`, and those that take paths into the JSON of a resource.

use std::sync::Arc;

use clap::{
    Arg, Command, Error, ValueEnum as _,
    builder::{PossibleValue, TypedValueParser},
    error::{ContextKind, ContextValue, ErrorKind},
};
use jsonpath_rust::{
    parser::{model::JpQuery, parse_json_path},
    query::js_path_process,
};
use serde_json::Value;

use crate::{output::Format, table::NONE};

/// How a list is written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shown {
    /// A format that needs nothing more.
    As(Format),
    /// JSON, a resource in each line.
    JsonLines,
    /// Values separated by commas: the columns of the wide table, or chosen ones.
    Csv(Option<Arc<[Chosen]>>),
    /// What a path leads to, a resource in each line.
    Path(Arc<Path>),
    /// A table of chosen columns.
    Chosen(Arc<[Chosen]>),
}

/// A column with a head of its own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chosen {
    pub(crate) head: String,
    path: Path,
}

/// A path into the JSON of a resource.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Path(JpQuery);

impl Path {
    /// Reads `$.labels.rack`, `.labels.rack`, `{.labels.rack}` or `labels.rack`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let bare = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text).trim();
        let whole = match bare.chars().next() {
            Some('$') => bare.to_owned(),
            Some('.' | '[') => format!("${bare}"),
            Some(_) => format!("$.{bare}"),
            None => return Err("write a path such as .labels.rack".to_owned()),
        };
        let wrong = |_| format!("{text:?} is not a path such as .labels.rack or $.macs[0]");
        parse_json_path(&whole).map(Self).map_err(wrong)
    }

    /// Returns the values that it leads to.
    pub(crate) fn of<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let found = js_path_process(&self.0, value).unwrap_or_default();
        found.into_iter().map(jsonpath_rust::query::QueryRef::val).collect()
    }

    /// Returns the values as a text for people and scripts: texts as they are, everything else as JSON.
    pub(crate) fn text(&self, value: &Value) -> Option<String> {
        let found = self.of(value);
        let texts = found.into_iter().filter(|value| !value.is_null()).map(|value| match value {
            Value::String(text) => text.clone(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                value.to_string()
            }
        });
        let texts: Vec<_> = texts.collect();
        (!texts.is_empty()).then(|| texts.join(" "))
    }
}

impl Chosen {
    /// Returns the cell of a resource.
    pub(crate) fn cell(&self, value: &Value) -> String {
        self.path.text(value).unwrap_or_else(|| NONE.to_owned())
    }
}

/// Reads `NAME:.hostname,STATE:.state`.
fn chosen(text: &str) -> Result<Arc<[Chosen]>, String> {
    let column = |part: &str| {
        let (head, path) = part.split_once(':').ok_or("write HEAD:PATH, such as NAME:.hostname")?;
        Ok(Chosen { head: head.to_owned(), path: Path::parse(path)? })
    };
    parts(text).into_iter().map(column).collect::<Result<_, String>>()
}

/// Splits at commas that are not inside brackets.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_i32);
    for (at, character) in text.char_indices() {
        match character {
            '[' | '(' => depth += 1,
            ']' | ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Reads the value of `-o`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parser;

/// The names of the formats with what follows each.
const MORE: &[(&str, &str)] = &[
    ("jsonl", "JSON, a resource in each line"),
    ("csv", "Values separated by commas; csv=HEAD:PATH,… for chosen ones"),
    ("jsonpath=PATH", "What a path leads to, such as jsonpath=.labels.rack"),
    ("custom-columns=HEAD:PATH,…", "A table of chosen columns"),
];

fn parse(text: &str) -> Result<Shown, String> {
    if let Ok(format) = Format::from_str(text, false) {
        return Ok(Shown::As(format));
    }
    match text.split_once('=') {
        None if text == "jsonl" => Ok(Shown::JsonLines),
        None if text == "csv" => Ok(Shown::Csv(None)),
        Some(("csv", columns)) => Ok(Shown::Csv(Some(chosen(columns)?))),
        Some(("jsonpath", path)) => Ok(Shown::Path(Arc::new(Path::parse(path)?))),
        Some(("custom-columns", columns)) => Ok(Shown::Chosen(chosen(columns)?)),
        Some(_) | None => Err(String::new()),
    }
}

impl TypedValueParser for Parser {
    type Value = Shown;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<Shown, Error> {
        let text = value.to_string_lossy();
        parse(&text).map_err(|said| {
            let mut error = Error::new(ErrorKind::InvalidValue).with_cmd(command);
            if let Some(arg) = arg {
                error.insert(ContextKind::InvalidArg, ContextValue::String(arg.to_string()));
            }
            let value = if said.is_empty() { text.to_string() } else { format!("{text}': {said} '") };
            error.insert(ContextKind::InvalidValue, ContextValue::String(value));
            let names = self.possible_values().into_iter().flatten().map(|value| value.get_name().to_owned());
            error.insert(ContextKind::ValidValue, ContextValue::Strings(names.collect()));
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let plain = Format::value_variants().iter().filter_map(clap::ValueEnum::to_possible_value);
        let more = MORE.iter().map(|(name, help)| PossibleValue::new(*name).help(*help));
        Some(Box::new(plain.chain(more)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Path, Shown, chosen, parse};
    use crate::output::Format;

    #[test]
    fn a_path_is_written_in_several_ways() {
        let value = json!({"labels": {"rack": "a1"}, "macs": ["m1", "m2"], "since": null, "count": 3});
        for text in ["$.labels.rack", ".labels.rack", "{.labels.rack}", "labels.rack", "$['labels']['rack']"]
        {
            assert_eq!(Path::parse(text).unwrap().text(&value).as_deref(), Some("a1"), "{text}");
        }
        let text = |path: &str| Path::parse(path).unwrap().text(&value);
        assert_eq!(text(".macs[*]").as_deref(), Some("m1 m2"));
        assert_eq!(text(".count").as_deref(), Some("3"));
        assert_eq!(text(".labels").as_deref(), Some(r#"{"rack":"a1"}"#));
        assert_eq!((text(".since"), text(".none")), (None, None));
        assert!(Path::parse("").is_err() && Path::parse("$..[").is_err());
    }

    #[test]
    fn columns_are_chosen_by_head_and_path() {
        let columns = chosen("NAME:.hostname,FIRST:.macs[0,1],X:.x").unwrap();
        let heads: Vec<_> = columns.iter().map(|column| &*column.head).collect();
        assert_eq!(heads, ["NAME", "FIRST", "X"]);
        let value = json!({"hostname": "n1", "macs": ["m1", "m2"]});
        let cells: Vec<_> = columns.iter().map(|column| column.cell(&value)).collect();
        assert_eq!(cells, ["n1", "m1 m2", "<none>"]);
        assert!(chosen("NAME").is_err());
    }

    #[test]
    fn formats_are_told_apart() {
        assert_eq!(parse("wide"), Ok(Shown::As(Format::Wide)));
        assert_eq!(parse("jsonl"), Ok(Shown::JsonLines));
        assert!(matches!(parse("csv=A:.a"), Ok(Shown::Csv(Some(_)))));
        assert!(matches!(parse("jsonpath={.a}"), Ok(Shown::Path(_))));
        assert_eq!(parse("xml"), Err(String::new()));
        assert!(parse("custom-columns=A").unwrap_err().contains("HEAD:PATH"));
    }
}

//! Paths to fields: `a.b.c`, or JSONPath in braces such as `{.items[?(@.adapter=='dns')].data}`.

use jsonpath_rust::{
    parser::{model::JpQuery, parse_json_path},
    query::js_path_process,
};
use serde_json::{Map, Value as Json};

use super::reader::{Fields, Reader};
use crate::expression::{Declared, Scope, Value};

/// A path to a field.
#[derive(Debug, Clone)]
pub(crate) enum Path {
    Steps(Vec<String>),
    Query(Box<JpQuery>),
}

impl Path {
    /// Reads a path.
    pub(crate) fn new(source: &str) -> Result<Self, String> {
        let source = source.trim();
        if let Some(inner) = source.strip_prefix('{') {
            let inner = inner.strip_suffix('}').ok_or("`}` is missing at the end")?;
            let inner = inner.trim();
            let inner = in_brackets(inner);
            let query = if inner.starts_with('$') { inner } else { format!("${inner}") };
            let query = parse_json_path(&query).map_err(|_| "the JSONPath cannot be read".to_owned())?;
            return Ok(Self::Query(Box::new(query)));
        }
        // An index may be written as in `items[0].name`.
        let source = source.replace('[', ".").replace(']', "");
        let steps: Vec<_> = source.split('.').map(str::to_owned).collect();
        if steps.iter().any(String::is_empty) || source.contains(['{', '}', ' ']) {
            return Err("a path such as `status.phase` is expected".to_owned());
        }
        Ok(Self::Steps(steps))
    }

    /// Returns the first step, which names a variable.
    pub(crate) fn root(&self) -> Option<&str> {
        match self {
            Self::Steps(steps) => steps.first().map(String::as_str),
            Self::Query(_) => None,
        }
    }

    /// Returns the value at the path; null is nothing. Several results are a list.
    pub(crate) fn within(&self, json: &Json) -> Option<Json> {
        let found = match self {
            Self::Steps(steps) => {
                let mut found = json;
                for step in steps {
                    found = match found {
                        Json::Array(values) => values.get(step.parse::<usize>().ok()?)?,
                        other => other.get(step)?,
                    };
                }
                Some(found.clone())
            }
            Self::Query(query) => {
                let found = js_path_process(query, json).ok()?;
                let mut values: Vec<Json> = found.into_iter().map(|found| found.val().clone()).collect();
                if values.len() > 1 { Some(Json::Array(values)) } else { values.pop() }
            }
        };
        found.filter(|value| !value.is_null())
    }

    /// Returns the value at the path below the variables.
    pub(crate) fn find(&self, scope: &Scope) -> Option<Json> {
        let json = |value: &Value| value.to_json();
        match self {
            Self::Steps(steps) => {
                let (root, rest) = steps.split_first()?;
                let root = json(scope.variables.get(root)?);
                Self::Steps(rest.to_vec()).within(&root)
            }
            Self::Query(_) => {
                let all: Map<_, _> =
                    scope.variables.iter().map(|(name, value)| (name.clone(), json(value))).collect();
                self.within(&Json::Object(all))
            }
        }
    }
}

/// Writes steps with escaped dots, as in `.labels.a\.b/c`, in brackets: `.labels['a.b/c']`.
fn in_brackets(path: &str) -> String {
    const ESCAPED: &str = "\\.";
    let mut written = String::new();
    let mut rest = path;
    while let Some(at) = rest.find(ESCAPED) {
        let Some(dot) = rest[..at].rfind('.') else { break };
        let step = &rest[dot + 1..];
        let ends = |(at, c): (usize, char)| c == '[' || (c == '.' && !step[..at].ends_with('\\'));
        let end = step.char_indices().find(|found| ends(*found)).map_or(step.len(), |(at, _)| at);
        written.push_str(&rest[..dot]);
        written.push_str(&format!("['{}']", step[..end].replace(ESCAPED, ".").replace('\'', "\\'")));
        rest = &step[end..];
    }
    written + rest
}

impl Reader {
    /// Reads a path whose first step names a variable.
    pub(super) fn path(&mut self, fields: &Fields<'_>, name: &str, declared: &Declared) -> Option<Path> {
        let source = self.text(fields, name)?;
        let path = match Path::new(&source) {
            Ok(path) => path,
            Err(why) => {
                self.note(fields.place(name), &fields.of(name), why);
                return None;
            }
        };
        if let Some(why) = path.root().and_then(|root| declared.refuse(root)) {
            self.note(fields.place(name), &fields.of(name), why);
        }
        Some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;

    /// Recorded paths whose results differ here, with the reason.
    const DIFFERENT: &[(&str, &str)] = &[
        ("metadata.e", "an empty text is a text"),
        ("{.items[?(@.n>1)].name}", "whole and broken numbers compare"),
        ("{.items[?(@.n>=2)].name}", "whole and broken numbers compare"),
        ("{range .items[*]}[{.name},{.n}] {end}", "a path is no template"),
        ("{\"lit\"}", "a path is no template"),
        ("{.}", "a path names a field"),
        ("{@}", "a path names a field"),
        ("items.0.name", "an index may be a step"),
    ];

    #[test]
    fn contract_recorded_paths_find_what_was_recorded() {
        let Some(rows) = contract::recorded("hyperfleet-cel-oracle.jsonl") else { return };
        let (mut count, mut wrong) = (0, Vec::new());
        for row in rows.iter().filter(|row| row["table"] == "field") {
            let source = row["field"].as_str().unwrap();
            count += 1;
            let ours = Path::new(source).map(|path| path.within(&row["data"]).unwrap_or_default());
            let expect = &row["expect"];
            let same = match expect["error"].as_str() {
                Some("parse") => ours.is_err(),
                _ => ours.as_ref().is_ok_and(|ours| Value::from(ours).equals(&Value::from(&expect["value"]))),
            };
            if !same && !DIFFERENT.iter().any(|(known, _)| *known == source) {
                wrong.push(format!("{source} => {ours:?} instead of {expect}"));
            }
        }
        assert!(count > 60, "{count} rows");
        assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
    }
}

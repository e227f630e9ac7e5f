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
            let query = if inner.starts_with('$') { inner.to_owned() } else { format!("${inner}") };
            let query = parse_json_path(&query).map_err(|_| "the JSONPath cannot be read".to_owned())?;
            return Ok(Self::Query(Box::new(query)));
        }
        // An index may be written as in `items[0].name`.
        let source = source.replace('[', ".").replace(']', "");
        let steps: Vec<_> = source.split('.').map(str::to_owned).collect();
        if steps.iter().any(String::is_empty) {
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

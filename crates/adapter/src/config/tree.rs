//! Trees of values: manifests and payloads. Texts in them are templates; in a payload, a map that has `expression` or
//! `field` is what it evaluates to.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json};

use super::{field::Path, reader::Reader};
use crate::{
    expression::{Declared, Expression, Failure, Scope},
    template::{Template, Values},
    yaml::{Data, Node},
};

/// A tree of values.
#[derive(Debug, Clone)]
pub(crate) enum Tree {
    Constant(Json),
    Text(Template),
    Value(Box<Computed>),
    List(Vec<Tree>),
    Map(Vec<(Template, Tree)>),
}

/// A value that is computed.
#[derive(Debug, Clone)]
pub(crate) struct Computed {
    /// Such as `post.payloads[0].build.data.x`.
    pub(crate) path: String,
    pub(crate) origin: Origin,
    pub(crate) default: Option<Json>,
}

/// What a value is computed from.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    Expression(Expression),
    Field(Path),
}

/// The names that a tree may use.
pub(super) struct Names<'a> {
    pub(super) templates: &'a BTreeSet<String>,
    /// Nothing where expressions have no place.
    pub(super) expressions: Option<&'a Declared>,
}

/// How deep a tree may be.
const DEPTH: usize = 32;

impl Reader {
    /// Reads a tree.
    pub(super) fn tree(&mut self, node: &Node, path: &str, names: &Names<'_>) -> Option<Tree> {
        self.tree_at(node, path, names, 0)
    }

    fn tree_at(&mut self, node: &Node, path: &str, names: &Names<'_>, depth: usize) -> Option<Tree> {
        if depth > DEPTH {
            self.note(node.at, path, format!("is nested deeper than {DEPTH} levels"));
            return None;
        }
        match &node.data {
            Data::Null | Data::Bool(_) | Data::Int(_) | Data::Float(_) => {
                Some(Tree::Constant(node.to_json()))
            }
            Data::Text(_) => self.template(node, path, names.templates).map(Tree::Text),
            Data::List(nodes) => {
                let trees = nodes.iter().enumerate();
                let trees =
                    trees.map(|(at, node)| self.tree_at(node, &format!("{path}[{at}]"), names, depth + 1));
                // Every element is read, so that every problem is told.
                trees.collect::<Vec<_>>().into_iter().collect::<Option<_>>().map(Tree::List)
            }
            Data::Map(entries) => {
                let is_computed =
                    entries.iter().any(|(key, _)| matches!(key.text.as_str(), "expression" | "field"));
                if let (true, Some(declared)) = (is_computed, names.expressions) {
                    return self.computed(node, path, declared).map(|value| Tree::Value(Box::new(value)));
                }
                let mut trees = Vec::new();
                for (key, value) in entries {
                    let name = Node { at: key.at, data: Data::Text(key.text.clone()) };
                    let path = format!("{path}.{}", key.text);
                    let name = self.template(&name, &path, names.templates);
                    let value = self.tree_at(value, &path, names, depth + 1);
                    trees.push(name.zip(value));
                }
                trees.into_iter().collect::<Option<_>>().map(Tree::Map)
            }
        }
    }

    /// Reads `expression` or `field`, with its `default`.
    pub(super) fn computed(&mut self, node: &Node, path: &str, declared: &Declared) -> Option<Computed> {
        let fields = self.fields(node, path, &["expression", "field", "default", "description"])?;
        let default = fields.get("default").map(Node::to_json);
        let origin = match (fields.get("expression"), fields.get("field")) {
            (Some(node), None) => {
                self.expression(node, &fields.of("expression"), declared).map(Origin::Expression)
            }
            (None, Some(_)) => self.path(&fields, "field", declared).map(Origin::Field),
            _ => {
                self.note(fields.at, path, "needs `expression` or `field`, and not both");
                None
            }
        }?;
        Some(Computed { path: path.to_owned(), origin, default })
    }
}

/// A tree that cannot be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unbuilt {
    pub(crate) field: String,
    pub(crate) why: String,
}

impl Computed {
    /// Returns the value; what is missing is the default, or null.
    pub(crate) fn evaluate(&self, scope: &Scope) -> Result<Json, Unbuilt> {
        let found = match &self.origin {
            Origin::Expression(expression) => {
                expression.find(scope).map(|value| value.map(|value| value.to_json()))
            }
            Origin::Field(path) => Ok(path.find(scope)),
        };
        let found = found.map_err(|failure| unbuilt(&self.path, &failure))?;
        Ok(found.or_else(|| self.default.clone()).unwrap_or_default())
    }
}

fn unbuilt(field: &str, failure: &Failure) -> Unbuilt {
    Unbuilt { field: field.to_owned(), why: failure.to_string() }
}

impl Tree {
    /// Builds the value.
    pub(crate) fn build(&self, path: &str, values: &Values, scope: &Scope) -> Result<Json, Unbuilt> {
        let fail = |why| Unbuilt { field: path.to_owned(), why };
        match self {
            Self::Constant(json) => Ok(json.clone()),
            Self::Text(template) => template.value(values).map_err(fail),
            Self::Value(computed) => computed.evaluate(scope),
            Self::List(trees) => {
                let built = trees.iter().enumerate();
                built.map(|(at, tree)| tree.build(&format!("{path}[{at}]"), values, scope)).collect()
            }
            Self::Map(entries) => {
                let mut map = Map::new();
                for (key, tree) in entries {
                    let key = key.render(values).map_err(fail)?;
                    let value = tree.build(&format!("{path}.{key}"), values, scope)?;
                    if map.insert(key.clone(), value).is_some() {
                        return Err(fail(format!("two keys become `{key}`")));
                    }
                }
                Ok(Json::Object(map))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{contract, expression::Value};

    /// Recorded payloads that come out differently here, with the reason.
    const DIFFERENT: &[(&str, &str)] = &[
        ("build/017", "an empty expression is told"),
        ("build/018", "an empty expression is told"),
        ("build/041", "an unknown key is told"),
        ("build/042", "an unknown key is told"),
        ("build/046", "the root is built as any other map"),
        ("build/047", "the root is built as any other map"),
        ("build/049", "a field is a text"),
    ];

    /// What becomes of a recorded payload: its value, or `refused`.
    fn ours(row: &Json) -> Result<Json, String> {
        let source = row.get("build").unwrap_or(&row["build_value"]);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), source.to_string()).unwrap();
        let told = |problems: Vec<crate::problem::Problem>| {
            problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        let (mut reader, node) = Reader::open(file.path()).map_err(told)?;
        let now = row["now"].as_str().unwrap_or("2026-11-19T12:00:00Z").parse().unwrap();
        let all = |part: &str| row[part].as_object().into_iter().flatten();
        let templates: BTreeSet<_> = all("params").chain(all("vars")).map(|(name, _)| name.clone()).collect();
        let mut declared = Declared::default();
        declared.open();
        let names = Names { templates: &templates, expressions: Some(&declared) };
        let tree = reader.tree(&node, "build", &names);
        let Some(tree) = tree.filter(|_| reader.problems.is_empty()) else {
            return Err(told(reader.problems));
        };
        let by_name: BTreeMap<_, _> =
            all("params").map(|(name, value)| (name.clone(), value.clone())).collect();
        let variables = all("vars").map(|(name, value)| (name.clone(), Value::from(value))).collect();
        let built = tree.build("build", &Values { by_name, now }, &Scope { variables, now });
        built.map_err(|Unbuilt { field, why }| format!("{field}: {why}"))
    }

    #[test]
    fn contract_recorded_payloads_are_built_as_recorded() {
        let Some(rows) = contract::recorded("hyperfleet-cel-oracle.jsonl") else { return };
        let (mut count, mut wrong) = (0, Vec::new());
        // The rest is about `when`, or is an artefact of Go values: nulls written as 0.
        let builds = |row: &Json| {
            row["expect"]["skipped"] != true && row["expect"]["error"] != true && row["quirk"].is_null()
        };
        for row in rows.iter().filter(|row| row["table"] == "payload" && builds(row)) {
            let expect = &row["expect"];
            count += 1;
            let ours = ours(row);
            let theirs = expect.get("json").or_else(|| expect.get("value"));
            let same = match theirs {
                Some(theirs) => {
                    ours.as_ref().is_ok_and(|ours| Value::from(ours).equals(&Value::from(theirs)))
                }
                None => ours.is_err(),
            };
            let id = row["id"].as_str().unwrap();
            if !same && !DIFFERENT.iter().any(|(known, _)| *known == id) {
                wrong.push(format!("{id} => {ours:?} instead of {expect}"));
            }
        }
        assert!(count > 60, "{count} rows");
        assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
    }
}

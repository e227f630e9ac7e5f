//! Reads the maps, lists and texts of a configuration, and notes every problem with its place.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use crate::{
    expression::{Declared, Expression, Fault},
    problem::Problem,
    template::Template,
    yaml::{self, Data, Node, Place},
};

/// A file that is read, and the problems found so far.
pub(super) struct Reader {
    /// As it is shown.
    pub(super) name: String,
    pub(super) text: String,
    pub(super) folder: PathBuf,
    pub(super) problems: Vec<Problem>,
}

/// The fields of a map; keys in camel case are read as those in snake case.
pub(super) struct Fields<'n> {
    pub(super) at: Place,
    pub(super) path: String,
    entries: Vec<(String, &'n Node)>,
}

impl Reader {
    /// Opens a file.
    pub(super) fn open(path: &Path) -> Result<(Self, Node), Vec<Problem>> {
        let name = path.display().to_string();
        let problem = |at, why| vec![Problem { file: name.clone(), at, field: String::new(), why }];
        let start = Place { line: 1, column: 1 };
        let size = std::fs::metadata(path).map_err(|error| problem(start, error.to_string()))?.len();
        if size > yaml::LONGEST {
            return Err(problem(start, format!("is longer than {} bytes", yaml::LONGEST)));
        }
        let text = std::fs::read_to_string(path).map_err(|error| problem(start, error.to_string()))?;
        let node = yaml::read(&text).map_err(|(at, why)| problem(at, why))?;
        let folder = path.parent().unwrap_or(Path::new(".")).to_owned();
        Ok((Self { name, text, folder, problems: Vec::new() }, node))
    }

    /// Notes a problem.
    pub(super) fn note(&mut self, at: Place, field: &str, why: impl Into<String>) {
        let (file, field, why) = (self.name.clone(), field.to_owned(), why.into());
        self.problems.push(Problem { file, at, field, why });
    }

    /// Reads a map with these keys and no others.
    pub(super) fn fields<'n>(&mut self, node: &'n Node, path: &str, known: &[&str]) -> Option<Fields<'n>> {
        let Data::Map(entries) = &node.data else {
            self.note(node.at, path, format!("a map is expected, not {}", node.kind()));
            return None;
        };
        let mut fields = Fields { at: node.at, path: path.to_owned(), entries: Vec::new() };
        for (key, value) in entries {
            let name = snake(&key.text);
            if !known.contains(&name.as_str()) {
                let known = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                self.note(key.at, &fields.of(&key.text), format!("is not known; known are {known}"));
            } else if fields.get(&name).is_some() {
                self.note(key.at, &fields.of(&key.text), "appears more than once");
            } else {
                fields.entries.push((name, value));
            }
        }
        Some(fields)
    }

    pub(super) fn list<'n>(&mut self, node: Option<&'n Node>, path: &str) -> &'n [Node] {
        match node.map(|node| (node, &node.data)) {
            None | Some((_, Data::Null)) => &[],
            Some((_, Data::List(nodes))) => nodes,
            Some((node, _)) => {
                self.note(node.at, path, format!("a list is expected, not {}", node.kind()));
                &[]
            }
        }
    }

    /// Reads a text that may be absent.
    pub(super) fn text(&mut self, fields: &Fields<'_>, name: &str) -> Option<String> {
        let node = fields.get(name)?;
        match &node.data {
            Data::Text(text) => Some(text.clone()),
            _ => {
                self.note(node.at, &fields.of(name), format!("a text is expected, not {}", node.kind()));
                None
            }
        }
    }

    /// Reads a text that has to be there.
    pub(super) fn required(&mut self, fields: &Fields<'_>, name: &str) -> Option<String> {
        if fields.get(name).is_none() {
            self.note(fields.at, &fields.of(name), "is required");
        }
        self.text(fields, name)
    }

    /// Reads a text that has to be one of some words.
    pub(super) fn word<T: Copy>(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        words: &[(&str, T)],
    ) -> Option<T> {
        let text = self.text(fields, name)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            let known = words.iter().map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(", ");
            self.note(
                fields.place(name),
                &fields.of(name),
                format!("`{text}` is not known; known are {known}"),
            );
        }
        found
    }

    pub(super) fn boolean(&mut self, fields: &Fields<'_>, name: &str) -> Option<bool> {
        let node = fields.get(name)?;
        match &node.data {
            Data::Bool(value) => Some(*value),
            _ => {
                self.note(
                    node.at,
                    &fields.of(name),
                    format!("true or false is expected, not {}", node.kind()),
                );
                None
            }
        }
    }

    /// Reads an expression.
    pub(super) fn expression(&mut self, node: &Node, path: &str, declared: &Declared) -> Option<Expression> {
        let source = match &node.data {
            Data::Text(text) => text.clone(),
            // `expression: true` and `expression: 1` are what they look like.
            Data::Bool(value) => value.to_string(),
            Data::Int(value) => value.to_string(),
            _ => {
                self.note(node.at, path, format!("an expression is expected, not {}", node.kind()));
                return None;
            }
        };
        Expression::new(&source, declared).map_err(|faults| self.faults(node, path, &source, faults)).ok()
    }

    /// Reads a template.
    pub(super) fn template(&mut self, node: &Node, path: &str, names: &BTreeSet<String>) -> Option<Template> {
        let Data::Text(source) = &node.data else {
            self.note(node.at, path, format!("a text is expected, not {}", node.kind()));
            return None;
        };
        Template::new(source, names).map_err(|faults| self.faults(node, path, source, faults)).ok()
    }

    fn faults(&mut self, node: &Node, path: &str, source: &str, faults: Vec<Fault>) {
        for fault in faults {
            let at = node.place_in(&self.text, source, fault.at);
            self.note(at, path, fault.why);
        }
    }
}

impl<'n> Fields<'n> {
    pub(super) fn get(&self, name: &str) -> Option<&'n Node> {
        self.entries.iter().find(|(known, _)| known == name).map(|(_, node)| *node)
    }

    /// Returns the full name of a field.
    pub(super) fn of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    pub(super) fn place(&self, name: &str) -> Place {
        self.get(name).map_or(self.at, |node| node.at)
    }
}

/// Returns a key in snake case: `postActions` is `post_actions`.
fn snake(key: &str) -> String {
    let mut name = String::new();
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

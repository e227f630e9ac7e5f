//! The configuration of an adapter: one YAML file, read and checked as a whole, so that no mistake in it is left for
//! the first event to find.
//!
//! It is understood in the shape of the document (`post.parameters[].build.conditions.applied`) and in the newer one
//! (`post.payloads[].build`), with keys in camel case or snake case.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a file has values of every type, and those that are not named are refused"
)]

use std::{collections::BTreeSet, path::Path};

use serde_json::Value as Json;

use crate::{expression::Declared, problem::Problem};

mod call;
mod condition;
mod field;
mod manifest;
mod param;
mod post;
mod reader;
mod tree;

pub(crate) use call::Call;
pub(crate) use condition::{Captured, Condition, Precondition};
pub(crate) use field::Path as FieldPath;
pub(crate) use manifest::{Discovery, Found, Resource};
pub(crate) use param::{Param, Source};
pub(crate) use post::{Action, Build, ConditionRule, Post};
pub(crate) use tree::{Computed, Tree, Unbuilt};

use reader::Reader;

/// A configuration without problems.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) name: String,
    pub(crate) subject: Subject,
    pub(crate) params: Vec<Param>,
    pub(crate) preconditions: Vec<Precondition>,
    /// Applied in this order, deleted in reverse.
    pub(crate) resources: Vec<Resource>,
    /// Only looked at.
    pub(crate) discoveries: Vec<Discovery>,
    pub(crate) post: Post,
    /// The file as it is, for `config.…`.
    pub(crate) raw: Json,
}

/// What an adapter works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Subject {
    #[default]
    Cluster,
    NodePool,
}

impl Subject {
    /// Returns the word of its kind.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::NodePool => "NodePool",
        }
    }

    /// Returns the path of the list of all.
    pub(crate) fn list(self) -> &'static str {
        match self {
            Self::Cluster => "/api/hyperfleet/v1/clusters",
            Self::NodePool => "/api/hyperfleet/v1/nodepools",
        }
    }
}

/// The names that the parts of a configuration may use, which grow from part to part.
struct Names {
    /// Names of templates of manifests and calls.
    templates: BTreeSet<String>,
    /// Names of expressions, and which of them come from the environment.
    declared: Declared,
}

/// Names that every configuration has.
const GIVEN: &[&str] = &["event", "cluster", "adapter", "config"];

/// Values that templates have without a parameter of that name.
const WELL_KNOWN: &[&str] =
    &["clusterId", "clusterName", "nodePoolId", "generation", "hyperfleetApiBaseUrl", "hyperfleetApiVersion"];

impl Names {
    fn new() -> Self {
        let mut names = Self { templates: BTreeSet::new(), declared: Declared::default() };
        for name in GIVEN.iter().chain(WELL_KNOWN) {
            names.add(name);
        }
        names
    }

    fn add(&mut self, name: &str) {
        self.templates.insert(name.to_owned());
        self.declared.add(name);
    }

    fn hide(&mut self, name: &str) {
        self.templates.insert(name.to_owned());
        self.declared.hide(name);
    }

    /// Returns the names of templates whose text is reported or shown.
    fn visible(&self) -> BTreeSet<String> {
        self.templates.iter().filter(|name| !self.declared.is_hidden(name)).cloned().collect()
    }
}

impl Config {
    /// Reads and checks a file.
    pub(crate) fn read(path: &Path) -> Result<Self, Vec<Problem>> {
        let (mut reader, node) = Reader::open(path)?;
        let config = reader.config(&node);
        let mut problems = reader.problems;
        problems.sort();
        match config {
            Some(config) if problems.is_empty() => Ok(config),
            _ => Err(problems),
        }
    }

    /// Returns whether Kubernetes is used at all.
    pub(crate) fn needs_kubernetes(&self) -> bool {
        !self.resources.is_empty() || !self.discoveries.is_empty()
    }
}

impl Reader {
    fn config(&mut self, node: &crate::yaml::Node) -> Option<Config> {
        let known = &["adapter", "params", "preconditions", "resources", "track", "post"];
        let fields = self.fields(node, "", known)?;
        let adapter = self.adapter(&fields);
        let mut names = Names::new();
        let params = self.params(&fields, &mut names);
        let preconditions = self.preconditions(&fields, &mut names);
        let discoveries = self.discoveries(&fields, &names);
        let resources = self.resources(&fields, &mut names, &discoveries);
        let post = self.post(&fields, &names);
        let (name, subject) = adapter?;
        Some(Config {
            name,
            subject,
            params,
            preconditions,
            resources,
            discoveries,
            post: post?,
            raw: node.to_json(),
        })
    }

    fn adapter(&mut self, fields: &reader::Fields<'_>) -> Option<(String, Subject)> {
        let Some(node) = fields.get("adapter") else {
            self.note(
                fields.at,
                "adapter",
                "is required: `adapter: {name: …}` is the name that reports carry",
            );
            return None;
        };
        let fields = self.fields(node, "adapter", &["name", "version", "kind"])?;
        let name = self.required(&fields, "name")?;
        let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty()
            || name.len() > 63
            || !name.chars().all(is_fine)
            || name.starts_with('-')
            || name.ends_with('-')
        {
            self.note(fields.place("name"), "adapter.name", "needs 1 to 63 characters a-z, 0-9 and `-`");
        }
        let subjects = [Subject::Cluster, Subject::NodePool].map(|subject| (subject.word(), subject));
        let subject = self.word(&fields, "kind", &subjects);
        Some((name, subject.unwrap_or_default()))
    }

    /// Notes a name that cannot be used or is used twice.
    fn check_name(&mut self, name: &str, at: crate::yaml::Place, path: &str, taken: &mut BTreeSet<String>) {
        let first = name.chars().next();
        let is_name = first.is_some_and(|c| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name {
            self.note(at, path, format!("`{name}` is no name: letters, digits and `_` are expected"));
        } else if !taken.insert(name.to_owned()) {
            self.note(at, path, format!("`{name}` appears more than once"));
        }
    }
}

#[cfg(test)]
mod tests;

//! What is reported: the payload in the document's shape or in the newer one, and the actions after it.

use super::{
    Names,
    reader::{Fields, Reader},
    tree::{self, Computed, Tree},
};
use crate::{
    expression::Expression,
    template::Template,
    yaml::{Data, Node},
};

/// The report of a status.
#[derive(Debug, Clone)]
pub(crate) struct Post {
    /// The name of the payload.
    pub(crate) name: String,
    /// When there is a report; always when absent.
    pub(crate) when: Option<Expression>,
    pub(crate) build: Build,
    /// Messages that are logged with a report.
    pub(crate) actions: Vec<Action>,
}

/// How a payload is built.
#[derive(Debug, Clone)]
pub(crate) enum Build {
    /// The document's shape: a condition has an expression that is true or false, and reasons have defaults.
    Conditions { conditions: Vec<ConditionRule>, data: Option<Tree>, metadata: Option<Tree> },
    /// The newer shape: a tree of values.
    Tree(Tree),
}

/// One condition in the document's shape.
#[derive(Debug, Clone)]
pub(crate) struct ConditionRule {
    /// Such as `Applied`.
    pub(crate) kind: String,
    pub(crate) status: Computed,
    pub(crate) reason: Option<Computed>,
    pub(crate) message: Option<Computed>,
}

/// A message that is logged.
#[derive(Debug, Clone)]
pub(crate) struct Action {
    pub(crate) when: Option<Expression>,
    pub(crate) message: Template,
}

/// Conditions that every report has, with their keys in the configuration.
const MANDATORY: &[&str] = &["applied", "available", "health"];

impl Reader {
    pub(super) fn post(&mut self, fields: &Fields<'_>, names: &Names) -> Option<Post> {
        let Some(node) = fields.get("post") else {
            self.note(fields.at, "post", "is required: it says what is reported");
            return None;
        };
        let fields = self.fields(node, "post", &["parameters", "payloads", "post_actions"])?;
        let (key, node) = match (fields.get("parameters"), fields.get("payloads")) {
            (Some(node), None) => ("parameters", node),
            (None, Some(node)) => ("payloads", node),
            _ => {
                self.note(fields.at, "post", "needs `parameters` or `payloads`, and not both");
                return None;
            }
        };
        let path = format!("post.{key}");
        let nodes = self.list(Some(node), &path);
        let [payload] = nodes else {
            self.note(node.at, &path, "needs exactly one payload: the status that is reported");
            return None;
        };
        let payload = self.payload(payload, &format!("{path}[0]"), names);
        let name = payload.as_ref().map(|(name, ..)| name.clone());
        let actions = self.actions(&fields, name.as_deref(), names);
        let (name, when, build) = payload?;
        Some(Post { name, when, build, actions })
    }

    fn payload(
        &mut self,
        node: &Node,
        path: &str,
        names: &Names,
    ) -> Option<(String, Option<Expression>, Build)> {
        let fields = self.fields(node, path, &["name", "description", "when", "build", "build_ref"])?;
        let name = self.required(&fields, "name");
        let when = fields.get("when").and_then(|node| self.when(node, &fields.of("when"), names));
        let build = match (fields.get("build"), fields.get("build_ref")) {
            (Some(node), None) => self.build(node, &fields.of("build"), names),
            (None, Some(_)) => {
                let file = self.text(&fields, "build_ref")?;
                let file = self.folder.join(file);
                match Self::open(&file) {
                    Ok((mut other, node)) => {
                        let build = other.build(&node, &fields.of("build_ref"), names);
                        self.problems.extend(other.problems);
                        build
                    }
                    Err(problems) => {
                        let why = problems.first().map(ToString::to_string).unwrap_or_default();
                        self.note(fields.place("build_ref"), &fields.of("build_ref"), why);
                        None
                    }
                }
            }
            _ => {
                self.note(fields.at, path, "needs `build` or `build_ref`, and not both");
                None
            }
        };
        Some((name?, when, build?))
    }

    fn build(&mut self, node: &Node, path: &str, names: &Names) -> Option<Build> {
        let Data::Map(entries) = &node.data else {
            self.note(node.at, path, format!("a map is expected, not {}", node.kind()));
            return None;
        };
        let visible = names.visible();
        let tree_names = tree::Names { templates: &visible, expressions: Some(&names.declared) };
        let conditions = entries.iter().find(|(key, _)| key.text == "conditions").map(|(_, node)| node);
        match conditions.map(|node| &node.data) {
            Some(Data::Map(_)) => {}
            Some(Data::List(_)) => return self.tree(node, path, &tree_names).map(Build::Tree),
            _ => {
                self.note(node.at, &format!("{path}.conditions"), "is required, as a map or a list");
                return None;
            }
        }
        let fields = self.fields(node, path, &["conditions", "data", "metadata"])?;
        let conditions = self.conditions(fields.get("conditions")?, &fields.of("conditions"), names);
        let part = |reader: &mut Self, name: &str| {
            fields.get(name).map(|node| reader.tree(node, &fields.of(name), &tree_names))
        };
        let (data, metadata) = (part(self, "data"), part(self, "metadata"));
        Some(Build::Conditions { conditions, data: flat(data)?, metadata: flat(metadata)? })
    }

    fn conditions(&mut self, node: &Node, path: &str, names: &Names) -> Vec<ConditionRule> {
        let Data::Map(entries) = &node.data else { return Vec::new() };
        for name in MANDATORY {
            if !entries.iter().any(|(key, _)| key.text == *name) {
                self.note(node.at, &format!("{path}.{name}"), "is required");
            }
        }
        let mut rules = Vec::new();
        for (key, node) in entries {
            let path = format!("{path}.{}", key.text);
            let Some(fields) = self.fields(node, &path, &["status", "reason", "message"]) else { continue };
            let part = |reader: &mut Self, name: &str| {
                let node = fields.get(name)?;
                reader.computed(node, &fields.of(name), &names.declared)
            };
            let status = part(self, "status");
            if fields.get("status").is_none() {
                self.note(fields.at, &fields.of("status"), "is required");
            }
            let (reason, message) = (part(self, "reason"), part(self, "message"));
            let mut letters = key.text.chars();
            let kind = letters.next().map(|first| first.to_uppercase().chain(letters).collect::<String>());
            if let (Some(kind), Some(status)) = (kind, status) {
                rules.push(ConditionRule { kind, status, reason, message });
            }
        }
        rules
    }

    fn actions(&mut self, fields: &Fields<'_>, payload: Option<&str>, names: &Names) -> Vec<Action> {
        let mut actions = Vec::new();
        for (at, node) in self.list(fields.get("post_actions"), "post.post_actions").iter().enumerate() {
            let path = format!("post.post_actions[{at}]");
            let known = &[
                "name",
                "description",
                "type",
                "when",
                "api_call",
                "log",
                "method",
                "endpoint",
                "headers",
                "body",
            ];
            let Some(fields) = self.fields(node, &path, known) else { continue };
            let when = fields.get("when").and_then(|node| self.when(node, &fields.of("when"), names));
            if let Some(node) = fields.get("log") {
                let Some(log) = self.fields(node, &fields.of("log"), &["level", "message"]) else { continue };
                let message = log.get("message");
                let visible = names.visible();
                let message = message.and_then(|node| self.template(node, &log.of("message"), &visible));
                actions.extend(message.map(|message| Action { when, message }));
                continue;
            }
            if let Some(node) = fields.get("api_call") {
                let known =
                    &["method", "url", "headers", "body", "timeout", "retry_attempts", "retry_backoff"];
                if let Some(call) = self.fields(node, &fields.of("api_call"), known) {
                    self.report(&call, "url", payload);
                }
            } else {
                self.report(&fields, "endpoint", payload);
            }
        }
        actions
    }

    /// Checks a call after the payload: it reports the payload, which the framework does with its own address and
    /// token, and nothing else.
    fn report(&mut self, fields: &Fields<'_>, url: &str, payload: Option<&str>) {
        let method = self.required(fields, "method");
        if method.is_some_and(|method| !matches!(method.as_str(), "POST" | "PUT")) {
            self.note(fields.place("method"), &fields.of("method"), "a status is reported with POST or PUT");
        }
        let plain = |text: String| text.replace(char::is_whitespace, "");
        let target = self.required(fields, url).map(plain);
        let is_report = |target: &str| {
            ["", "/nodepools/{{.nodePoolId}}"]
                .iter()
                .any(|pool| target.ends_with(&format!("/clusters/{{{{.clusterId}}}}{pool}/statuses")))
        };
        if target.is_some_and(|target| !is_report(&target)) {
            let why = "only a report to …/clusters/{{ .clusterId }}/statuses is supported";
            self.note(fields.place(url), &fields.of(url), why);
        }
        let body = self.required(fields, "body").map(plain);
        if let (Some(body), Some(payload)) = (body, payload)
            && body != format!("{{{{.{payload}}}}}")
        {
            let why = format!("only the payload is reported: {{{{ .{payload} }}}}");
            self.note(fields.place("body"), &fields.of("body"), why);
        }
    }
}

/// Returns nothing when a part is there and cannot be read.
fn flat(part: Option<Option<Tree>>) -> Option<Option<Tree>> {
    match part {
        None => Some(None),
        Some(None) => None,
        Some(tree) => Some(tree),
    }
}

//! Resources that are applied, and objects that are only looked at.

use std::collections::BTreeSet;

use wardroom_upstream::kubernetes::{Kind, Propagation};

use super::{
    Names,
    reader::{Fields, Reader},
    tree::{self, Tree},
};
use crate::{
    expression::Expression,
    template::Template,
    yaml::{Data, Node},
};

/// A resource that is applied.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    pub(crate) name: String,
    /// The kind of its object, which no template changes.
    pub(crate) kind: Kind,
    pub(crate) manifest: Tree,
    /// When it is applied; always when absent.
    pub(crate) create: Option<Expression>,
    /// When it is deleted; while the cluster is being deleted when absent.
    pub(crate) delete: Option<Expression>,
    pub(crate) propagation: Propagation,
}

/// An object that is only looked at.
#[derive(Debug, Clone)]
pub(crate) struct Discovery {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) namespace: Option<Template>,
    pub(crate) by: Found,
    /// Whether it is found as `externalResources.NAME`.
    pub(crate) is_external: bool,
}

/// How an object is found.
#[derive(Debug, Clone)]
pub(crate) enum Found {
    Name(Template),
    /// The newest object with these labels, then the first by name.
    Labels(Vec<(String, Template)>),
}

const PROPAGATIONS: &[(&str, Propagation)] = &[
    ("Background", Propagation::Background),
    ("Foreground", Propagation::Foreground),
    ("Orphan", Propagation::Orphan),
];

impl Reader {
    pub(super) fn resources(
        &mut self,
        fields: &Fields<'_>,
        names: &mut Names,
        discoveries: &[Discovery],
    ) -> Vec<Resource> {
        let nodes = self.list(fields.get("resources"), "resources");
        let mut taken: BTreeSet<String> =
            discoveries.iter().filter(|found| !found.is_external).map(|found| found.name.clone()).collect();
        // Conditions of a resource may look at every other.
        let mut all = taken.clone();
        for node in nodes {
            if let Data::Map(entries) = &node.data {
                let name = entries.iter().find(|(key, _)| key.text == "name").map(|(_, node)| &node.data);
                if let Some(Data::Text(name)) = name {
                    all.insert(name.clone());
                }
            }
        }
        names.declared.add_with("resources", all);
        let external = discoveries.iter().filter(|found| found.is_external).map(|found| found.name.clone());
        names.declared.add_with("externalResources", external.collect());
        let resources = nodes.iter().enumerate();
        resources
            .filter_map(|(at, node)| self.resource(node, &format!("resources[{at}]"), names, &mut taken))
            .collect()
    }

    fn resource(
        &mut self,
        node: &Node,
        path: &str,
        names: &Names,
        taken: &mut BTreeSet<String>,
    ) -> Option<Resource> {
        // A manifest names its object, so that `discovery` has nothing to add.
        let known = &["name", "description", "transport", "manifest", "discovery", "lifecycle"];
        let fields = self.fields(node, path, known)?;
        let name = self.required(&fields, "name");
        if let Some(name) = &name {
            self.check_name(name, fields.place("name"), &fields.of("name"), taken);
        }
        if let Some(node) = fields.get("transport") {
            let transport = self.fields(node, &fields.of("transport"), &["client"]);
            if let Some(transport) = transport {
                self.word(&transport, "client", &[("kubernetes", ())]);
            }
        }
        let manifest: Option<(Kind, Tree)> = match fields.get("manifest") {
            Some(node) => self.manifest(node, &fields.of("manifest"), names),
            None => {
                self.note(fields.at, &fields.of("manifest"), "is required");
                None
            }
        };
        let (create, delete, propagation) = self.lifecycle(&fields, names);
        let (kind, manifest) = manifest?;
        Some(Resource { name: name?, kind, manifest, create, delete, propagation })
    }

    fn lifecycle(
        &mut self,
        fields: &Fields<'_>,
        names: &Names,
    ) -> (Option<Expression>, Option<Expression>, Propagation) {
        let path = fields.of("lifecycle");
        let lifecycle =
            fields.get("lifecycle").and_then(|node| self.fields(node, &path, &["create", "delete"]));
        let Some(lifecycle) = lifecycle else { return (None, None, Propagation::Background) };
        let part = |reader: &mut Self, name: &str, known: &[&str]| {
            let fields =
                lifecycle.get(name).and_then(|node| reader.fields(node, &lifecycle.of(name), known))?;
            let when = fields.get("when").and_then(|node| reader.when(node, &fields.of("when"), names));
            Some((when, reader.word(&fields, "propagation_policy", PROPAGATIONS)))
        };
        let create = part(self, "create", &["when"]).and_then(|(when, _)| when);
        let (delete, propagation) = part(self, "delete", &["when", "propagation_policy"]).unwrap_or_default();
        (create, delete, propagation.unwrap_or_default())
    }

    /// Reads `when: {expression: …}`, or `when: …`.
    pub(super) fn when(&mut self, node: &Node, path: &str, names: &Names) -> Option<Expression> {
        let Data::Map(_) = &node.data else { return self.expression(node, path, &names.declared) };
        let fields = self.fields(node, path, &["expression"])?;
        let Some(node) = fields.get("expression") else {
            self.note(fields.at, &fields.of("expression"), "is required");
            return None;
        };
        self.expression(node, &fields.of("expression"), &names.declared)
    }

    /// Reads a manifest: a map, a text in YAML, or `ref` with the file of one.
    fn manifest(&mut self, node: &Node, path: &str, names: &Names) -> Option<(Kind, Tree)> {
        match &node.data {
            Data::Map(entries) if matches!(entries.as_slice(), [(key, _)] if key.text == "ref") => {
                let fields = self.fields(node, path, &["ref"])?;
                let file = self.text(&fields, "ref")?;
                let file = self.folder.join(file);
                match Self::open(&file) {
                    Ok((mut other, node)) => {
                        let tree = other.checked_manifest(&node, path, names);
                        self.problems.extend(other.problems);
                        tree
                    }
                    Err(problems) => {
                        let why = problems.first().map(ToString::to_string).unwrap_or_default();
                        self.note(fields.place("ref"), &fields.of("ref"), why);
                        None
                    }
                }
            }
            Data::Text(text) => match crate::yaml::read(text) {
                Ok(mut inner) => {
                    // Places inside of the text are told by the text itself.
                    settle(&mut inner, node);
                    self.checked_manifest(&inner, path, names)
                }
                Err((_, why)) => {
                    self.note(node.at, path, format!("is no YAML: {why}"));
                    None
                }
            },
            _ => self.checked_manifest(node, path, names),
        }
    }

    fn checked_manifest(&mut self, node: &Node, path: &str, names: &Names) -> Option<(Kind, Tree)> {
        let json = node.to_json();
        for pointer in ["/apiVersion", "/kind", "/metadata/name"] {
            let text = json.pointer(pointer).and_then(serde_json::Value::as_str);
            let field = pointer[1..].replace('/', ".");
            match text {
                None | Some("") => self.note(node.at, &format!("{path}.{field}"), "is required, as a text"),
                Some(text) if text.contains("{{") && field != "metadata.name" => {
                    self.note(
                        node.at,
                        &format!("{path}.{field}"),
                        "cannot be a template: the kind is watched",
                    );
                }
                Some(_) => {}
            }
        }
        let text = |field: &str| json[field].as_str().unwrap_or_default().to_owned();
        let kind = Kind::new(text("apiVersion"), text("kind"));
        let names = tree::Names { templates: &names.templates, expressions: None };
        self.tree(node, path, &names).map(|tree| (kind, tree))
    }

    pub(super) fn discoveries(&mut self, fields: &Fields<'_>, names: &Names) -> Vec<Discovery> {
        let track = fields.get("track").and_then(|node| self.fields(node, "track", &["discovery"]));
        let Some(track) = track else { return Vec::new() };
        let mut taken = BTreeSet::new();
        let nodes = self.list(track.get("discovery"), "track.discovery").iter().enumerate();
        nodes
            .filter_map(|(at, node)| {
                self.discovery(node, &format!("track.discovery[{at}]"), names, &mut taken)
            })
            .collect()
    }

    fn discovery(
        &mut self,
        node: &Node,
        path: &str,
        names: &Names,
        taken: &mut BTreeSet<String>,
    ) -> Option<Discovery> {
        let known = &[
            "name",
            "description",
            "api_version",
            "kind",
            "namespace",
            "by_name",
            "by_selectors",
            "external",
        ];
        let fields = self.fields(node, path, known)?;
        let name = self.required(&fields, "name");
        if let Some(name) = &name {
            self.check_name(name, fields.place("name"), &fields.of("name"), taken);
        }
        let api_version = self.required(&fields, "api_version");
        let kind = self.required(&fields, "kind");
        let namespace = fields
            .get("namespace")
            .and_then(|node| self.template(node, &fields.of("namespace"), &names.templates));
        let by = match (fields.get("by_name"), fields.get("by_selectors")) {
            (Some(node), None) => {
                self.template(node, &fields.of("by_name"), &names.templates).map(Found::Name)
            }
            (None, Some(node)) => self.selectors(node, &fields.of("by_selectors"), names),
            _ => {
                self.note(fields.at, path, "needs `by_name` or `by_selectors`, and not both");
                None
            }
        };
        let is_external = self.boolean(&fields, "external").unwrap_or(false);
        Some(Discovery { name: name?, kind: Kind::new(api_version?, kind?), namespace, by: by?, is_external })
    }

    fn selectors(&mut self, node: &Node, path: &str, names: &Names) -> Option<Found> {
        let fields = self.fields(node, path, &["label_selector"])?;
        let Some(Data::Map(entries)) = fields.get("label_selector").map(|node| &node.data) else {
            self.note(fields.at, &fields.of("label_selector"), "is required, as a map of labels");
            return None;
        };
        let mut labels = Vec::new();
        for (key, value) in entries {
            let path = format!("{path}.label_selector.{}", key.text);
            labels.push((key.text.clone(), self.template(value, &path, &names.templates)?));
        }
        if labels.is_empty() {
            self.note(fields.at, &fields.of("label_selector"), "needs a label: it would select everything");
        }
        Some(Found::Labels(labels))
    }
}

/// Gives every value of a text the place of the text.
fn settle(inner: &mut Node, outer: &Node) {
    inner.at = outer.at;
    match &mut inner.data {
        Data::List(nodes) => nodes.iter_mut().for_each(|node| settle(node, outer)),
        Data::Map(entries) => {
            for (key, node) in entries {
                key.at = outer.at;
                settle(node, outer);
            }
        }
        Data::Null | Data::Bool(_) | Data::Int(_) | Data::Float(_) | Data::Text(_) => {}
    }
}

//! The kinds that the fake serves: a table, and those that a CustomResourceDefinition adds.

use serde_json::{Value, json};

use super::schema::Type;

/// Built-in kinds: group and version, kind, plural, short names, then letters: `n` namespaced, `s` with status,
/// `g` with a generation, `a` in the category `all`, `i` without deletion of collections.
const TABLE: &[(&str, &str, &str, &str, &str)] = &[
    ("v1", "ConfigMap", "configmaps", "cm", "n"),
    ("v1", "Event", "events", "ev", "n"),
    ("v1", "Namespace", "namespaces", "ns", "si"),
    ("v1", "Pod", "pods", "po", "nsga"),
    ("v1", "Secret", "secrets", "", "n"),
    ("v1", "Service", "services", "svc", "nsa"),
    ("v1", "ServiceAccount", "serviceaccounts", "sa", "n"),
    ("apps/v1", "Deployment", "deployments", "deploy", "nsga"),
    ("apps/v1", "ReplicaSet", "replicasets", "rs", "nsga"),
    ("batch/v1", "Job", "jobs", "", "nsga"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", "", ""),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", "", ""),
    ("rbac.authorization.k8s.io/v1", "Role", "roles", "", "n"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", "", "n"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", "crd crds", "sg"),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kind {
    /// Empty for the first group.
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
    pub(super) plural: String,
    pub(super) singular: String,
    pub(super) short: Vec<String>,
    pub(super) is_namespaced: bool,
    pub(super) has_status: bool,
    pub(super) has_generation: bool,
    has_collection: bool,
    is_in_all: bool,
    is_custom: bool,
}

/// Returns the built-in kinds.
pub(super) fn built_in() -> Vec<Kind> {
    let kinds = TABLE.iter().map(|(api_version, kind, plural, short, letters)| {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let has = |letter| letters.contains(letter);
        Kind {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: (*kind).to_owned(),
            plural: (*plural).to_owned(),
            singular: kind.to_ascii_lowercase(),
            short: short.split_whitespace().map(str::to_owned).collect(),
            is_namespaced: has('n'),
            has_status: has('s'),
            has_generation: has('g'),
            has_collection: !has('i'),
            is_in_all: has('a'),
            is_custom: false,
        }
    });
    kinds.collect()
}

/// Returns the kinds that a CustomResourceDefinition adds, one for each served version.
pub(super) fn custom(definition: &Value) -> Vec<Kind> {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names = &spec["names"];
    let kind = text(&names["kind"]);
    let list = |value: &Value| value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>();
    let singular = Some(text(&names["singular"])).filter(|name| !name.is_empty());
    let versions =
        spec["versions"].as_array().into_iter().flatten().filter(|version| version["served"] == true);
    versions
        .map(|version| Kind {
            group: text(&spec["group"]),
            version: text(&version["name"]),
            kind: kind.clone(),
            plural: text(&names["plural"]),
            singular: singular.clone().unwrap_or_else(|| kind.to_ascii_lowercase()),
            short: list(&names["shortNames"]),
            is_namespaced: spec["scope"] == "Namespaced",
            has_status: version["subresources"]["status"].is_object(),
            has_generation: true,
            has_collection: true,
            is_in_all: false,
            is_custom: true,
        })
        .collect()
}

impl Kind {
    /// Such as `apps/v1`.
    pub(super) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Such as `deployments.apps`.
    pub(super) fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Such as `Deployment.apps`.
    pub(super) fn qualified_kind(&self) -> String {
        if self.group.is_empty() { self.kind.clone() } else { format!("{}.{}", self.kind, self.group) }
    }

    pub(super) fn schema(&self) -> Type {
        if self.is_custom { Type::Custom } else { Type::of(&self.kind) }
    }

    /// Returns its entries in the list of resources: its own, and those of its subresources.
    pub(super) fn resources(&self) -> Vec<Value> {
        let mut verbs =
            vec!["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
        verbs.retain(|verb| self.has_collection || *verb != "deletecollection");
        let mut own = json!({"name": self.plural, "singularName": self.singular,
            "namespaced": self.is_namespaced, "kind": self.kind, "verbs": verbs});
        if !self.short.is_empty() {
            own["shortNames"] = json!(self.short);
        }
        if self.is_in_all {
            own["categories"] = json!(["all"]);
        }
        let mut all = vec![own];
        if self.has_status {
            all.push(json!({"name": format!("{}/status", self.plural), "singularName": "",
                "namespaced": self.is_namespaced, "kind": self.kind, "verbs": ["get", "patch", "update"]}));
        }
        all
    }

    pub(super) fn has(&self, subresource: &str) -> bool {
        match subresource {
            "" => true,
            "status" => self.has_status,
            _ => false,
        }
    }
}

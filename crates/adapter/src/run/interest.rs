//! Which objects of Kubernetes matter to which cluster, so that a change of one wakes the right clusters.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use serde_json::Value as Json;
use wardroom_upstream::kubernetes::{Kind, Target};

/// Objects that a cluster was looked at with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Interest {
    /// One object.
    Object(Target),
    /// All objects with some labels.
    Labels { kind: Kind, namespace: Option<String>, labels: Vec<(String, String)> },
}

impl Interest {
    fn covers(&self, object: &Json) -> bool {
        let metadata = &object["metadata"];
        let is_of = |kind: &Kind| {
            object["kind"] == kind.kind.as_str() && object["apiVersion"] == kind.api_version.as_str()
        };
        // Without a namespace it is that of the configuration, or none: the name decides.
        let is_in = |namespace: &Option<String>| {
            namespace.as_ref().is_none_or(|namespace| {
                metadata["namespace"].is_null() || metadata["namespace"] == namespace.as_str()
            })
        };
        match self {
            Self::Object(target) => {
                is_of(&target.kind) && metadata["name"] == target.name.as_str() && is_in(&target.namespace)
            }
            Self::Labels { kind, namespace, labels } => {
                let has = |(key, value): &(String, String)| metadata["labels"][key] == value.as_str();
                is_of(kind) && is_in(namespace) && labels.iter().all(has)
            }
        }
    }
}

/// The interests of all clusters.
#[derive(Debug, Default)]
pub(super) struct Interests(Mutex<HashMap<String, Vec<Interest>>>);

impl Interests {
    pub(super) fn set(&self, cluster: &str, interests: Vec<Interest>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(cluster.to_owned(), interests);
    }

    pub(super) fn forget(&self, cluster: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(cluster);
    }

    /// Returns the clusters that an object matters to.
    pub(super) fn clusters_of(&self, object: &Json) -> Vec<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let matters = |interests: &[Interest]| interests.iter().any(|interest| interest.covers(object));
        all.iter().filter(|(_, interests)| matters(interests)).map(|(cluster, _)| cluster.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_wakes_the_clusters_that_looked_at_the_object() {
        let interests = Interests::default();
        let kind = || Kind::new("v1", "ConfigMap");
        let target = |namespace: Option<&str>| Target {
            kind: kind(),
            namespace: namespace.map(str::to_owned),
            name: "m".to_owned(),
        };
        interests.set("a", vec![Interest::Object(target(Some("x")))]);
        interests.set(
            "b",
            vec![Interest::Labels {
                kind: kind(),
                namespace: None,
                labels: vec![("app".to_owned(), "m".to_owned())],
            }],
        );
        interests.set("c", vec![Interest::Object(target(None))]);
        let woken = |namespace: &str, labels: Json| {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": namespace, "labels": labels}});
            let mut woken = interests.clusters_of(&object);
            woken.sort();
            woken
        };
        assert_eq!(woken("x", json!({})), ["a", "c"]);
        assert_eq!(woken("y", json!({"app": "m"})), ["b", "c"]);
        interests.forget("c");
        assert_eq!(woken("y", json!({})), Vec::<String>::new());
    }
}

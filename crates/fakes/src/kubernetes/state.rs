//! The objects, their versions, and the log of changes that watches read.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::kinds::{self, Kind};

/// The changes that the log keeps; older ones are 410.
const LOG: usize = 10_000;

/// An object's place: API group, plural, namespace (empty without one) and name.
pub(super) type Key = (String, String, String, String);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) version: u64,
    #[serde(with = "entries")]
    pub(super) objects: BTreeMap<Key, Value>,
    #[serde(skip)]
    pub(super) log: VecDeque<Event>,
    /// The log has all changes after this version.
    pub(super) oldest: u64,
    /// Orders for the controllers, by kind, then namespace and name or empty for all.
    #[serde(default)]
    pub(super) orders: Vec<super::controllers::Order>,
    /// The version at which the controllers had nothing to do.
    #[serde(skip)]
    pub(super) settled: Option<u64>,
}

/// A change of an object.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) version: u64,
    pub(super) key: Key,
    /// Absent when it was new.
    pub(super) before: Option<Value>,
    pub(super) after: Value,
    pub(super) is_deletion: bool,
}

impl State {
    /// Returns a cluster with the namespaces that every cluster has.
    pub(super) fn new(now: Timestamp) -> Self {
        let mut state = Self {
            version: 1,
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            oldest: 1,
            orders: Vec::new(),
            settled: None,
        };
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            let mut namespace = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name,
                "uid": uid(), "creationTimestamp": seconds(now), "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
            let key = (String::new(), "namespaces".to_owned(), String::new(), name.to_owned());
            state.stamp(&mut namespace);
            state.put(key, namespace);
        }
        state
    }

    /// Returns all kinds that are served now.
    pub(super) fn kinds(&self) -> Vec<Kind> {
        let definitions =
            self.objects.iter().filter(|(key, _)| key.0 == "apiextensions.k8s.io").map(|(_, object)| object);
        kinds::built_in().into_iter().chain(definitions.flat_map(kinds::custom)).collect()
    }

    /// Gives an object the next version.
    pub(super) fn stamp(&mut self, object: &mut Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
    }

    /// Stores an object that has the newest version, and logs the change.
    pub(super) fn put(&mut self, key: Key, object: Value) {
        let before = self.objects.insert(key.clone(), object.clone());
        self.note(Event { version: self.version, key, before, after: object, is_deletion: false });
    }

    /// Removes an object; its last content gets a version of its own.
    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(mut object) = self.objects.remove(key) {
            let before = Some(object.clone());
            self.stamp(&mut object);
            self.note(Event {
                version: self.version,
                key: key.clone(),
                before,
                after: object,
                is_deletion: true,
            });
        }
    }

    fn note(&mut self, event: Event) {
        self.log.push_back(event);
        if self.log.len() > LOG {
            self.log.pop_front();
            self.oldest = self.log.front().map_or(self.version, |event| event.version - 1);
        }
    }

    /// Forgets the log, as a compaction does.
    pub(super) fn expire(&mut self) {
        self.log.clear();
        // A version of its own, so that a watch that is up to date expires as well.
        self.version += 1;
        self.oldest = self.version;
    }
}

/// Returns a time as objects have it.
pub(super) fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

pub(super) fn uid() -> String {
    let digits = crate::fault::random(16);
    let part = |from: usize, to: usize| &digits[from..to];
    format!("{}-{}-4{}-a{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
}

/// A map with keys that are no texts, as a list of its entries.
mod entries {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value;

    use super::Key;

    pub(super) fn serialize<S: Serializer>(map: &BTreeMap<Key, Value>, to: S) -> Result<S::Ok, S::Error> {
        map.iter().collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<Key, Value>, D::Error> {
        Ok(Vec::<(Key, Value)>::deserialize(from)?.into_iter().collect())
    }
}

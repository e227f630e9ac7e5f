//! Sets of fields, the arithmetic of ownership: what an object has, what differs, and what is taken away.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::schema::{Type, key_of};

/// A set of fields. The names are those of `fieldsV1`: `f:name`, `k:{…}` for an item by its keys, `v:…` for an item of a set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fields {
    /// Whether this field itself is in the set.
    is_member: bool,
    below: BTreeMap<String, Fields>,
}

/// The differences between two versions of an object.
#[derive(Debug, Default)]
pub(super) struct Differences {
    /// Added or modified.
    pub(super) changed: Fields,
    pub(super) removed: Fields,
}

/// Returns a key as a path shows it, such as `name="c"`.
fn shown(key: &str) -> String {
    let key: Map<String, Value> = serde_json::from_str(key).unwrap_or_default();
    key.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",")
}

/// Returns the parts of a value by the names that ownership gives them.
fn parts(kind: Type, value: &Value) -> BTreeMap<String, (Type, Value)> {
    let mut parts = BTreeMap::new();
    match (kind, value) {
        (Type::Keyed(_, keys), Value::Array(items)) => {
            for item in items {
                parts.insert(key_of(keys, item), (kind.item(), item.clone()));
            }
        }
        (Type::Set, Value::Array(items)) => {
            for item in items {
                parts.insert(format!("v:{item}"), (Type::Atomic, item.clone()));
            }
        }
        (_, Value::Object(map)) => {
            for (name, value) in map {
                parts.insert(format!("f:{name}"), (kind.field(name).unwrap_or(Type::Atomic), value.clone()));
            }
        }
        _ => {}
    }
    parts
}

impl Fields {
    pub(super) fn is_empty(&self) -> bool {
        !self.is_member && self.below.values().all(Self::is_empty)
    }

    fn leaf() -> Self {
        Self { is_member: true, below: BTreeMap::new() }
    }

    fn put(&mut self, name: &str, fields: Self) {
        if !fields.is_empty() {
            self.below.insert(name.to_owned(), fields);
        }
    }

    /// Returns the fields that an applied configuration claims: its leaves, and the items of its lists.
    pub(super) fn applied(kind: Type, value: &Value) -> Self {
        let mut fields = Self::default();
        for (name, (part, value)) in parts(kind, value) {
            let mut below = if part.is_split(&value) { Self::applied(part, &value) } else { Self::leaf() };
            below.is_member |= name.starts_with("k:");
            fields.put(&name, below);
        }
        fields
    }

    /// Returns all fields of a value, also those that only hold others.
    fn whole(kind: Type, name: &str, value: &Value) -> Self {
        if !kind.is_split(value) {
            return Self::leaf();
        }
        let field = name.trim_start_matches("f:");
        let mut fields =
            Self { is_member: name.starts_with("k:") || kind.is_remembered(field), ..Self::default() };
        for (name, (part, value)) in parts(kind, value) {
            fields.put(&name, Self::whole(part, &name, &value));
        }
        fields
    }

    /// Returns the differences between two values.
    pub(super) fn compare(kind: Type, before: &Value, after: &Value) -> Differences {
        let mut found = Differences::default();
        let (before, after) = (parts(kind, before), parts(kind, after));
        for (name, (part, value)) in &after {
            match before.get(name) {
                None => found.changed.put(name, Self::whole(*part, name, value)),
                Some((_, old)) if old == value => {}
                Some((_, old)) if part.is_split(value) && part.is_split(old) => {
                    let below = Self::compare(*part, old, value);
                    found.changed.put(name, below.changed);
                    found.removed.put(name, below.removed);
                }
                Some((_, old)) => {
                    found.changed.put(name, Self::whole(*part, name, value));
                    if part.is_split(old) {
                        found.removed.put(name, Self::compare(*part, old, &Value::Null).removed);
                    }
                }
            }
        }
        for (name, (part, value)) in &before {
            if !after.contains_key(name) {
                found.removed.put(name, Self::whole(*part, name, value));
            }
        }
        found
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.is_member |= other.is_member;
        for (name, fields) in &other.below {
            self.below.entry(name.clone()).or_default().add(fields);
        }
    }

    pub(super) fn subtract(&mut self, other: &Self) {
        self.is_member &= !other.is_member;
        for (name, fields) in &other.below {
            if let Some(own) = self.below.get_mut(name) {
                own.subtract(fields);
            }
        }
        self.below.retain(|_, fields| !fields.is_empty());
    }

    /// Removes fields that others hold, together with everything that holds one of those.
    pub(super) fn spare(&mut self, others: &Self) {
        for (name, fields) in &mut self.below {
            if let Some(held) = others.below.get(name) {
                fields.is_member = false;
                fields.spare(held);
            }
        }
        self.below.retain(|_, fields| !fields.is_empty());
    }

    pub(super) fn common(&self, other: &Self) -> Self {
        let mut common = Self { is_member: self.is_member && other.is_member, ..Self::default() };
        for (name, fields) in &self.below {
            if let Some(other) = other.below.get(name) {
                common.put(name, fields.common(other));
            }
        }
        common
    }

    /// Keeps, or drops, the fields below one name of the object.
    pub(super) fn only(&mut self, names: &[&str], keep: bool) {
        self.below.retain(|name, _| names.contains(&name.as_str()) == keep);
    }

    /// Drops a field.
    pub(super) fn drop(&mut self, path: &[&str]) {
        match path {
            [] => {}
            [last] => drop(self.below.remove(*last)),
            [first, rest @ ..] => {
                if let Some(below) = self.below.get_mut(*first) {
                    below.drop(rest);
                }
            }
        }
        self.below.retain(|_, fields| !fields.is_empty());
    }

    /// Returns the paths of all fields of the set, such as `.spec.replicas`.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        for (name, fields) in &self.below {
            let own = match name.split_once(':') {
                Some(("f", name)) => format!(".{name}"),
                Some(("k", key)) => format!("[{}]", shown(key)),
                _ => format!("[={}]", name.trim_start_matches("v:")),
            };
            if fields.is_member {
                paths.push(own.clone());
            }
            paths.extend(fields.paths().into_iter().map(|below| format!("{own}{below}")));
        }
        paths
    }

    /// Removes the fields of the set from a value.
    pub(super) fn remove_from(&self, kind: Type, value: &mut Value) {
        match (kind, value) {
            (Type::Keyed(_, keys), Value::Array(items)) => {
                items.retain_mut(|item| match self.below.get(&key_of(keys, item)) {
                    Some(fields) if fields.is_member => false,
                    Some(fields) => {
                        fields.remove_from(kind.item(), item);
                        true
                    }
                    None => true,
                });
            }
            (Type::Set, Value::Array(items)) => {
                items.retain(|item| !self.below.contains_key(&format!("v:{item}")));
            }
            (_, Value::Object(map)) => {
                for (name, fields) in &self.below {
                    let name = name.trim_start_matches("f:");
                    let (Some(part), Some(below)) = (kind.field(name), map.get_mut(name)) else { continue };
                    fields.remove_from(part, below);
                    let is_emptied = !fields.below.is_empty() && !part.is_split(below);
                    if fields.is_member && fields.below.is_empty() || is_emptied {
                        map.remove(name);
                    }
                }
            }
            _ => {}
        }
    }

    /// Reads `fieldsV1`.
    pub(super) fn read(value: &Value) -> Self {
        let Some(map) = value.as_object() else { return Self::default() };
        let mut fields = Self { is_member: map.is_empty() || map.contains_key("."), ..Self::default() };
        for (name, below) in map.iter().filter(|(name, _)| *name != ".") {
            fields.put(name, Self::read(below));
        }
        fields
    }

    /// Returns it as `fieldsV1`.
    pub(super) fn write(&self) -> Value {
        let mut map = Map::new();
        if self.is_member && !self.below.is_empty() {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        map.extend(self.below.iter().map(|(name, fields)| (name.clone(), fields.write())));
        Value::Object(map)
    }
}

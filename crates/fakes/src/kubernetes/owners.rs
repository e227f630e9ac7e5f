//! `managedFields`: which manager owns which fields, and what an apply or an update makes of that.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{fields::Fields, kinds::Kind, reply::Refusal, schema::Type, state::seconds};

/// Metadata that has no owner.
const UNOWNED: &[&str] = &[
    "f:name",
    "f:generateName",
    "f:namespace",
    "f:selfLink",
    "f:uid",
    "f:resourceVersion",
    "f:generation",
    "f:creationTimestamp",
    "f:deletionTimestamp",
    "f:deletionGracePeriodSeconds",
    "f:managedFields",
];

/// The writer of a change.
#[derive(Debug, Clone)]
pub(super) struct Writer<'a> {
    pub(super) manager: &'a str,
    /// Empty, or `status`.
    pub(super) subresource: &'a str,
    pub(super) now: Timestamp,
}

/// One entry of `managedFields`.
#[derive(Debug, Clone)]
struct Owner {
    manager: String,
    operation: String,
    api_version: String,
    time: String,
    subresource: String,
    fields: Fields,
}

impl Owner {
    fn read(entry: &Value) -> Self {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        let mut fields = Fields::default();
        if entry["fieldsV1"].as_object().is_some_and(|map| !map.is_empty()) {
            fields = Fields::read(&entry["fieldsV1"]);
        }
        Self {
            manager: text("manager"),
            operation: text("operation"),
            api_version: text("apiVersion"),
            time: text("time"),
            subresource: text("subresource"),
            fields,
        }
    }

    fn write(&self) -> Value {
        let mut entry = json!({"manager": self.manager, "operation": self.operation, "apiVersion": self.api_version,
            "time": self.time, "fieldsType": "FieldsV1", "fieldsV1": self.fields.write()});
        if !self.subresource.is_empty() {
            entry["subresource"] = json!(self.subresource);
        }
        entry
    }
}

/// The owners of an object's fields.
#[derive(Debug, Clone, Default)]
pub(super) struct Owners(Vec<Owner>);

impl Owners {
    pub(super) fn read(object: &Value) -> Self {
        let entries = object["metadata"]["managedFields"].as_array();
        Self(entries.into_iter().flatten().map(Owner::read).collect())
    }

    /// Writes the owners into the object, in the server's order.
    pub(super) fn write(mut self, object: &mut Value) {
        self.0.retain(|owner| !owner.fields.is_empty());
        self.0.sort_by(|a, b| {
            let order = |owner: &Owner| {
                let Owner { operation, time, manager, api_version, subresource, .. } = owner.clone();
                (operation, time, manager, api_version, subresource)
            };
            order(a).cmp(&order(b))
        });
        if !self.0.is_empty() {
            object["metadata"]["managedFields"] = self.0.iter().map(Owner::write).collect();
        }
    }

    fn entry(&mut self, kind: &Kind, writer: &Writer<'_>, operation: &str) -> &mut Owner {
        let api_version = kind.api_version();
        let position = self.0.iter().position(|owner| {
            owner.manager == writer.manager
                && owner.operation == operation
                && owner.subresource == writer.subresource
                && owner.api_version == api_version
        });
        let position = position.unwrap_or_else(|| {
            self.0.push(Owner {
                manager: writer.manager.to_owned(),
                operation: operation.to_owned(),
                api_version,
                time: seconds(writer.now),
                subresource: writer.subresource.to_owned(),
                fields: Fields::default(),
            });
            self.0.len() - 1
        });
        &mut self.0[position]
    }

    /// Gives the writer of an update what differs, and takes it from all others.
    pub(super) fn updated(&mut self, kind: &Kind, writer: &Writer<'_>, before: &Value, after: &Value) {
        let mut found = Fields::compare(kind.schema(), before, after);
        own_only(kind, writer, &mut found.changed);
        for owner in &mut self.0 {
            owner.fields.subtract(&found.removed);
            let is_writer = owner.manager == writer.manager && owner.operation == "Update";
            if !(is_writer && owner.subresource == writer.subresource) {
                owner.fields.subtract(&found.changed);
            }
        }
        if found.changed.is_empty() {
            return;
        }
        let time = seconds(writer.now);
        let owner = self.entry(kind, writer, "Update");
        owner.fields.add(&found.changed);
        owner.time = time;
    }

    /// Merges an applied configuration into an object, and moves ownership.
    ///
    /// # Errors
    /// The conflicts with other managers, unless they are forced.
    pub(super) fn applied(
        &mut self,
        kind: &Kind,
        writer: &Writer<'_>,
        before: &Value,
        configuration: &Value,
        is_forced: bool,
    ) -> Result<Value, Refusal> {
        let schema = kind.schema();
        let mut claimed = Fields::applied(schema, configuration);
        own_only(kind, writer, &mut claimed);
        let mut merged = merge(schema, before, configuration);
        let changed = Fields::compare(schema, before, &merged).changed;
        let is_writer = |owner: &Owner| {
            owner.manager == writer.manager
                && owner.operation == "Apply"
                && owner.subresource == writer.subresource
        };
        let mut conflicts = Vec::new();
        for owner in self.0.iter_mut().filter(|owner| !is_writer(owner)) {
            let lost = owner.fields.common(&changed);
            if !lost.is_empty() {
                conflicts.extend(
                    lost.paths()
                        .into_iter()
                        .map(|path| (owner.manager.clone(), owner.api_version.clone(), path)),
                );
                owner.fields.subtract(&lost);
            }
        }
        if !conflicts.is_empty() && !is_forced {
            return Err(Refusal::conflicts(&conflicts));
        }
        let mut left_out = self
            .0
            .iter()
            .find(|owner| is_writer(owner))
            .map(|owner| owner.fields.clone())
            .unwrap_or_default();
        left_out.subtract(&claimed);
        left_out.spare(&claimed);
        for owner in self.0.iter().filter(|owner| !is_writer(owner)) {
            left_out.spare(&owner.fields);
        }
        left_out.remove_from(schema, &mut merged);
        let time = seconds(writer.now);
        let owner = self.entry(kind, writer, "Apply");
        if owner.fields != claimed {
            owner.fields = claimed;
            owner.time = time;
        }
        Ok(merged)
    }
}

/// Leaves only what this writer may own: not the names of the object, and either the status or everything else.
fn own_only(kind: &Kind, writer: &Writer<'_>, fields: &mut Fields) {
    fields.only(&["f:apiVersion", "f:kind"], false);
    for name in UNOWNED {
        fields.drop(&["f:metadata", name]);
    }
    if writer.subresource == "status" {
        fields.only(&["f:status", "f:metadata"], true);
    } else if kind.has_status {
        fields.only(&["f:status"], false);
    }
    if kind.kind == "Namespace" {
        fields.only(&["f:spec"], false);
    }
}

/// Returns an object with a configuration merged into it.
fn merge(kind: Type, live: &Value, configuration: &Value) -> Value {
    match (kind, live, configuration) {
        (_, live, Value::Null) => live.clone(),
        (Type::Keyed(_, keys), Value::Array(live), Value::Array(items)) => {
            let mut merged = live.clone();
            for item in items {
                let key = super::schema::key_of(keys, item);
                match merged.iter_mut().find(|live| super::schema::key_of(keys, live) == key) {
                    Some(live) => *live = merge(kind.item(), live, item),
                    None => merged.push(item.clone()),
                }
            }
            Value::Array(merged)
        }
        (Type::Set, Value::Array(live), Value::Array(items)) => {
            let new = items.iter().filter(|item| !live.contains(item));
            Value::Array(live.iter().chain(new).cloned().collect())
        }
        (_, Value::Object(live), Value::Object(fields)) if kind != Type::Atomic => {
            let mut merged = live.clone();
            for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                let field = kind.field(name).unwrap_or(Type::Atomic);
                let live = merged.get(name).cloned().unwrap_or_default();
                merged.insert(name.clone(), merge(field, &live, value));
            }
            Value::Object(merged)
        }
        _ => configuration.clone(),
    }
}

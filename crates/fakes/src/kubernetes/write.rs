//! Changes of objects: creation, update, patch, apply and deletion, each with the rules that the server holds it to.

use serde_json::{Value, json};

use super::{
    defaults,
    kinds::Kind,
    owners::{Owners, Writer},
    patch,
    reply::Refusal,
    rules,
    state::{Key, State, seconds, uid},
};

/// The place of an object, as a path names it.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) kind: Kind,
    /// Empty for kinds without namespaces.
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Place {
    pub(super) fn key(&self) -> Key {
        (self.kind.group.clone(), self.kind.plural.clone(), self.namespace.clone(), self.name.clone())
    }
}

/// A patch, by its content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patch {
    Apply { is_forced: bool },
    Merge,
    Strategic,
    Json,
}

/// What a deletion asks for.
#[derive(Debug, Clone, Default)]
pub(super) struct Deletion {
    pub(super) propagation: String,
    pub(super) uid: Option<String>,
    pub(super) version: Option<String>,
    pub(super) is_dry: bool,
}

/// A change that passed all rules, before it is stored.
struct Draft<'a> {
    place: &'a Place,
    writer: &'a Writer<'a>,
    before: Option<Value>,
    /// The owners after an apply; an update computes them from the differences.
    owners: Option<Owners>,
    is_dry: bool,
}

impl State {
    pub(super) fn object(&self, place: &Place) -> Result<Value, Refusal> {
        self.objects.get(&place.key()).cloned().ok_or_else(|| Refusal::not_found(&place.kind, &place.name))
    }

    /// Refuses new objects in a namespace that is absent or ends.
    fn admit(&self, place: &Place) -> Result<(), Refusal> {
        if !place.kind.is_namespaced {
            return Ok(());
        }
        let key = (String::new(), "namespaces".to_owned(), String::new(), place.namespace.clone());
        match self.objects.get(&key) {
            None => {
                let kinds = super::kinds::built_in();
                let kind = kinds.iter().find(|kind| kind.kind == "Namespace");
                Err(kind.map_or_else(Refusal::no_resource, |kind| Refusal::not_found(kind, &place.namespace)))
            }
            Some(namespace) if namespace["metadata"]["deletionTimestamp"].is_string() => {
                Err(Refusal::ending(&place.kind, &place.namespace, &place.name))
            }
            Some(_) => Ok(()),
        }
    }

    pub(super) fn create(
        &mut self,
        place: &Place,
        object: Value,
        writer: &Writer<'_>,
        is_dry: bool,
    ) -> Result<Value, Refusal> {
        self.admit(place)?;
        if self.objects.contains_key(&place.key()) {
            return Err(Refusal::exists(&place.kind, &place.name));
        }
        self.finish(Draft { place, writer, before: None, owners: None, is_dry }, object)
    }

    pub(super) fn update(
        &mut self,
        place: &Place,
        object: Value,
        writer: &Writer<'_>,
        is_dry: bool,
    ) -> Result<Value, Refusal> {
        let before = Some(self.object(place)?);
        self.finish(Draft { place, writer, before, owners: None, is_dry }, object)
    }

    /// Patches an object; an apply may create it. Returns whether it did.
    pub(super) fn patch(
        &mut self,
        place: &Place,
        how: Patch,
        body: &Value,
        writer: &Writer<'_>,
        is_dry: bool,
    ) -> Result<(Value, bool), Refusal> {
        let schema = place.kind.schema();
        if let Patch::Apply { is_forced } = how {
            let before = self.objects.get(&place.key()).cloned();
            if before.is_none() {
                self.admit(place)?;
            }
            if let Some(error) = schema.refuse("", body) {
                return Err(Refusal::untyped(&place.kind, &place.namespace, &place.name, &error));
            }
            let mut configuration = body.clone();
            defaults::drop_nulls(&mut configuration);
            let mut owners = before.as_ref().map(Owners::read).unwrap_or_default();
            let live = before.clone().unwrap_or_else(|| json!({}));
            let object = owners.applied(&place.kind, writer, &live, &configuration, is_forced)?;
            let is_new = before.is_none();
            let draft = Draft { place, writer, before, owners: Some(owners), is_dry };
            return Ok((self.finish(draft, object)?, is_new));
        }
        let before = self.object(place)?;
        let mut object = before.clone();
        match how {
            Patch::Strategic => patch::strategic(schema, &mut object, body),
            Patch::Json => patch::json(&mut object, body)?,
            Patch::Merge | Patch::Apply { .. } => patch::merge(&mut object, body),
        }
        let draft = Draft { place, writer, before: Some(before), owners: None, is_dry };
        Ok((self.finish(draft, object)?, false))
    }

    /// Completes, checks and stores an object, unless nothing changed.
    fn finish(&mut self, draft: Draft<'_>, object: Value) -> Result<Value, Refusal> {
        let Draft { place, writer, before, owners, is_dry } = draft;
        let Place { kind, namespace, name } = place;
        if !object.is_object() || !object["metadata"].is_object() {
            return Err(Refusal::bad("the body is no object with `metadata`"));
        }
        let claimed = &object["metadata"]["resourceVersion"];
        let is_stale =
            before.as_ref().is_some_and(|before| before["metadata"]["resourceVersion"] != *claimed);
        if is_stale && claimed.as_str().is_some_and(|version| !version.is_empty()) {
            return Err(Refusal::stale(kind, name));
        }
        let mut after = identify(place, writer, before.as_ref(), object)?;
        defaults::complete(kind, &mut after);
        if let Some(error) = kind.schema().refuse("", &after) {
            let message = format!(
                "{} in version {:?} cannot be handled as a {}: {error}",
                kind.kind, kind.version, kind.kind
            );
            return Err(Refusal::bad(&message));
        }
        rules::check(kind, name, before.as_ref(), &after)?;
        let generation =
            before.as_ref().map_or(0, |before| before["metadata"]["generation"].as_i64().unwrap_or(0));
        if kind.has_generation {
            let is_next =
                before.as_ref().is_none_or(|before| is_other_generation(kind, writer, before, &after));
            after["metadata"]["generation"] = json!(generation + i64::from(is_next));
        }
        let owners = owners.unwrap_or_else(|| {
            let mut owners = before.as_ref().map(Owners::read).unwrap_or_default();
            owners.updated(kind, writer, before.as_ref().unwrap_or(&Value::Null), &after);
            owners
        });
        owners.write(&mut after);
        if before.as_ref() == Some(&after) || is_dry {
            return Ok(after);
        }
        self.stamp(&mut after);
        self.put((kind.group.clone(), kind.plural.clone(), namespace.clone(), name.clone()), after.clone());
        self.remove_if_free(&place.key());
        Ok(after)
    }

    /// Removes an object that is being deleted and that nothing holds.
    pub(super) fn remove_if_free(&mut self, key: &Key) {
        let Some(object) = self.objects.get(key) else { return };
        let is_ending = object["metadata"]["deletionTimestamp"].is_string();
        let is_held = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
        let is_namespace = key.1 == "namespaces";
        if is_ending
            && !is_held(&object["metadata"]["finalizers"])
            && !(is_namespace && is_held(&object["spec"]["finalizers"]))
        {
            self.remove(key);
        }
    }

    /// Deletes an object, or marks it as deleted while finalizers hold it.
    pub(super) fn delete(
        &mut self,
        place: &Place,
        deletion: &Deletion,
        writer: &Writer<'_>,
    ) -> Result<Value, Refusal> {
        let Place { kind, name, .. } = place;
        let mut object = self.object(place)?;
        let is = |wanted: &Option<String>, field: &str| {
            wanted.as_ref().is_none_or(|wanted| object["metadata"][field] == wanted.as_str())
        };
        if !is(&deletion.uid, "uid") || !is(&deletion.version, "resourceVersion") {
            return Err(Refusal::precondition(kind, name));
        }
        if deletion.is_dry || object["metadata"]["deletionTimestamp"].is_string() {
            return Ok(object);
        }
        let before = object.clone();
        let metadata = &mut object["metadata"];
        if deletion.propagation == "Foreground" {
            let mut finalizers = metadata["finalizers"].as_array().cloned().unwrap_or_default();
            finalizers.push(json!("foregroundDeletion"));
            metadata["finalizers"] = json!(finalizers);
        }
        if deletion.propagation == "Orphan" {
            self.orphan(&before["metadata"]["uid"]);
        }
        let metadata = &mut object["metadata"];
        let is_namespace = kind.kind == "Namespace";
        let is_held = metadata["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        if !is_held && !is_namespace {
            let uid = metadata["uid"].clone();
            self.remove(&place.key());
            let mut details = json!({"name": name, "kind": kind.plural, "uid": uid});
            if !kind.group.is_empty() {
                details["group"] = json!(kind.group);
            }
            return Ok(
                json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}),
            );
        }
        metadata["deletionTimestamp"] = json!(seconds(writer.now));
        if is_namespace {
            object["status"]["phase"] = json!("Terminating");
        } else {
            metadata["deletionGracePeriodSeconds"] = json!(0);
            if kind.has_generation {
                metadata["generation"] = json!(metadata["generation"].as_i64().unwrap_or(0) + 1);
            }
        }
        defaults::drop_nulls(&mut object);
        self.stamp(&mut object);
        self.put(place.key(), object.clone());
        Ok(object)
    }

    /// Lets the objects that an object owns stay.
    fn orphan(&mut self, owner: &Value) {
        let owned: Vec<_> =
            self.objects.iter().filter(|(_, object)| owners_of(object).any(|uid| uid == *owner)).collect();
        let owned: Vec<_> = owned.into_iter().map(|(key, object)| (key.clone(), object.clone())).collect();
        for (key, mut object) in owned {
            if let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() {
                owners.retain(|reference| reference["uid"] != *owner);
            }
            self.stamp(&mut object);
            self.put(key, object);
        }
    }
}

/// Returns the uids of an object's owners.
pub(super) fn owners_of(object: &Value) -> impl Iterator<Item = Value> {
    let references = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    references.into_iter().map(|mut reference| reference["uid"].take())
}

/// Gives an object the fields that only the server sets, and keeps the part that this path does not write.
fn identify(
    place: &Place,
    writer: &Writer<'_>,
    before: Option<&Value>,
    mut object: Value,
) -> Result<Value, Refusal> {
    let Place { kind, namespace, name } = place;
    let named = |field: &str, expected: &str| match object["metadata"][field].as_str() {
        Some(said) if !said.is_empty() && said != expected => Err(Refusal::bad(&format!(
            "the {field} of the object ({said}) does not match the {field} on the URL ({expected})"
        ))),
        _ => Ok(()),
    };
    named("name", name)?;
    named("namespace", namespace)?;
    for (field, expected) in [("kind", kind.kind.clone()), ("apiVersion", kind.api_version())] {
        if object[field].as_str().is_some_and(|said| said != expected) {
            return Err(Refusal::bad(&format!("the {field} of the object is not {expected:?}")));
        }
        object[field] = json!(expected);
    }
    if let Some(before) = before {
        if writer.subresource == "status" {
            let mut kept = before.clone();
            kept["status"] = object["status"].take();
            for field in ["annotations", "labels"] {
                kept["metadata"][field] = object["metadata"][field].take();
            }
            object = kept;
        } else if kind.has_status {
            object["status"] = before["status"].clone();
        }
        if kind.kind == "Namespace" && writer.manager != super::controllers::MANAGER {
            object["spec"] = before["spec"].clone();
        }
    } else if kind.has_status {
        object["status"] = json!({});
    }
    let metadata = &mut object["metadata"];
    for field in [
        "uid",
        "creationTimestamp",
        "resourceVersion",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "managedFields",
    ] {
        metadata[field] = before.map(|before| before["metadata"][field].clone()).unwrap_or_default();
    }
    metadata["name"] = json!(name);
    if kind.is_namespaced {
        metadata["namespace"] = json!(namespace);
    }
    if before.is_none() {
        metadata["uid"] = json!(uid());
        metadata["creationTimestamp"] = json!(seconds(writer.now));
        if kind.kind == "Namespace" {
            object["spec"] = json!({"finalizers": ["kubernetes"]});
            object["status"] = json!({"phase": "Active"});
        }
    }
    Ok(object)
}

/// Returns whether more than metadata and status differs.
fn is_other_generation(kind: &Kind, writer: &Writer<'_>, before: &Value, after: &Value) -> bool {
    if writer.subresource == "status" {
        return false;
    }
    let content = |object: &Value| {
        let mut object = object.clone();
        object["metadata"].take();
        object["status"].take();
        object
    };
    let annotations = |object: &Value| object["metadata"]["annotations"].clone();
    content(before) != content(after)
        || kind.kind == "Deployment" && annotations(before) != annotations(after)
}

//! What applying a document would change: the same steps as applying it, with a client that sends no change.

use serde_json::{Map, Value};
use wardroom_api::client::{self, Client, Unsent};

use crate::{
    document::{Document, without_kept},
    exit::{self, Code},
    kind::{Kind, with_type},
    locate::Among,
    manifest::Subject,
    view::find,
};

/// A resource before and after, without what only the server sets.
#[derive(Debug, PartialEq)]
pub(crate) struct Plan {
    /// None for one that is created.
    pub(crate) before: Option<Value>,
    pub(crate) after: Value,
}

impl Plan {
    /// Rehearses the application of a document.
    pub(crate) async fn of(client: &Client, subject: &Subject, document: Document) -> anyhow::Result<Self> {
        let kind = subject.kind()?;
        let before = current(client, kind, &subject.name).await?;
        match super::one(&client.rehearsal(), subject, document).await {
            Ok(_) => {
                let after = before.clone().unwrap_or_default();
                Ok(Self { before, after })
            }
            Err(error) => match error.downcast::<client::Error>() {
                Ok(client::Error::Unsent(unsent)) => {
                    let after = without_nulls(without_kept(after(before.clone(), *unsent)));
                    Ok(Self { before, after })
                }
                Ok(error) => Err(error.into()),
                Err(error) => Err(error),
            },
        }
    }

    /// What becomes of the resource.
    pub(crate) fn would_be(&self) -> &'static str {
        match &self.before {
            None => "would be created",
            Some(before) if *before == self.after => "stays as it is",
            Some(_) => "would be changed",
        }
    }
}

/// The resource as it is now, if there is one.
pub(crate) async fn current(client: &Client, kind: Kind, name: &str) -> anyhow::Result<Option<Value>> {
    if name.is_empty() {
        return Ok(None);
    }
    let found = with_type!(kind, T => match find::<T>(client, name, Among::Living).await {
        Ok(found) => Ok(serde_json::to_value(found)?),
        Err(error) => Err(error),
    });
    match found {
        Ok(found) => Ok(Some(without_nulls(without_kept(found)))),
        Err(error) if exit::code(&error) == Code::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The resource as the change leaves it.
fn after(before: Option<Value>, unsent: Unsent) -> Value {
    let mut whole = before.unwrap_or_else(|| Value::Object(Map::new()));
    // A cluster takes each named field as a whole; a patch of any other kind changes and clears what it names.
    let mut body = unsent.body;
    // Requests have another word for the name.
    if let Value::Object(fields) = &mut body
        && !fields.contains_key("name")
        && let Some(name) = fields.remove("group")
    {
        fields.insert("name".to_owned(), name);
    }
    let is_whole = unsent.method == "PUT" || unsent.path.contains("clusters/");
    match (&mut whole, body) {
        (Value::Object(whole), Value::Object(body)) if is_whole => whole.extend(body),
        // What a new resource leaves open stays, if there is one already.
        (Value::Object(whole), Value::Object(body)) if unsent.method == "POST" => {
            for (field, value) in body.into_iter().filter(|(_, value)| !value.is_null()) {
                patch(whole.entry(field).or_insert(Value::Null), value);
            }
        }
        (whole, body) => patch(whole, body),
    }
    whole
}

/// Removes fields that are null: for the server they are the same as absent ones.
fn without_nulls(value: Value) -> Value {
    let Value::Object(fields) = value else { return value };
    let set = fields.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(set.map(|(field, value)| (field, without_nulls(value))).collect())
}

/// A merge patch: null clears.
fn patch(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                if value.is_null() {
                    into.remove(&key);
                } else {
                    patch(into.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (into, from) => *into = from,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use wardroom_api::client::Unsent;

    use super::{Plan, after};

    fn changed(path: &str, method: &str, before: Option<Value>, body: Value) -> Value {
        after(before, Unsent { method: method.to_owned(), path: path.to_owned(), body })
    }

    #[test]
    fn a_change_is_foretold_as_the_server_makes_it() {
        let node = Some(json!({"hostname": "a", "labels": {"x": "1"}}));
        let named = json!({"hostname": null, "labels": {"y": "2"}});
        let expected = json!({"hostname": "a", "labels": {"x": "1", "y": "2"}});
        assert_eq!(changed("nodes/n", "POST", node.clone(), named.clone()), expected);
        let expected = json!({"labels": {"x": "1", "y": "2"}});
        assert_eq!(changed("nodes/n", "PATCH", node.clone(), named), expected);
        let cluster = Some(json!({"name": "c", "spec": {"a": 1, "b": 2}}));
        let expected = json!({"name": "c", "spec": {"a": 3}});
        assert_eq!(changed("clusters/c", "PATCH", cluster, json!({"spec": {"a": 3}})), expected);
        let whole = json!({"name": "w", "kernel": "k"});
        assert_eq!(
            changed("workflows/w", "PUT", Some(json!({"name": "w", "kernel": "j"})), whole.clone()),
            whole
        );
        assert_eq!(changed("workflows/w", "POST", None, whole.clone()), whole);
    }

    #[test]
    fn what_becomes_of_it_is_said() {
        let plan = |before: Option<Value>| Plan { before, after: json!({"a": 1}) }.would_be();
        assert_eq!(plan(None), "would be created");
        assert_eq!(plan(Some(json!({"a": 1}))), "stays as it is");
        assert_eq!(plan(Some(json!({"a": 2}))), "would be changed");
    }
}

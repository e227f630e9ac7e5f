//! Actions: what a person can ask of a resource, as data.
//!
//! A row of a table refers to a [`Call`], which leaves the name of the resource open. With the name filled in
//! it is an [`Action`]. The answers of the API, `why`, the command line, the documentation and the console
//! all render these two, so that a request is defined in one place only.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use serde::{Serialize, Serializer};

use crate::table::Role;

/// The verb of a request that only reads a resource.
pub const READ: &str = "read";

/// One request of the API, with the name of the resource left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Call {
    /// The kind of resource that it acts on.
    pub kind: &'static str,
    /// What it does, in one word; unique within the kind together with its body.
    #[serde(rename = "action")]
    pub verb: &'static str,
    /// The HTTP method.
    pub method: &'static str,
    /// The path; the part in braces stands for the resource.
    pub path: &'static str,
    /// The body, where one is needed.
    #[serde(serialize_with = "object")]
    pub body: &'static [(&'static str, Fixed)],
    /// The field of the body that names the resource; nothing where only the path does.
    #[serde(skip)]
    pub named_by: Option<&'static str>,
    /// Fields of the body that only the caller can fill in.
    pub needs: &'static [&'static str],
    /// The least role that may make it.
    pub role: Role,
    /// What must hold before it succeeds, or nothing more than the state.
    pub precondition: Option<&'static str>,
}

/// A value in the body of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Fixed {
    /// A text.
    Text(&'static str),
    /// Yes or no.
    Flag(bool),
    /// Nothing: clears the field.
    Null,
}

impl Call {
    /// Makes a call without a body that an operator may make.
    #[must_use]
    pub const fn new(
        kind: &'static str,
        verb: &'static str,
        method: &'static str,
        path: &'static str,
    ) -> Self {
        let (body, needs): (&[_], &[_]) = (&[], &[]);
        Self {
            kind,
            verb,
            method,
            path,
            body,
            named_by: None,
            needs,
            role: Role::Operator,
            precondition: None,
        }
    }

    /// Makes the call that reads a resource.
    #[must_use]
    pub const fn read(kind: &'static str, path: &'static str) -> Self {
        Self { role: Role::Viewer, ..Self::new(kind, READ, "GET", path) }
    }

    /// The same call with a body.
    #[must_use]
    pub const fn body(self, body: &'static [(&'static str, Fixed)]) -> Self {
        Self { body, ..self }
    }

    /// The same call with the resource named in its body.
    #[must_use]
    pub const fn named_by(self, field: &'static str) -> Self {
        Self { named_by: Some(field), ..self }
    }

    /// The same call, of which the caller has to fill in some fields.
    #[must_use]
    pub const fn needing(self, needs: &'static [&'static str]) -> Self {
        Self { needs, ..self }
    }

    /// The same call under a condition.
    #[must_use]
    pub const fn when(self, precondition: &'static str) -> Self {
        Self { precondition: Some(precondition), ..self }
    }

    /// The same call for another role.
    #[must_use]
    pub const fn by(self, role: Role) -> Self {
        Self { role, ..self }
    }

    /// Fills in the name of the resource.
    #[must_use]
    pub fn of(self, id: &str) -> Action {
        let named = self.named_by.map(|field| (Cow::Borrowed(field), id.to_owned().into()));
        let fixed = self.body.iter().map(|(name, value)| (Cow::Borrowed(*name), Value::from(*value)));
        Action {
            action: self.verb,
            kind: self.kind,
            id: id.to_owned(),
            method: self.method,
            path: filled(self.path, id),
            body: named.into_iter().chain(fixed).collect(),
            needs: self.needs.to_vec(),
            role: self.role,
            precondition: self.precondition.map(Cow::Borrowed),
            possible: true,
            reason: None,
        }
    }
}

/// The request as it is written in documentation: method, path and body.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)?;
        for (number, (name, value)) in self.body.iter().enumerate() {
            write!(f, "{}{name:?}:", if number == 0 { " {" } else { "," })?;
            match value {
                Fixed::Text(text) => write!(f, "{text:?}")?,
                Fixed::Flag(flag) => write!(f, "{flag}")?,
                Fixed::Null => f.write_str("null")?,
            }
        }
        f.write_str(if self.body.is_empty() { "" } else { "}" })
    }
}

/// A request about one resource: complete, but for the fields it names, and possible now or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Action {
    /// What it does, in one word.
    pub action: &'static str,
    /// The kind of resource that it acts on.
    pub kind: &'static str,
    /// The resource.
    pub id: String,
    /// The HTTP method.
    pub method: &'static str,
    /// The path, with the resource filled in.
    pub path: String,
    /// The body; nothing where none is needed.
    #[serde(serialize_with = "unless_empty")]
    pub body: BTreeMap<Cow<'static, str>, Value>,
    /// Fields of the body that only the caller can fill in.
    pub needs: Vec<&'static str>,
    /// The least role that may make it.
    pub role: Role,
    /// The condition for its success, or a step to take before it.
    pub precondition: Option<Cow<'static, str>>,
    /// Whether it would be accepted now, as far as is known.
    pub possible: bool,
    /// Why it would not.
    pub reason: Option<Cow<'static, str>>,
}

/// A value in the body of an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// Nothing: clears the field.
    Null,
    /// Yes or no.
    Flag(bool),
    /// A text.
    Text(Cow<'static, str>),
    /// Objects of texts.
    List(Vec<BTreeMap<&'static str, Cow<'static, str>>>),
}

impl From<Fixed> for Value {
    fn from(value: Fixed) -> Self {
        match value {
            Fixed::Text(text) => text.into(),
            Fixed::Flag(flag) => Self::Flag(flag),
            Fixed::Null => Self::Null,
        }
    }
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl Action {
    /// The same action with a field of its body filled in.
    #[must_use]
    pub fn with(mut self, field: &'static str, value: impl Into<Value>) -> Self {
        self.needs.retain(|needed| *needed != field);
        self.body.insert(Cow::Borrowed(field), value.into());
        self
    }

    /// The same action with something to see to before.
    #[must_use]
    pub fn when(self, precondition: impl Into<Cow<'static, str>>) -> Self {
        Self { precondition: Some(precondition.into()), ..self }
    }

    /// The same action, which is not possible now if there is a reason.
    #[must_use]
    pub fn unless(self, reason: Option<impl Into<Cow<'static, str>>>) -> Self {
        match reason {
            Some(reason) => Self { possible: false, reason: Some(reason.into()), ..self },
            None => self,
        }
    }
}

/// What to do next, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recommendation {
    /// The action; nothing when waiting is best.
    pub action: Option<Action>,
    /// Why.
    pub why: String,
}

impl Recommendation {
    /// Recommends an action.
    pub fn of(action: Action, why: impl Into<String>) -> Self {
        Self { action: Some(action), why: why.into() }
    }

    /// Recommends to wait.
    pub fn wait(why: impl Into<String>) -> Self {
        Self { action: None, why: why.into() }
    }
}

/// A path with the resource in the place of its braces.
fn filled(path: &str, id: &str) -> String {
    match path.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?.1))) {
        Some((before, after)) => format!("{before}{id}{after}"),
        None => path.to_owned(),
    }
}

fn object<S: Serializer>(body: &&[(&str, Fixed)], serializer: S) -> Result<S::Ok, S::Error> {
    let body: BTreeMap<_, _> = body.iter().copied().collect();
    (!body.is_empty()).then_some(body).serialize(serializer)
}

fn unless_empty<S: Serializer>(
    body: &BTreeMap<Cow<'static, str>, Value>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    (!body.is_empty()).then_some(body).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REISSUE: Call = Call::new("satellite", "reenable", "POST", "/api/satellites/{name}/reenable")
        .body(&[("mode", Fixed::Text("reissue"))]);

    #[test]
    fn a_call_is_filled_in_with_the_resource() {
        let action = serde_json::to_value(REISSUE.of("edge-1")).unwrap();
        let expected = serde_json::json!({
            "action": "reenable", "kind": "satellite", "id": "edge-1", "method": "POST",
            "path": "/api/satellites/edge-1/reenable", "body": {"mode": "reissue"}, "needs": [], "role": "operator",
            "precondition": null, "possible": true, "reason": null,
        });
        assert_eq!(action, expected);
        assert_eq!(REISSUE.to_string(), r#"POST /api/satellites/{name}/reenable {"mode":"reissue"}"#);
        assert_eq!(serde_json::to_value(REISSUE).unwrap()["body"], serde_json::json!({"mode": "reissue"}));
    }

    #[test]
    fn a_filled_in_field_is_needed_no_more() {
        let call = Call::new("node", "assign", "PATCH", "/api/v1/nodes/{id}").needing(&["workflow_id"]);
        assert_eq!(call.of("n1").needs, ["workflow_id"]);
        assert!(call.of("n1").with("workflow_id", Value::Null).needs.is_empty());
        assert_eq!(serde_json::to_value(call.of("n1")).unwrap()["body"], serde_json::Value::Null);
        let refused = call.of("n1").unless(Some("a run works on it"));
        assert_eq!((refused.possible, refused.reason.as_deref()), (false, Some("a run works on it")));
        assert!(call.of("n1").unless(None::<&str>).possible);
    }
}

//! Kinds and names of objects, and the paths that the server serves them under.

use std::sync::PoisonError;

use kube::api::{GetParams, Request};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::{Kubernetes, call::built};
use crate::Failure;

/// A kind of object, in the words of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// Such as `v1` or `apps/v1`.
    pub api_version: String,
    /// Such as `Deployment`.
    pub kind: String,
}

/// One object by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace; that of the configuration when absent. Kinds without namespaces ignore it.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// How the server serves a kind.
#[derive(Debug, Clone)]
pub(super) struct Resource {
    /// Such as `/apis/apps/v1`.
    group: String,
    /// Such as `deployments`.
    plural: String,
    is_namespaced: bool,
}

impl Kind {
    /// Returns a kind.
    pub fn new(api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { api_version: api_version.into(), kind: kind.into() }
    }

    /// Returns an item of a list with the kind that lists leave out.
    pub(super) fn complete(&self, mut item: Value) -> Value {
        if let Some(item) = item.as_object_mut() {
            item.entry("apiVersion").or_insert_with(|| self.api_version.clone().into());
            item.entry("kind").or_insert_with(|| self.kind.clone().into());
        }
        item
    }

    /// Returns the path of the group and version. Neither part may leave its place in the path.
    fn path(&self) -> Result<String, Failure> {
        match self.api_version.split_once('/') {
            None => Ok(format!("/api/{}", segment("apiVersion", &self.api_version)?)),
            Some((group, version)) => {
                let group = segment("apiVersion", group)?;
                Ok(format!("/apis/{group}/{}", segment("apiVersion", version)?))
            }
        }
    }
}

impl Target {
    /// Returns the name of an object.
    ///
    /// # Errors
    /// [`Failure::Setup`] names the field that is missing.
    pub fn of(object: &Value) -> Result<Self, Failure> {
        let text = |field: &str, value: &Value| {
            let text = value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
            text.ok_or_else(|| Failure::Setup(format!("`{field}` of the object is missing")))
        };
        let metadata = &object["metadata"];
        Ok(Self {
            kind: Kind::new(text("apiVersion", &object["apiVersion"])?, text("kind", &object["kind"])?),
            namespace: metadata["namespace"].as_str().filter(|text| !text.is_empty()).map(str::to_owned),
            name: text("metadata.name", &metadata["name"])?,
        })
    }
}

impl Resource {
    /// Returns the path of the objects of a namespace, or of all.
    pub(super) fn within(&self, namespace: Option<&str>) -> Result<Request, Failure> {
        let Self { group, plural, is_namespaced } = self;
        let namespace = namespace.filter(|_| *is_namespaced);
        Ok(Request::new(match namespace {
            None => format!("{group}/{plural}"),
            Some(name) => {
                format!("{group}/namespaces/{}/{plural}", segment("metadata.namespace", name)?)
            }
        }))
    }
}

impl Kubernetes {
    /// Looks a kind up, once.
    pub(super) async fn resource(&self, kind: &Kind) -> Result<Resource, Failure> {
        let known = self.kinds.lock().unwrap_or_else(PoisonError::into_inner).get(kind).cloned();
        if let Some(resource) = known {
            return Ok(resource);
        }
        let path = kind.path()?;
        let (parent, version) = path.rsplit_once('/').unwrap_or_default();
        let request = built(Request::new(parent).get(version, &GetParams::default()))?;
        let list = match self.send(request).await?.expect_success() {
            Ok(reply) => reply.json()?,
            Err(Failure::NotFound) => Value::Null,
            Err(failure) => return Err(failure),
        };
        let resource = find(&list, kind, &path).ok_or_else(|| {
            let Kind { api_version, kind } = kind;
            let detail = format!("the server has no kind {kind} in {api_version}: install it there first");
            Failure::Refused { status: 404, detail }
        })?;
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner).insert(kind.clone(), resource.clone());
        Ok(resource)
    }
}

/// Returns the resource of a kind; subresources have a slash in their names.
fn find(list: &Value, kind: &Kind, path: &str) -> Option<Resource> {
    let resources = list["resources"].as_array()?;
    let name =
        |resource: &Value| resource["name"].as_str().filter(|name| !name.contains('/')).map(str::to_owned);
    resources.iter().filter(|resource| resource["kind"] == kind.kind.as_str()).find_map(|resource| {
        Some(Resource {
            group: path.to_owned(),
            plural: name(resource)?,
            is_namespaced: resource["namespaced"] == true,
        })
    })
}

/// Characters that stay as they are in a path: those of names, and the colon of roles such as `system:node`.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// Returns a name as one segment of a path, unless the server could take it for something else.
pub(super) fn segment(field: &str, name: &str) -> Result<String, Failure> {
    if matches!(name, "" | "." | "..") || name.contains(['/', '%']) {
        return Err(Failure::Setup(format!("`{field}` is not a name that Kubernetes permits")));
    }
    Ok(utf8_percent_encode(name, PLAIN).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_stays_one_segment() {
        for name in ["", ".", "..", "a/b", "a%2Fb"] {
            assert!(matches!(segment("metadata.name", name), Err(Failure::Setup(_))), "{name}");
        }
        assert_eq!(segment("metadata.name", "system:a-b.c?x").unwrap(), "system:a-b.c%3Fx");
    }

    #[test]
    fn an_object_names_itself_or_the_field_that_is_missing() {
        let whole = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "c"}});
        let target = Target::of(&whole).unwrap();
        assert_eq!((target.namespace, target.name.as_str()), (None, "c"));
        for (pointer, field) in
            [("apiVersion", "apiVersion"), ("kind", "kind"), ("metadata", "metadata.name")]
        {
            let mut object = whole.clone();
            object.as_object_mut().unwrap().remove(pointer);
            let Err(Failure::Setup(text)) = Target::of(&object) else { panic!("{pointer}") };
            assert!(text.contains(field), "{text}");
        }
    }
}

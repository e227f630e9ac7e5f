//! What people change of a device: its labels and its spec.

use axum::{
    Extension,
    body::Bytes,
    extract::{FromRequest, Request, State},
    http::HeaderMap,
    response::Response,
};
use json_patch::PatchOperation;
use serde_json::{Value, json};
use wardroom_api::device::{Device, DeviceSpec, Metadata};
use wardroom_core::device::fleet;
use wardroom_store::{Change, Error as StoreError, Resource, attempts};

use super::{
    call,
    document::{Document, Heard},
    spec, view,
};
use crate::platform::{
    app::{App, by_person},
    http::{
        body::{self, Body},
        error::Error,
        etag,
        path::Path,
        problems::Problems,
        text,
    },
    identity::auth::Caller,
};

/// Replaces labels and spec of a device.
#[utoipa::path(
    put, path = "/api/v1/devices/{name}", operation_id = "replace_device", request_body = Device,
    params(("name" = String, Path)), responses((status = 200, body = Device), Problems)
)]
pub(crate) async fn replace(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(given): Body<Value>,
) -> Result<Response, Error> {
    let editing = Editing { app: &app, caller: &caller, headers: &headers, name: &name };
    let device = editing.change(|_| Ok(given.clone())).await?;
    view::answer(&app, &device).await
}

/// Changes labels and spec of a device as a JSON Patch says.
#[utoipa::path(
    patch, path = "/api/v1/devices/{name}", operation_id = "patch_device",
    request_body(content = Vec<Object>, content_type = "application/json-patch+json"),
    params(("name" = String, Path)), responses((status = 200, body = Device), Problems)
)]
pub(crate) async fn patch(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Patch(operations): Patch,
) -> Result<Response, Error> {
    let editing = Editing { app: &app, caller: &caller, headers: &headers, name: &name };
    let device = editing.change(|device| patched(device, &operations)).await?;
    view::answer(&app, &device).await
}

/// The object after a patch.
pub(super) fn patched(object: &impl serde::Serialize, operations: &[PatchOperation]) -> Result<Value, Error> {
    let mut value = serde_json::to_value(object).map_err(|_| Error::Internal)?;
    json_patch::patch(&mut value, operations)
        .map_err(|error| Error::invalid(error.path.to_string(), error.kind.to_string()))?;
    // A patch may copy what is there into itself, again and again.
    if serde_json::to_vec(&value).map_err(|_| Error::Internal)?.len() > body::MOST_BYTES {
        return Err(Error::TooLarge(body::MOST_BYTES));
    }
    Ok(value)
}

/// Operations of a JSON Patch (RFC 6902).
pub(crate) struct Patch(pub(crate) Vec<PatchOperation>);

/// More operations are not looked at.
const MOST_OPERATIONS: usize = 1000;

impl<S: Send + Sync> FromRequest<S> for Patch {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        let is_json = request
            .headers()
            .get(axum::http::header::CONTENT_TYPE)
            .is_some_and(|given| given.to_str().is_ok_and(|given| given.starts_with("application/json")));
        if !is_json {
            return Err(Error::ContentType);
        }
        let bytes: Bytes = body::collect(request.into_body(), body::MOST_BYTES).await?;
        if body::is_deep(&bytes) {
            return Err(Error::invalid("body", "is nested too deeply"));
        }
        let operations: Vec<PatchOperation> = serde_json::from_slice(&bytes).map_err(|error| {
            Error::invalid("body", format!("must be a list of operations of a JSON Patch: {error}"))
        })?;
        if operations.len() > MOST_OPERATIONS {
            return Err(Error::invalid("body", format!("has more than {MOST_OPERATIONS} operations")));
        }
        Ok(Self(operations))
    }
}

/// A person who changes a device.
pub(super) struct Editing<'a> {
    pub(super) app: &'a App,
    pub(super) caller: &'a Caller,
    pub(super) headers: &'a HeaderMap,
    pub(super) name: &'a str,
}

impl Editing<'_> {
    /// Changes the device into what `edited` makes of it.
    pub(super) async fn change(
        &self,
        edited: impl Fn(&Device) -> Result<Value, Error>,
    ) -> Result<Resource, Error> {
        attempts(async || {
            let before = view::find(self.app, self.name).await?;
            etag::check(self.headers, || view::tag(&before))?;
            let shown = view::whole(self.app, &before).await?;
            let wanted = wanted(edited(&shown)?, &shown)?;
            let Some(change) = self.decide(&before, &shown, wanted)? else { return Ok(Some(before)) };
            match self.app.commit(change).await {
                Err(StoreError::Conflict) => Ok(None),
                committed => Ok(Some(committed?)),
            }
        })
        .await
    }

    fn decide(&self, before: &Resource, shown: &Device, wanted: Wanted) -> Result<Option<Change>, Error> {
        let mut document = Document::of(before)?;
        let changes_spec = wanted.spec != shown.spec;
        if !changes_spec && wanted.metadata.labels == before.content.labels {
            return Ok(None);
        }
        document.check_in_service(self.name)?;
        if changes_spec {
            if let Some(owner) = &document.fleet {
                return Err(managed(self.name, &owner.fleet));
            }
            spec::check("spec", &wanted.spec)?;
            document.template = None;
            document.spec = wanted.spec;
            document.generation += 1;
            document.rendered_version += 1;
        }
        let labels = wanted.metadata.labels;
        let content = document.into_content_of(before, labels, Heard::of(before), self.app.now())?;
        let mut entry = by_person(self.app, self.caller, "changed", None);
        entry.metadata = json!({"spec": changes_spec, "labels": content.labels != before.content.labels});
        let entry = call::described(entry, before, &content);
        let (effects, holds) = (Vec::new(), Vec::new());
        Ok(Some(Change { before: Some(before.clone()), after: content, entry, effects, fence: None, holds }))
    }
}

/// The spec of a device that belongs to a fleet is that of the fleet's template.
fn managed(name: &str, fleet: &str) -> Error {
    Error::Conflict {
        code: "managed_by_fleet",
        detail: format!(
            "the spec of the device {name:?} comes from the fleet {fleet:?}: change the template of the fleet (`wardroom \
             apply -f`), or the labels of the device so that the fleet no longer selects it"
        ),
        allowed: vec![fleet::EDIT.of(fleet)],
    }
}

/// What a person wants a device to be.
struct Wanted {
    metadata: Metadata,
    spec: DeviceSpec,
}

fn wanted(given: Value, shown: &Device) -> Result<Wanted, Error> {
    let Device { metadata, spec, .. } = spec::strict(given)?;
    names("metadata", &metadata, &shown.metadata)?;
    text::check_labels(&metadata.labels)?;
    Ok(Wanted { metadata, spec })
}

/// What identifies an object is not changed by sending it, and its version must be the one that was read.
pub(super) fn names(field: &str, given: &Metadata, known: &Metadata) -> Result<(), Error> {
    if !given.name.is_empty() && given.name != known.name {
        return Err(Error::invalid(format!("{field}.name"), format!("must be {}", known.name)));
    }
    if given.resource_version.is_some() && given.resource_version != known.resource_version {
        return Err(Error::Precondition);
    }
    Ok(())
}

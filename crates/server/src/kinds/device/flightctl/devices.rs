//! Devices in Flight Control's words.

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::IntoParams;
use wardroom_api::device::{Decommission, Device, RENDERED_VERSION, TEMPLATE_VERSION};
use wardroom_store::List;

use super::{
    super::{
        document::KIND,
        edit::{Editing, Patch, patched},
        revoke, view,
    },
    API_VERSION, Refusals, Sent, selector, spec,
    status::shown as shown_status,
};
use crate::platform::{
    app::App,
    deleted,
    http::{
        body::{Asked, Body},
        error::Error,
        list::{ListQuery, label_selector, number},
        path::Path,
    },
    identity::auth::Caller,
};

/// A device as clients of Flight Control read it.
fn shown(device: &Device) -> Value {
    let created = device.metadata.creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH);
    let given = device.status.clone().unwrap_or_default();
    json!({
        "apiVersion": API_VERSION, "kind": "Device",
        "metadata": super::metadata(&device.metadata, annotations(device)),
        "spec": spec::shown(&device.spec),
        "status": shown_status(&given, &device.spec, created),
    })
}

fn annotations(device: &Device) -> Value {
    let ours = &device.metadata.annotations;
    let mut shown = json!({});
    for (theirs, ours) in [
        ("device-controller/renderedVersion", ours.get(RENDERED_VERSION)),
        ("fleet-controller/templateVersion", ours.get(TEMPLATE_VERSION)),
        ("fleet-controller/renderedTemplateVersion", ours.get(TEMPLATE_VERSION)),
    ] {
        if let Some(value) = ours {
            shown[theirs] = json!(value);
        }
    }
    shown
}

/// What a client wants a device to be, in our words.
fn ours(given: Value, before: &Device) -> Result<Value, Error> {
    let mut sent = Sent::read(given, "Device")?;
    sent.spec = spec::ours(sent.spec.take(), &before.spec);
    Ok(sent.object())
}

/// Which objects, and which page of them.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct SelectQuery {
    /// Labels, e.g. `site=berlin,tier in (gold,silver)`.
    #[serde(rename = "labelSelector")]
    label_selector: Option<String>,
    /// Fields, e.g. `status.summary.status in (Unknown,Error)`.
    #[serde(rename = "fieldSelector")]
    pub(super) field_selector: Option<String>,
    /// How many at most: 1 to 1000, 100 unless told.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<String>,
    /// The cursor of the page before.
    #[serde(rename = "continue")]
    cursor: Option<String>,
}

impl SelectQuery {
    /// The list of a kind, without the selector of fields.
    pub(super) fn list(&self, kind: &str) -> Result<List, Error> {
        let labels = self.label_selector.as_deref().map_or_else(|| Ok(Vec::new()), label_selector)?;
        let limit = number("limit", self.limit.as_deref(), 100, 1..=1000)?;
        Ok(List { kind: kind.to_owned(), labels, limit, after: self.cursor.clone(), ..List::default() })
    }
}

/// Lists devices in Flight Control's words.
#[utoipa::path(
    get, path = "/flightctl/api/v1/devices", operation_id = "flightctl_list_devices", params(SelectQuery),
    responses((status = 200, body = Object), Refusals)
)]
pub(crate) async fn list(
    State(app): State<App>,
    ListQuery(query): ListQuery<SelectQuery>,
) -> Result<Json<Value>, Error> {
    let mut list = query.list(KIND)?;
    if let Some(text) = &query.field_selector {
        selector::devices(text, &mut list)?;
    }
    let page = view::page(&app, list).await?;
    let items = page.items.iter().map(shown).collect();
    Ok(super::list("DeviceList", page.metadata.next.as_deref(), items))
}

async fn read(app: &App, name: &str) -> Result<Device, Error> {
    view::whole(app, &deleted::read(app, KIND, name).await?).await
}

/// Reads a device in Flight Control's words.
#[utoipa::path(
    get, path = "/flightctl/api/v1/devices/{name}", operation_id = "flightctl_get_device",
    params(("name" = String, Path)), responses((status = 200, body = Object), Refusals)
)]
pub(crate) async fn get(State(app): State<App>, Path(name): Path<String>) -> Result<Json<Value>, Error> {
    Ok(Json(shown(&read(&app, &name).await?)))
}

/// Reads a device with its status, as Flight Control has it.
#[utoipa::path(
    get, path = "/flightctl/api/v1/devices/{name}/status", operation_id = "flightctl_get_device_status",
    params(("name" = String, Path)), responses((status = 200, body = Object), Refusals)
)]
pub(crate) async fn read_status(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Error> {
    Ok(Json(shown(&read(&app, &name).await?)))
}

/// Reads when a device was last heard.
#[utoipa::path(
    get, path = "/flightctl/api/v1/devices/{name}/lastseen", operation_id = "flightctl_get_device_last_seen",
    params(("name" = String, Path)),
    responses((status = 200, body = Object), (status = 204, description = "It was never heard."), Refusals)
)]
pub(crate) async fn last_seen(State(app): State<App>, Path(name): Path<String>) -> Result<Response, Error> {
    let device = read(&app, &name).await?;
    Ok(match device.status.and_then(|status| status.last_seen) {
        Some(seen) => Json(json!({"lastSeen": seen})).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// Replaces labels and spec of a device.
#[utoipa::path(
    put, path = "/flightctl/api/v1/devices/{name}", operation_id = "flightctl_replace_device",
    request_body = Object, params(("name" = String, Path)), responses((status = 200, body = Object), Refusals)
)]
pub(crate) async fn replace(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(given): Body<Value>,
) -> Result<Json<Value>, Error> {
    let editing = Editing { app: &app, caller: &caller, headers: &headers, name: &name };
    let device = editing.change(|before| ours(given.clone(), before)).await?;
    Ok(Json(shown(&view::whole(&app, &device).await?)))
}

/// Changes labels and spec of a device as a JSON Patch says.
#[utoipa::path(
    patch, path = "/flightctl/api/v1/devices/{name}", operation_id = "flightctl_patch_device",
    request_body(content = Vec<Object>, content_type = "application/json-patch+json"),
    params(("name" = String, Path)), responses((status = 200, body = Object), Refusals)
)]
pub(crate) async fn patch(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Patch(operations): Patch,
) -> Result<Json<Value>, Error> {
    let editing = Editing { app: &app, caller: &caller, headers: &headers, name: &name };
    let device = editing.change(|before| ours(patched(&shown(before), &operations)?, before)).await?;
    Ok(Json(shown(&view::whole(&app, &device).await?)))
}

/// Deletes a device and its enrolment request.
#[utoipa::path(
    delete, path = "/flightctl/api/v1/devices/{name}", operation_id = "flightctl_delete_device",
    params(("name" = String, Path)), responses((status = 200, body = Object), Refusals)
)]
pub(crate) async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, Error> {
    let _ = revoke::delete(State(app), Extension(caller), Path(name), headers).await?;
    Ok(super::done("The device was deleted."))
}

/// What Flight Control's clients send to take a device out of service.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Target {
    target: String,
}

/// Takes a device out of service for good.
#[utoipa::path(
    put, path = "/flightctl/api/v1/devices/{name}/decommission", operation_id = "flightctl_decommission_device",
    request_body = Object, params(("name" = String, Path)), responses((status = 200, body = Object), Refusals)
)]
pub(crate) async fn decommission(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Body(Target { target }): Body<Target>,
) -> Result<Json<Value>, Error> {
    let asked = Decommission { target: Some(target), ..Decommission::default() };
    let (state, path) = (State(app.clone()), Path(name.clone()));
    revoke::decommission(state, Extension(caller), path, Asked(asked)).await?;
    Ok(Json(shown(&read(&app, &name).await?)))
}

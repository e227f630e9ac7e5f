//! Fleets in Flight Control's words.

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use wardroom_api::device::{FleetSpec, TemplateVersion};
use wardroom_store::Resource;

use super::{
    super::{
        edit::{Patch, patched},
        fleet::{
            create,
            document::KIND,
            edit::Editing,
            versions::{self as templates},
            view,
        },
    },
    API_VERSION, Refusals,
    devices::SelectQuery,
    rollout, spec,
};
use crate::platform::{
    app::App,
    deleted,
    http::{
        body::Body,
        error::Error,
        list::{ListQuery, Pages},
        path::Path,
    },
    identity::auth::Caller,
};

async fn whole(app: &App, fleet: &Resource) -> Result<Json<Value>, Error> {
    Ok(Json(rollout::shown(&view::whole(app, fleet).await?)))
}

/// Lists fleets in Flight Control's words.
#[utoipa::path(
    get, path = "/flightctl/api/v1/fleets", operation_id = "flightctl_list_fleets", params(SelectQuery),
    responses((status = 200, body = Object), Refusals)
)]
pub(crate) async fn list(
    State(app): State<App>,
    ListQuery(query): ListQuery<SelectQuery>,
) -> Result<Json<Value>, Error> {
    if query.field_selector.is_some() {
        return Err(Error::invalid("fieldSelector", "fleets are selected by their labels only"));
    }
    let page = view::page(&app, query.list(KIND)?).await?;
    let items = page.items.iter().map(rollout::shown).collect();
    Ok(super::list("FleetList", page.metadata.next.as_deref(), items))
}

/// Creates a fleet.
#[utoipa::path(
    post, path = "/flightctl/api/v1/fleets", operation_id = "flightctl_create_fleet", request_body = Object,
    responses((status = 201, body = Object), Refusals)
)]
pub(crate) async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(given): Body<Value>,
) -> Result<Response, Error> {
    make(&app, &caller, given).await
}

async fn make(app: &App, caller: &Caller, given: Value) -> Result<Response, Error> {
    let wanted = rollout::ours(given, &FleetSpec::default())?;
    let made = create::make(app, caller, wanted).await?;
    Ok((StatusCode::CREATED, whole(app, &made).await?).into_response())
}

/// Reads a fleet in Flight Control's words.
#[utoipa::path(
    get, path = "/flightctl/api/v1/fleets/{name}", operation_id = "flightctl_get_fleet",
    params(("name" = String, Path)), responses((status = 200, body = Object), Refusals)
)]
pub(crate) async fn get(State(app): State<App>, Path(name): Path<String>) -> Result<Json<Value>, Error> {
    whole(&app, &deleted::read(&app, KIND, &name).await?).await
}

/// Replaces labels and spec of a fleet, or creates it.
#[utoipa::path(
    put, path = "/flightctl/api/v1/fleets/{name}", operation_id = "flightctl_replace_fleet",
    request_body = Object, params(("name" = String, Path)),
    responses((status = 200, body = Object), (status = 201, body = Object), Refusals)
)]
pub(crate) async fn replace(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(mut given): Body<Value>,
) -> Result<Response, Error> {
    let editing = Editing { app: &app, caller: &caller, headers: &headers, name: &name };
    match editing.change(|before| rollout::ours(given.clone(), &before.spec)).await {
        Err(Error::NotFound { kind: KIND, .. }) => {
            // The path names it.
            let named = given.pointer("/metadata/name").and_then(Value::as_str).unwrap_or(&name);
            if named != name {
                return Err(Error::invalid("metadata.name", format!("must be {name}")));
            }
            if given.is_object() && given["metadata"].is_null() {
                given["metadata"] = json!({});
            }
            if let Some(metadata) = given.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.insert("name".to_owned(), name.clone().into());
            }
            make(&app, &caller, given).await
        }
        changed => Ok(whole(&app, &changed?).await?.into_response()),
    }
}

/// Changes labels and spec of a fleet as a JSON Patch says.
#[utoipa::path(
    patch, path = "/flightctl/api/v1/fleets/{name}", operation_id = "flightctl_patch_fleet",
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
    let changed =
        editing.change(|before| rollout::ours(patched(&rollout::shown(before), &operations)?, &before.spec));
    whole(&app, &changed.await?).await
}

/// Deletes a fleet.
#[utoipa::path(
    delete, path = "/flightctl/api/v1/fleets/{name}", operation_id = "flightctl_delete_fleet",
    params(("name" = String, Path)), responses((status = 200, body = Object), Refusals)
)]
pub(crate) async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, Error> {
    let _ = create::delete(State(app), Extension(caller), Path(name), headers).await?;
    Ok(super::done("The fleet was deleted."))
}

/// Lists the versions of a fleet's template in Flight Control's words.
#[utoipa::path(
    get, path = "/flightctl/api/v1/fleets/{name}/templateversions",
    operation_id = "flightctl_list_template_versions", params(("name" = String, Path), Pages),
    responses((status = 200, body = Object), Refusals)
)]
pub(crate) async fn versions(
    State(app): State<App>,
    Path(name): Path<String>,
    ListQuery(pages): ListQuery<Pages>,
) -> Result<Json<Value>, Error> {
    let page = templates::page(&app, &name, &pages).await?;
    let items = page.items.iter().map(version).collect();
    Ok(super::list("TemplateVersionList", page.metadata.next.as_deref(), items))
}

/// Its template is in its status there.
fn version(version: &TemplateVersion) -> Value {
    let created = version.metadata.creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH);
    let mut status = spec::shown(&version.spec.template.spec);
    status["conditions"] = json!([]);
    status["updatedAt"] = json!(created);
    json!({
        "apiVersion": API_VERSION, "kind": "TemplateVersion",
        "metadata": super::metadata(&version.metadata, json!({})),
        "spec": {"fleet": version.spec.fleet}, "status": status,
    })
}

//! Creating a fleet, and deleting it.

use axum::{
    Extension, Json,
    extract::State as Of,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use serde_json::{Value, json};
use wardroom_api::device::Fleet;
use wardroom_core::device::fleet;
use wardroom_store::{Change, Content, Error as StoreError, Resource, attempts};

use super::{
    super::{edit::names, spec},
    check,
    document::{Document, KIND, Version},
    view,
};
use crate::platform::{
    app::{App, by_person, by_system},
    http::{body::Body, error::Error, etag, path::Path, problems::Problems, text},
    identity::auth::Caller,
};

/// Creates a fleet. It owns the devices that its selector finds and no other fleet owns.
#[utoipa::path(
    post, path = "/api/v1/fleets", operation_id = "create_fleet", request_body = Fleet,
    responses((status = 201, body = Fleet), Problems)
)]
pub(crate) async fn create(
    Of(app): Of<App>,
    Extension(caller): Extension<Caller>,
    Body(given): Body<Value>,
) -> Result<Response, Error> {
    let made = make(&app, &caller, given).await?;
    view::answer(&app, StatusCode::CREATED, &made).await
}

/// Creates the fleet that a person wrote.
pub(in super::super) async fn make(app: &App, caller: &Caller, given: Value) -> Result<Resource, Error> {
    let Fleet { metadata, spec, .. } = spec::strict(given)?;
    let name = metadata.name.clone();
    text::check_name("metadata.name", &name)?;
    text::check_labels(&metadata.labels)?;
    check::read(&spec)?;
    attempts(async || {
        let before = app.store.get(KIND, &name).await?;
        if before.as_ref().is_some_and(|before| !before.content.deleted) {
            return Err(Error::Conflict {
                code: "name_taken",
                detail: format!("the fleet {name:?} exists already: change it instead"),
                allowed: vec![fleet::EDIT.of(&name)],
            });
        }
        names("metadata", &metadata, &metadata_of(&name))?;
        let known = before.as_ref().map(Document::of).transpose()?.unwrap_or_default();
        let mut spec = spec.clone();
        spec.template_version = None;
        let version = known.version + 1;
        let generation = known.generation + 1;
        let document =
            Document { spec, generation, version, first: version, body: version, ..Document::default() };
        let entry = by_person(app, caller, "registered", None);
        let content = document.content(&name, metadata.labels.clone(), document.begun())?;
        let first =
            Change { before, after: content, entry, effects: Vec::new(), fence: None, holds: Vec::new() };
        match app.commit_together(vec![first, versioned(app, &name, &document)?]).await {
            Err(StoreError::Conflict) => Ok(None),
            Err(error) => Err(error.into()),
            Ok(made) => Ok(made.into_iter().next()),
        }
    })
    .await
}

fn metadata_of(name: &str) -> wardroom_api::device::Metadata {
    wardroom_api::device::Metadata { name: name.to_owned(), ..Default::default() }
}

/// The record of the version of the template that a fleet is at from now on.
pub(super) fn versioned(app: &App, name: &str, document: &Document) -> Result<Change, Error> {
    let version = Version {
        fleet: name.to_owned(),
        number: document.version,
        template: document.spec.template.clone(),
        body: document.body,
        restores: document.restores,
    };
    let entry = by_system(app, "registered", json!({"fleet": name}));
    let after = version.content()?;
    Ok(Change { before: None, after, entry, effects: Vec::new(), fence: None, holds: Vec::new() })
}

/// Deletes a fleet. Its devices belong to none, or to the other fleet that selects them, and keep their specs.
#[utoipa::path(
    delete, path = "/api/v1/fleets/{name}", operation_id = "delete_fleet", params(("name" = String, Path)),
    responses((status = 200, body = Fleet), Problems)
)]
pub(crate) async fn delete(
    Of(app): Of<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Fleet>, Error> {
    let shown = attempts(async || {
        let before = view::find(&app, &name).await?;
        etag::check(&headers, || view::tag(&before))?;
        let shown = view::whole(&app, &before).await?;
        let after = Content { deleted: true, ..before.content.clone() };
        let entry = by_person(&app, &caller, "deleted", None);
        let (effects, holds) = (Vec::new(), Vec::new());
        match app.commit(Change { before: Some(before), after, entry, effects, fence: None, holds }).await {
            Err(StoreError::Conflict) => Ok(None),
            Err(error) => Err(Error::from(error)),
            Ok(_) => Ok(Some(shown)),
        }
    })
    .await?;
    Ok(Json(shown))
}

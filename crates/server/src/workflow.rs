//! Workflows: named install profiles.

use std::collections::{BTreeMap, BTreeSet};

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use wardroom_api::{
    Envelope, Page,
    workflow::{Workflow, WorkflowSpec},
};
use wardroom_store::{Content, Document, Error as StoreError, Held, List, Resource};

use crate::{
    app::{App, Decided, by_person},
    auth::Caller,
    body::Body,
    error::Error,
    etag,
    list::{ListQuery, Pages},
    node::document::KIND as NODE,
    path::Path,
    problems::Problems,
    text,
};

pub(crate) const KIND: &str = "workflow";

/// Lists workflows.
#[utoipa::path(get, path = "/api/v1/workflows", params(Pages), responses((status = 200, body = Page<Workflow>), Problems))]
pub(crate) async fn list(
    State(app): State<App>,
    ListQuery(pages): ListQuery<Pages>,
) -> Result<Json<Page<Workflow>>, Error> {
    let list =
        List { kind: KIND.to_owned(), after: pages.after()?, limit: pages.limit()?, ..List::default() };
    let page = app.store.list(&list).await?;
    let data = page.items.iter().map(view).collect::<Result<_, _>>()?;
    Ok(Json(Page { success: true, data, next: page.next }))
}

/// Makes a workflow.
#[utoipa::path(post, path = "/api/v1/workflows", request_body = WorkflowSpec, responses((status = 201, body = Envelope<Workflow>), Problems))]
pub(crate) async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(spec): Body<WorkflowSpec>,
) -> Result<Response, Error> {
    check(&spec)?;
    let name = spec.name.clone();
    match app.create_named(content(spec)?, by_person(&app, &caller, "registered", None)).await {
        Ok(resource) => answer(StatusCode::CREATED, &resource),
        Err(StoreError::Conflict) => Err(Error::Conflict {
            code: "name_taken",
            detail: format!("there is a workflow {name:?} already: replace it with PUT"),
            allowed: vec![format!("PUT /api/v1/workflows/{name}")],
        }),
        Err(error) => Err(error.into()),
    }
}

/// Reads one workflow.
#[utoipa::path(get, path = "/api/v1/workflows/{id}", params(("id" = String, Path)), responses((status = 200, body = Envelope<Workflow>), Problems))]
pub(crate) async fn get(State(app): State<App>, Path(id): Path<String>) -> Result<Response, Error> {
    let found = app.store.get(KIND, &id).await?.filter(|found| !found.content.deleted);
    answer(StatusCode::OK, &found.ok_or_else(|| Error::not_found(KIND, &id))?)
}

/// Replaces a workflow.
#[utoipa::path(put, path = "/api/v1/workflows/{id}", request_body = WorkflowSpec, params(("id" = String, Path)), responses((status = 200, body = Envelope<Workflow>), Problems))]
pub(crate) async fn replace(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(spec): Body<WorkflowSpec>,
) -> Result<Response, Error> {
    check(&spec)?;
    if spec.name != id {
        return Err(Error::invalid("name", format!("must be {id:?}: a workflow keeps its name")));
    }
    let (resource, ()) = app
        .change(KIND, &id, |workflow| {
            etag::check(&headers, || tag(workflow))?;
            let content = content(spec.clone())?;
            if content == workflow.content {
                return Ok(Decided::Nothing(()));
            }
            Ok(Decided::Commit(Box::new((content, by_person(&app, &caller, "changed", None))), ()))
        })
        .await?;
    answer(StatusCode::OK, &resource)
}

/// Deletes a workflow that no node uses.
#[utoipa::path(delete, path = "/api/v1/workflows/{id}", params(("id" = String, Path)), responses((status = 200, body = Envelope<Workflow>), Problems))]
pub(crate) async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let (resource, ()) = app
        .change_unused(KIND, &id, &[(NODE, "workflow_id")], |workflow| {
            etag::check(&headers, || tag(workflow))?;
            let content = Content { deleted: true, ..workflow.content.clone() };
            Ok(Decided::Commit(Box::new((content, by_person(&app, &caller, "deleted", None))), ()))
        })
        .await?;
    answer(StatusCode::OK, &resource)
}

/// A workflow that exists.
pub(crate) async fn find(app: &App, id: &str) -> Result<Option<Workflow>, Error> {
    let found = app.store.get(KIND, id).await?.filter(|found| !found.content.deleted);
    found.map(|found| view(&found)).transpose()
}

/// Holds a workflow that somebody is about to use; refuses one that does not exist.
pub(crate) async fn require(app: &App, id: &str) -> Result<Held, Error> {
    match app.store.get(KIND, id).await?.filter(|found| !found.content.deleted) {
        Some(found) => Ok(Held::at(&found)),
        None => Err(Error::invalid(
            "workflow_id",
            format!(
                "there is no workflow {:?}: make it with POST /api/v1/workflows",
                id.chars().take(100).collect::<String>()
            ),
        )),
    }
}

fn check(spec: &WorkflowSpec) -> Result<(), Error> {
    text::check_name("name", &spec.name)?;
    check_url("kernel", &spec.kernel)?;
    if spec.initrd.len() > 16 {
        return Err(Error::invalid("initrd", "has more than 16 entries"));
    }
    for (index, initrd) in spec.initrd.iter().enumerate() {
        check_url(&format!("initrd[{index}]"), initrd)?;
    }
    if let Some(image) = &spec.image {
        check_url("image", image)?;
    }
    text::check("arguments", &spec.arguments, 0..=4000)
}

/// A URL goes into a boot script, where white space and control characters would end it.
fn check_url(field: &str, url: &str) -> Result<(), Error> {
    let scheme = ["http://", "https://", "tftp://"].iter().any(|scheme| url.starts_with(scheme));
    if !scheme || url.len() > 2000 || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::invalid(field, "must be an http, https or tftp URL without spaces"));
    }
    Ok(())
}

fn content(spec: WorkflowSpec) -> Result<Content, Error> {
    Ok(Content {
        kind: KIND.to_owned(),
        id: spec.name.clone(),
        name: spec.name.clone(),
        state: "ready".to_owned(),
        document: Document::of(&spec)?,
        labels: BTreeMap::new(),
        fields: BTreeMap::new(),
        keys: BTreeSet::new(),
        deleted: false,
        due_at: None,
    })
}

fn tag(resource: &Resource) -> Result<String, Error> {
    etag::of(&(&resource.content.id, resource.content.document.as_str()))
}

fn view(resource: &Resource) -> Result<Workflow, Error> {
    let spec: WorkflowSpec = resource.content.document.read()?;
    let WorkflowSpec { name, kernel, initrd, arguments, image, promote } = spec;
    let (created_at, updated_at) = (resource.created_at, resource.updated_at);
    Ok(Workflow { id: name.clone(), name, kernel, initrd, arguments, image, promote, created_at, updated_at })
}

pub(crate) fn answer(status: StatusCode, resource: &Resource) -> Result<Response, Error> {
    let mut response = (status, Json(Envelope::new(view(resource)?))).into_response();
    etag::set(&mut response, &tag(resource)?);
    Ok(response)
}

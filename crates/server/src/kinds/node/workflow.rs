//! Workflows: named install profiles.

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use wardroom_api::{
    Envelope, Page,
    workflow::{Workflow, WorkflowSpec},
};
use wardroom_core::{action::Call, node::RELEASE_WORKFLOW};
use wardroom_store::{Held, Resource};

use crate::{
    kinds::node::document::KIND as NODE,
    platform::{
        app::App,
        change::{
            named::{self, Asked, Named},
            preconditions::{User, nothing_held},
        },
        http::{
            body::Body,
            error::Error,
            list::{ListQuery, Pages},
            path::Path,
            problems::Problems,
            text,
        },
        identity::auth::Caller,
    },
};

pub(crate) const KIND: &str = "workflow";

const WORKFLOWS: Named = Named {
    kind: KIND,
    word: "workflow",
    create: Call::new("workflow", "create", "POST", "/api/v1/workflows")
        .named_by("name")
        .needing(&["kernel"]),
    edit: Call::new("workflow", "replace", "PUT", "/api/v1/workflows/{id}")
        .named_by("name")
        .needing(&["kernel"]),
    users: &[User::by(NODE, "workflow_id").released_by(RELEASE_WORKFLOW)],
};

/// Lists workflows.
#[utoipa::path(get, path = "/api/v1/workflows", params(Pages), responses((status = 200, body = Page<Workflow>), Problems))]
pub(crate) async fn list(
    State(app): State<App>,
    ListQuery(pages): ListQuery<Pages>,
) -> Result<Json<Page<Workflow>>, Error> {
    WORKFLOWS.list(&app, &pages, view).await
}

/// Creates a workflow.
#[utoipa::path(post, path = "/api/v1/workflows", request_body = WorkflowSpec, responses((status = 201, body = Envelope<Workflow>), Problems))]
pub(crate) async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Body(spec): Body<WorkflowSpec>,
) -> Result<Response, Error> {
    check(&spec)?;
    let asked = Asked { app: &app, caller: &caller, headers: &headers };
    let step = asked.step("registered", WORKFLOWS.content(&spec.name, &spec)?, Vec::new());
    answer(StatusCode::CREATED, &WORKFLOWS.create(&app, step, nothing_held).await?)
}

/// Reads one workflow.
#[utoipa::path(get, path = "/api/v1/workflows/{id}", params(("id" = String, Path)), responses((status = 200, body = Envelope<Workflow>), Problems))]
pub(crate) async fn get(State(app): State<App>, Path(id): Path<String>) -> Result<Response, Error> {
    answer(StatusCode::OK, &WORKFLOWS.get(&app, &id).await?)
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
    WORKFLOWS.keeps_its_name(&id, &spec.name)?;
    let asked = Asked { app: &app, caller: &caller, headers: &headers };
    let content = WORKFLOWS.content(&id, &spec)?;
    let changed = WORKFLOWS.change(&asked, &id, nothing_held, |before| Ok(asked.to(content.clone(), before)));
    answer(StatusCode::OK, &changed.await?)
}

/// Deletes a workflow that no node uses.
#[utoipa::path(delete, path = "/api/v1/workflows/{id}", params(("id" = String, Path)), responses((status = 200, body = Envelope<Workflow>), Problems))]
pub(crate) async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let asked = Asked { app: &app, caller: &caller, headers: &headers };
    answer(StatusCode::OK, &WORKFLOWS.delete(&asked, &id, Vec::new()).await?)
}

pub(crate) async fn find(app: &App, id: &str) -> Result<Option<Workflow>, Error> {
    WORKFLOWS.find(app, id).await?.as_ref().map(view).transpose()
}

/// Returns a workflow as a precondition; refuses a missing one.
pub(crate) async fn require(app: &App, id: &str) -> Result<Held, Error> {
    WORKFLOWS.held(app, "workflow_id", id).await
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
    text::check("arguments", &spec.arguments, 0..=4000)?;
    // iPXE ends a command at these words and ignores text after `#`, so that the node's token would be lost.
    let ends = |word: &&str| matches!(*word, "||" | "&&" | ";") || word.starts_with('#');
    match spec.arguments.split_whitespace().find(ends) {
        Some(word) => {
            let said = format!(
                "has {word:?} after white space, which ends a command in a boot script: remove the white space before it"
            );
            Err(Error::invalid("arguments", said))
        }
        None => Ok(()),
    }
}

/// A URL goes into a boot script, where white space and control characters would end it.
fn check_url(field: &str, url: &str) -> Result<(), Error> {
    text::check_url(field, url, &["http", "https", "tftp"], 2000, "https://images.example/vmlinuz")
}

fn view(resource: &Resource) -> Result<Workflow, Error> {
    let spec: WorkflowSpec = resource.content.document.read()?;
    let WorkflowSpec { name, kernel, initrd, arguments, image, promote } = spec;
    let (created_at, updated_at) = (resource.created_at, resource.updated_at);
    Ok(Workflow { id: name.clone(), name, kernel, initrd, arguments, image, promote, created_at, updated_at })
}

pub(crate) fn answer(status: StatusCode, resource: &Resource) -> Result<Response, Error> {
    named::answer(status, resource, view(resource)?)
}

//! The calls that the fake knows.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Path, Query, State as Extract},
    http::{HeaderMap, HeaderName, StatusCode},
    response::IntoResponse,
    routing::{delete, get, post},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{BASE, Refusal, Shared, robots::Body, state::Project};
use crate::fault::lock;

type Fake = Extract<Arc<Shared>>;
type Answer<T> = Result<T, Refusal>;

/// All of them.
pub(super) fn all(shared: &Arc<Shared>) -> Router {
    let api = Router::new()
        .route("/health", get(health))
        .route("/robots", get(list_robots).post(create_robot))
        .route("/robots/{id}", get(read_robot).put(update_robot).patch(refresh_secret).delete(delete_robot))
        .route(
            "/projects",
            get(async || StatusCode::METHOD_NOT_ALLOWED).head(has_project).post(create_project),
        )
        .route("/projects/{name}", get(read_project))
        .route("/projects/{project}/repositories/{repository}", delete(delete_repository));
    Router::new().nest(BASE, api).route("/_seed", post(seed)).with_state(Arc::clone(shared))
}

async fn health(Extract(fake): Fake) -> Json<Value> {
    const PARTS: [&str; 8] =
        ["core", "database", "jobservice", "portal", "redis", "registry", "registryctl", "trivy"];
    let state = lock(&fake.state);
    let word = |is_down| if is_down { "unhealthy" } else { "healthy" };
    let parts = PARTS.map(|name| json!({"name": name, "status": word(state.down.contains(name))}));
    Json(json!({"status": word(!state.down.is_empty()), "components": parts}))
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    q: String,
    #[serde(default = "first")]
    page: usize,
    #[serde(default = "ten")]
    page_size: usize,
}

fn first() -> usize {
    1
}

fn ten() -> usize {
    10
}

async fn list_robots(
    Extract(fake): Fake,
    headers: HeaderMap,
    Query(list): Query<List>,
) -> Answer<impl IntoResponse> {
    fake.may_manage_robots(&headers, "list")?;
    if !(1..=100).contains(&list.page_size) {
        return Err(Refusal::bad("page_size must be from 1 to 100"));
    }
    let found = fake.list_robots(&list.q)?;
    let total = [(HeaderName::from_static("x-total-count"), found.len().to_string())];
    let page = found.into_iter().skip((list.page.max(1) - 1) * list.page_size).take(list.page_size);
    Ok((total, Json(page.collect::<Vec<_>>())))
}

async fn create_robot(
    Extract(fake): Fake,
    headers: HeaderMap,
    Json(body): Json<Body>,
) -> Answer<impl IntoResponse> {
    fake.may_manage_robots(&headers, "create")?;
    let created = fake.create_robot(body)?;
    let location = [("location", format!("{BASE}/robots/{}", created["id"]))];
    Ok((StatusCode::CREATED, location, Json(created)))
}

async fn read_robot(Extract(fake): Fake, headers: HeaderMap, Path(id): Path<i64>) -> Answer<Json<Value>> {
    fake.may_manage_robots(&headers, "read")?;
    fake.read_robot(id).map(Json)
}

async fn update_robot(
    Extract(fake): Fake,
    headers: HeaderMap,
    Path(id): Path<i64>,
    Json(body): Json<Body>,
) -> Answer<()> {
    fake.may_manage_robots(&headers, "update")?;
    fake.update_robot(id, body)
}

#[derive(Deserialize)]
struct Secret {
    #[serde(default)]
    secret: String,
}

async fn refresh_secret(
    Extract(fake): Fake,
    headers: HeaderMap,
    Path(id): Path<i64>,
    Json(Secret { secret }): Json<Secret>,
) -> Answer<Json<Value>> {
    fake.may_manage_robots(&headers, "update")?;
    fake.refresh_secret(id, &secret).map(Json)
}

async fn delete_robot(Extract(fake): Fake, headers: HeaderMap, Path(id): Path<i64>) -> Answer<()> {
    fake.may_manage_robots(&headers, "delete")?;
    fake.delete_robot(id)
}

#[derive(Deserialize)]
struct ProjectName {
    project_name: String,
}

async fn has_project(
    Extract(fake): Fake,
    headers: HeaderMap,
    Query(ProjectName { project_name }): Query<ProjectName>,
) -> Answer<()> {
    fake.must_be_admin(&headers)?;
    let is_there = lock(&fake.state).projects.contains_key(&project_name);
    if is_there { Ok(()) } else { Err(Refusal::not_found(format_args!("project {project_name}"))) }
}

#[derive(Deserialize)]
struct NewProject {
    project_name: String,
    #[serde(default)]
    public: Option<bool>,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    public: Option<String>,
}

async fn create_project(
    Extract(fake): Fake,
    headers: HeaderMap,
    Json(new): Json<NewProject>,
) -> Answer<impl IntoResponse> {
    fake.must_be_admin(&headers)?;
    let NewProject { project_name: name, public, metadata } = new;
    let is_public = metadata.public.map_or(public.unwrap_or_default(), |public| public == "true");
    let location = fake.change("project.create", |state| {
        if state.projects.contains_key(&name) {
            return Err(Refusal::conflict(format_args!("project {name}")));
        }
        let id = state.next_id();
        state.projects.insert(name, Project { id, is_public });
        Ok(format!("{BASE}/projects/{id}"))
    })?;
    Ok((StatusCode::CREATED, [("location", location)]))
}

async fn read_project(
    Extract(fake): Fake,
    headers: HeaderMap,
    Path(name): Path<String>,
) -> Answer<Json<Value>> {
    fake.must_be_admin(&headers)?;
    let state = lock(&fake.state);
    let project = state.projects.get(&name);
    let project = project.ok_or_else(|| Refusal::not_found(format_args!("project {name}")))?;
    let metadata = json!({"public": project.is_public.to_string()});
    Ok(Json(json!({"project_id": project.id, "name": name, "metadata": metadata})))
}

async fn delete_repository(
    Extract(fake): Fake,
    headers: HeaderMap,
    Path((project, repository)): Path<(String, String)>,
) -> Answer<()> {
    fake.must_be_admin(&headers)?;
    // The name is encoded twice; a slash encoded once would not match this route.
    let name = repository.replace("%2F", "/").replace("%2f", "/").replace("%25", "%");
    let whole = format!("{project}/{name}");
    fake.change("repository.delete", |state| {
        let is_gone = state.repositories.remove(&whole);
        state.images.remove(&whole);
        if is_gone { Ok(()) } else { Err(Refusal::not_found(format_args!("repository {whole}"))) }
    })
}

/// State that a test adds, because no call of ours creates it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Seed {
    /// With the project in front.
    #[serde(default)]
    repositories: Vec<String>,
    #[serde(default)]
    public_projects: Vec<String>,
    /// Components that are down; replaces those that were.
    down: Option<Vec<String>>,
}

async fn seed(Extract(fake): Fake, Json(seed): Json<Seed>) -> Answer<()> {
    fake.change("seed", |state| {
        state.repositories.extend(seed.repositories);
        for name in seed.public_projects {
            let id = state.next_id();
            state.projects.insert(name, Project { id, is_public: true });
        }
        if let Some(down) = seed.down {
            state.down = down.into_iter().collect();
        }
        Ok(())
    })
}

//! Groups: a tree of devices whose settings are inherited, and groups of users.

use std::collections::{BTreeMap, BTreeSet};

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use wardroom_api::{
    Envelope, Page,
    group::{Group, GroupSpec, GroupType},
};
use wardroom_store::{Content, Document, Held, List, Resource};

use crate::{
    app::{App, Decided, by_person},
    auth::{Caller, TOKEN},
    body::Body,
    bonds::Made,
    error::Error,
    etag,
    list::{ListQuery, Pages},
    node::document::KIND as NODE,
    path::Path,
    problems::Problems,
    text,
};

pub(crate) const KIND: &str = "group";

/// A tree that is deeper than this is a mistake, or a circle.
const DEEPEST: usize = 32;

/// Lists groups.
#[utoipa::path(get, path = "/api/v1/groups", params(Pages), responses((status = 200, body = Page<Group>), Problems))]
pub(crate) async fn list(
    State(app): State<App>,
    ListQuery(pages): ListQuery<Pages>,
) -> Result<Json<Page<Group>>, Error> {
    let list =
        List { kind: KIND.to_owned(), after: pages.after()?, limit: pages.limit()?, ..List::default() };
    let page = app.store.list(&list).await?;
    let mut data = Vec::with_capacity(page.items.len());
    for group in &page.items {
        data.push(view(&app, group).await?);
    }
    Ok(Json(Page { success: true, data, next: page.next }))
}

/// Makes a group.
#[utoipa::path(post, path = "/api/v1/groups", request_body = GroupSpec, responses((status = 201, body = Envelope<Group>), Problems))]
pub(crate) async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(spec): Body<GroupSpec>,
) -> Result<Response, Error> {
    let name = spec.name.clone();
    let entry = by_person(&app, &caller, "registered", None);
    match app.make(content(&spec)?, entry, || check(&app, &spec)).await? {
        Made::New(resource) => answer(&app, StatusCode::CREATED, &resource).await,
        Made::Taken(_) => Err(Error::Conflict {
            code: "name_taken",
            detail: format!("there is a group {name:?} already: replace it with PUT"),
            allowed: vec![format!("PUT /api/v1/groups/{name}")],
        }),
    }
}

/// Reads one group.
#[utoipa::path(get, path = "/api/v1/groups/{id}", params(("id" = String, Path)), responses((status = 200, body = Envelope<Group>), Problems))]
pub(crate) async fn get(State(app): State<App>, Path(id): Path<String>) -> Result<Response, Error> {
    let found = find(&app, &id).await?.ok_or_else(|| Error::not_found(KIND, &id))?;
    answer(&app, StatusCode::OK, &found).await
}

/// Replaces a group.
#[utoipa::path(put, path = "/api/v1/groups/{id}", request_body = GroupSpec, params(("id" = String, Path)), responses((status = 200, body = Envelope<Group>), Problems))]
pub(crate) async fn replace(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(spec): Body<GroupSpec>,
) -> Result<Response, Error> {
    if spec.name != id {
        return Err(Error::invalid("name", format!("must be {id:?}: a group keeps its name")));
    }
    let holds = || check(&app, &spec);
    let (resource, ()) = app
        .change_holding(KIND, &id, holds, |group| {
            etag::check(&headers, || tag(group))?;
            if self::spec(group)?.type_ != spec.type_ {
                return Err(Error::invalid("type", "a group keeps its type: make another group"));
            }
            let content = content(&spec)?;
            if content == group.content {
                return Ok(Decided::Nothing(()));
            }
            Ok(Decided::Commit(Box::new((content, by_person(&app, &caller, "changed", None))), ()))
        })
        .await?;
    answer(&app, StatusCode::OK, &resource).await
}

/// Deletes a group that nothing is in.
#[utoipa::path(delete, path = "/api/v1/groups/{id}", params(("id" = String, Path)), responses((status = 200, body = Envelope<Group>), Problems))]
pub(crate) async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let members = [(NODE, "group_id"), (KIND, "parent_id"), (TOKEN, "group_id")];
    let (resource, ()) = app
        .change_unused(KIND, &id, &members, |group| {
            etag::check(&headers, || tag(group))?;
            let content = Content { deleted: true, ..group.content.clone() };
            Ok(Decided::Commit(Box::new((content, by_person(&app, &caller, "deleted", None))), ()))
        })
        .await?;
    answer(&app, StatusCode::OK, &resource).await
}

/// Whether installed nodes of a group become active by themselves: the nearest setting up the tree holds.
pub(crate) async fn auto_promotes(app: &App, id: &str) -> Result<bool, Error> {
    let mut id = id.to_owned();
    for _ in 0..DEEPEST {
        let Some(group) = find(app, &id).await? else { return Ok(false) };
        let spec = spec(&group)?;
        match (spec.auto_promote, spec.parent_id) {
            (Some(setting), _) => return Ok(setting),
            (None, Some(parent)) => id = parent,
            (None, None) => return Ok(false),
        }
    }
    Ok(false)
}

/// Holds a group that a node is about to be in; refuses one that does not exist.
pub(crate) async fn require_device_group(app: &App, id: &str) -> Result<Held, Error> {
    Ok(Held::at(&require(app, "group_id", id, GroupType::Device).await?))
}

/// Holds a group that a user is about to be in; refuses one that does not exist.
pub(crate) async fn require_user_group(app: &App, id: &str) -> Result<Held, Error> {
    Ok(Held::at(&require(app, "group_id", id, GroupType::User).await?))
}

async fn require(app: &App, field: &str, id: &str, type_: GroupType) -> Result<Resource, Error> {
    if let Some(found) = find(app, id).await?
        && spec(&found)?.type_ == type_
    {
        return Ok(found);
    }
    let kind = if type_ == GroupType::Device { "device" } else { "user" };
    let id: String = id.chars().take(100).collect();
    Err(Error::invalid(field, format!("there is no {kind} group {id:?}: make it with POST /api/v1/groups")))
}

/// Everything above a group, which is held: a change up there could close a circle, and what is held is what was
/// checked, not what a second look would find.
async fn check(app: &App, spec: &GroupSpec) -> Result<Vec<Held>, Error> {
    text::check_name("name", &spec.name)?;
    let Some(parent) = &spec.parent_id else { return Ok(Vec::new()) };
    let mut above = Some(require(app, "parent_id", parent, spec.type_).await?);
    let mut holds = Vec::new();
    for _ in 0..DEEPEST {
        let Some(group) = above else { return Ok(holds) };
        if group.content.id == spec.name {
            break;
        }
        holds.push(Held::at(&group));
        above = match self::spec(&group)?.parent_id {
            Some(id) => find(app, &id).await?,
            None => None,
        };
    }
    Err(Error::invalid("parent_id", format!("the tree would be a circle, or deeper than {DEEPEST}")))
}

async fn find(app: &App, id: &str) -> Result<Option<Resource>, Error> {
    Ok(app.store.get(KIND, id).await?.filter(|found| !found.content.deleted))
}

fn content(spec: &GroupSpec) -> Result<Content, Error> {
    let fields = spec.parent_id.iter().map(|parent| ("parent_id".to_owned(), parent.clone())).collect();
    Ok(Content {
        kind: KIND.to_owned(),
        id: spec.name.clone(),
        name: spec.name.clone(),
        state: "ready".to_owned(),
        document: Document::of(spec)?,
        labels: BTreeMap::new(),
        fields,
        keys: BTreeSet::new(),
        deleted: false,
        due_at: None,
    })
}

fn spec(resource: &Resource) -> Result<GroupSpec, Error> {
    Ok(resource.content.document.read()?)
}

fn tag(resource: &Resource) -> Result<String, Error> {
    etag::of(&(&resource.content.id, resource.content.document.as_str()))
}

async fn view(app: &App, resource: &Resource) -> Result<Group, Error> {
    let GroupSpec { name, type_, parent_id, auto_promote } = spec(resource)?;
    let effective_auto_promote = auto_promotes(app, &name).await?;
    let (created_at, updated_at) = (resource.created_at, resource.updated_at);
    Ok(Group {
        id: name.clone(),
        name,
        type_,
        parent_id,
        auto_promote,
        effective_auto_promote,
        created_at,
        updated_at,
    })
}

pub(crate) async fn answer(app: &App, status: StatusCode, resource: &Resource) -> Result<Response, Error> {
    let mut response = (status, Json(Envelope::new(view(app, resource).await?))).into_response();
    etag::set(&mut response, &tag(resource)?);
    Ok(response)
}

//! Groups: a tree of devices whose settings are inherited, and groups of users.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use wardroom_api::{
    Envelope, Page,
    group::{Group, GroupSpec, GroupType},
};
use wardroom_core::{action::Call, node::RELEASE_GROUP};
use wardroom_store::{Content, Held, List, Resource};

use crate::{
    kinds::node::document::KIND as NODE,
    platform::{
        app::App,
        change::{
            named::{self, Asked, Named},
            preconditions::User,
        },
        http::{
            body::Body,
            error::Error,
            list::{ListQuery, Pages},
            path::Path,
            problems::Problems,
            text,
        },
        identity::auth::{Caller, TOKEN},
    },
};

pub(crate) const KIND: &str = "group";

const CREATE: Call =
    Call::new("group", "create", "POST", "/api/v1/groups").named_by("name").needing(&["type"]);

const GROUPS: Named = Named {
    kind: KIND,
    word: "group",
    create: CREATE,
    edit: Call::new("group", "replace", "PUT", "/api/v1/groups/{id}").named_by("name").needing(&["type"]),
    users: &[
        User::by(NODE, "group_id").released_by(RELEASE_GROUP),
        User::by(KIND, PARENT),
        User::by(TOKEN, "group_id"),
    ],
};

/// The field with a group's parent.
const PARENT: &str = "parent_id";

/// A deeper tree is a mistake or a cycle.
const DEEPEST: usize = 32;

/// Lists groups.
#[utoipa::path(get, path = "/api/v1/groups", params(Pages), responses((status = 200, body = Page<Group>), Problems))]
pub(crate) async fn list(
    State(app): State<App>,
    ListQuery(pages): ListQuery<Pages>,
) -> Result<Json<Page<Group>>, Error> {
    let page = GROUPS.page(&app, &pages).await?;
    let tree = Tree::above(&page.items, |ids| read(&app, ids)).await?;
    let data = page.items.iter().map(|group| view(&tree, group)).collect::<Result<_, _>>()?;
    Ok(Json(Page { success: true, data, next: page.next }))
}

/// Creates a group.
#[utoipa::path(post, path = "/api/v1/groups", request_body = GroupSpec, responses((status = 201, body = Envelope<Group>), Problems))]
pub(crate) async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Body(spec): Body<GroupSpec>,
) -> Result<Response, Error> {
    let asked = Asked { app: &app, caller: &caller, headers: &headers };
    let step = asked.step("registered", content(&spec)?, Vec::new());
    let made = GROUPS.create(&app, step, || check(&app, &spec)).await?;
    answer(&app, StatusCode::CREATED, &made).await
}

/// Reads one group.
#[utoipa::path(get, path = "/api/v1/groups/{id}", params(("id" = String, Path)), responses((status = 200, body = Envelope<Group>), Problems))]
pub(crate) async fn get(State(app): State<App>, Path(id): Path<String>) -> Result<Response, Error> {
    answer(&app, StatusCode::OK, &GROUPS.get(&app, &id).await?).await
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
    GROUPS.keeps_its_name(&id, &spec.name)?;
    let asked = Asked { app: &app, caller: &caller, headers: &headers };
    let content = content(&spec)?;
    let changed = GROUPS.change(
        &asked,
        &id,
        || check(&app, &spec),
        |group| {
            if self::spec(group)?.type_ != spec.type_ {
                return Err(Error::invalid(
                    "type",
                    "the type of a group cannot change: create another group",
                ));
            }
            Ok(asked.to(content.clone(), group))
        },
    );
    answer(&app, StatusCode::OK, &changed.await?).await
}

/// Deletes an empty group.
#[utoipa::path(delete, path = "/api/v1/groups/{id}", params(("id" = String, Path)), responses((status = 200, body = Envelope<Group>), Problems))]
pub(crate) async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let asked = Asked { app: &app, caller: &caller, headers: &headers };
    let deleted = GROUPS.delete(&asked, &id, Vec::new()).await?;
    answer(&app, StatusCode::OK, &deleted).await
}

/// Whether installed nodes of a group are promoted automatically: the nearest setting up the tree applies.
pub(crate) async fn auto_promotes(app: &App, id: &str) -> Result<bool, Error> {
    let Some(group) = GROUPS.find(app, id).await? else { return Ok(false) };
    Ok(Tree::above(&[group], |ids| read(app, ids)).await?.auto_promotes(id))
}

/// Some groups and the ancestors that they inherit settings from.
struct Tree(HashMap<String, GroupSpec>);

impl Tree {
    /// Reads a level at a time, so that the cost of a page depends on the depth of its tree, not on its
    /// length.
    async fn above<F: Future<Output = Result<Vec<Resource>, Error>>>(
        groups: &[Resource],
        read: impl Fn(Vec<String>) -> F,
    ) -> Result<Self, Error> {
        let mut known = HashMap::new();
        let mut level = groups.to_vec();
        while !level.is_empty() {
            let mut parents = BTreeSet::new();
            for group in level {
                let spec = spec(&group)?;
                parents.extend(spec.parent_id.clone().filter(|_| spec.auto_promote.is_none()));
                known.insert(group.content.id, spec);
            }
            parents.retain(|id| !known.contains_key(id));
            level = if parents.is_empty() { Vec::new() } else { read(parents.into_iter().collect()).await? };
        }
        Ok(Self(known))
    }

    fn auto_promotes(&self, id: &str) -> bool {
        let mut id = id;
        // Bounded, in case of a cycle.
        for _ in 0..self.0.len() {
            match self.0.get(id).map(|spec| (spec.auto_promote, spec.parent_id.as_deref())) {
                Some((Some(setting), _)) => return setting,
                Some((None, Some(parent))) => id = parent,
                Some((None, None)) | None => return false,
            }
        }
        false
    }
}

/// Reads the living ones of some groups.
async fn read(app: &App, ids: Vec<String>) -> Result<Vec<Resource>, Error> {
    let mut found = app.store.get_all(KIND, &ids).await?;
    found.retain(|group| !group.content.deleted);
    Ok(found)
}

/// Returns a node's group as a precondition; refuses a missing one.
pub(crate) async fn require_device_group(app: &App, id: &str) -> Result<Held, Error> {
    Ok(Held::at(&require(app, "group_id", id, GroupType::Device).await?))
}

/// Returns a user's group as a precondition; refuses a missing one.
pub(crate) async fn require_user_group(app: &App, id: &str) -> Result<Held, Error> {
    Ok(Held::at(&require(app, "group_id", id, GroupType::User).await?))
}

async fn require(app: &App, field: &str, id: &str, type_: GroupType) -> Result<Resource, Error> {
    if let Some(found) = GROUPS.find(app, id).await?
        && spec(&found)?.type_ == type_
    {
        return Ok(found);
    }
    let kind = if type_ == GroupType::Device { "device" } else { "user" };
    let id: String = id.chars().take(100).collect();
    let type_ = if type_ == GroupType::Device { "device" } else { "user" };
    let fix = CREATE.of(&id).with("type", type_);
    Err(Error::missing(field, format!("there is no {kind} group {id:?}: create it first"), fix))
}

/// Returns every ancestor of a group as a precondition, in the checked version: a concurrent change of one
/// could make a cycle.
async fn check(app: &App, spec: &GroupSpec) -> Result<Vec<Held>, Error> {
    text::check_name("name", &spec.name)?;
    let Some(parent) = &spec.parent_id else { return Ok(Vec::new()) };
    let mut above = Some(require(app, "parent_id", parent, spec.type_).await?);
    let mut holds: Vec<Held> = Vec::new();
    let room = room(app, spec).await?;
    while let Some(group) = above {
        let id = &group.content.id;
        if holds.len() + 1 >= room || *id == spec.name || holds.iter().any(|held| held.id == *id) {
            let wrong = format!("would make a cycle of groups, or a tree deeper than {DEEPEST}");
            return Err(Error::invalid("parent_id", wrong));
        }
        holds.push(Held::at(&group));
        above = match self::spec(&group)?.parent_id {
            Some(id) => GROUPS.find(app, &id).await?,
            None => None,
        };
    }
    Ok(holds)
}

/// The greatest allowed depth of a group. A group that keeps its parent is always allowed.
async fn room(app: &App, spec: &GroupSpec) -> Result<usize, Error> {
    if let Some(now) = GROUPS.find(app, &spec.name).await?
        && self::spec(&now)?.parent_id == spec.parent_id
    {
        return Ok(usize::MAX);
    }
    Ok(DEEPEST.saturating_sub(height(app, &spec.name).await?))
}

/// The number of levels below a group. Groups added concurrently are not counted; settings are inherited at
/// any depth.
async fn height(app: &App, name: &str) -> Result<usize, Error> {
    let of_it = BTreeMap::from([(PARENT.to_owned(), name.to_owned())]);
    let mut list = List { kind: KIND.to_owned(), fields: of_it, limit: 1, ..List::default() };
    if app.store.list(&list).await?.items.is_empty() {
        return Ok(0);
    }
    // One list of all groups is cheaper than a query for each.
    (list.fields, list.limit) = (BTreeMap::new(), 1000);
    let mut below: HashMap<String, Vec<String>> = HashMap::new();
    loop {
        let page = app.store.list(&list).await?;
        for group in page.items {
            if let Some(parent) = spec(&group)?.parent_id {
                below.entry(parent).or_default().push(group.content.id);
            }
        }
        match page.next {
            Some(next) => list.after = Some(next),
            None => break,
        }
    }
    let (mut level, mut height) = (vec![name.to_owned()], 0);
    loop {
        level = level.iter().filter_map(|id| below.remove(id)).flatten().collect();
        if level.is_empty() {
            return Ok(height);
        }
        height += 1;
    }
}

fn content(spec: &GroupSpec) -> Result<Content, Error> {
    let fields = spec.parent_id.iter().map(|parent| (PARENT.to_owned(), parent.clone())).collect();
    Ok(Content { fields, ..GROUPS.content(&spec.name, spec)? })
}

fn spec(resource: &Resource) -> Result<GroupSpec, Error> {
    Ok(resource.content.document.read()?)
}

fn view(tree: &Tree, resource: &Resource) -> Result<Group, Error> {
    let GroupSpec { name, type_, parent_id, auto_promote } = spec(resource)?;
    let effective_auto_promote = tree.auto_promotes(&name);
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
    let tree = Tree::above(std::slice::from_ref(resource), |ids| read(app, ids)).await?;
    named::answer(status, resource, view(&tree, resource)?)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn group(name: &str, parent: Option<&str>, auto_promote: Option<bool>) -> Resource {
        let (name, parent_id) = (name.to_owned(), parent.map(str::to_owned));
        let content =
            content(&GroupSpec { name, type_: GroupType::Device, parent_id, auto_promote }).unwrap();
        let at = jiff::Timestamp::UNIX_EPOCH;
        Resource {
            content,
            version: 1,
            head: String::new(),
            created_at: at,
            updated_at: at,
            state_changed_at: at,
        }
    }

    /// Two groups that are put under each other's trees at the same moment can make one too deep.
    #[tokio::test]
    async fn a_tree_that_is_too_deep_can_be_changed_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let app = crate::platform::bare::app(&dir).await;
        let name = |level: usize| format!("g{level}");
        for level in 0..40 {
            let made = group(&name(level), (level > 0).then(|| name(level - 1)).as_deref(), None);
            let entry = crate::platform::app::by_system(&app, "registered", serde_json::Value::Null);
            app.create(made.content, entry).await.unwrap();
        }
        let under =
            |of: usize, parent: usize| spec(&group(&name(of), Some(&name(parent)), Some(true))).unwrap();
        for level in [1, 20, 39] {
            let held = check(&app, &under(level, level - 1)).await.unwrap();
            assert_eq!(held.len(), level, "everything above is held");
        }
        for (of, parent) in [(39, 37), (1, 39), (40, 39), (20, 20)] {
            assert!(matches!(check(&app, &under(of, parent)).await, Err(Error::Invalid(_))), "{of}");
        }
        check(&app, &under(39, 5)).await.unwrap();
    }

    /// A token in use keeps its group; a refused deletion changes nothing, and a deletion changes nothing but the group.
    #[tokio::test]
    async fn the_deletion_of_a_group_is_one_change() {
        use crate::platform::{
            app::by_system,
            identity::{auth::Principal, auth::TokenDocument, token},
        };
        let dir = tempfile::tempdir().unwrap();
        let app = crate::platform::bare::app(&dir).await;
        let entry = || by_system(&app, "registered", serde_json::Value::Null);
        let (name, type_) = ("users".to_owned(), GroupType::User);
        let users = GroupSpec { name, type_, parent_id: None, auto_promote: None };
        app.create(content(&users).unwrap(), entry()).await.unwrap();
        let (role, group_id) = (wardroom_core::table::Role::Viewer, Some("users".to_owned()));
        let (kinds, adapter, expires_at) = (Vec::new(), None, jiff::Timestamp::MAX);
        let document = TokenDocument { role, kinds, group_id, adapter, expires_at };
        let token = token::content(&app.key, "working", &document, "working").unwrap();
        let working = app.create(token, entry()).await.unwrap();
        let tokens = async || {
            let all = List { kind: TOKEN.to_owned(), limit: 10, ..List::default() };
            app.store.list(&all).await.unwrap().items
        };
        let address = std::net::Ipv4Addr::LOCALHOST.into();
        let caller = Caller { principal: Principal::Anonymous, address, request_id: "test".into() };
        let go_if = async |headers| {
            delete(State(app.clone()), Extension(caller.clone()), Path("users".to_owned()), headers).await
        };
        let go = async || go_if(HeaderMap::new()).await;
        match go().await {
            Err(Error::Conflict { detail, .. }) => assert!(detail.contains(&working.content.id), "{detail}"),
            other => panic!("a node is in it: {other:?}"),
        }
        let if_match = HeaderMap::from_iter([(axum::http::header::IF_MATCH, "\"other\"".parse().unwrap())]);
        assert_eq!(go_if(if_match).await.unwrap_err().status(), StatusCode::PRECONDITION_FAILED);
        assert!(tokens().await.iter().all(|token| token.version == 1), "what was refused changed something");
        let fields = BTreeMap::new();
        let content = Content { state: "revoked".to_owned(), fields, ..working.content.clone() };
        let (effects, holds) = (Vec::new(), Vec::new());
        let change = wardroom_store::Change {
            before: Some(working),
            after: content,
            entry: entry(),
            effects,
            fence: None,
            holds,
        };
        app.commit(change).await.unwrap();
        let left = tokens().await;
        go().await.unwrap();
        assert_eq!(tokens().await, left, "the deletion of a group is one change");
    }

    /// Twenty racks under each of nine chains: a page of 180 groups, seven levels below the settings.
    #[tokio::test]
    async fn the_cost_of_a_page_depends_on_the_depth_of_its_tree() {
        let mut above = Vec::new();
        let mut page = Vec::new();
        for chain in 0..9 {
            above.push(group(&format!("{chain}-0"), None, Some(chain % 2 == 0)));
            for level in 1..7 {
                above.push(group(&format!("{chain}-{level}"), Some(&format!("{chain}-{}", level - 1)), None));
            }
            let racks = 0..20;
            page.extend(
                racks.map(|rack| group(&format!("{chain}-rack-{rack}"), Some(&format!("{chain}-6")), None)),
            );
        }
        let reads = Cell::new(0);
        let read = |ids: Vec<String>| {
            reads.set(reads.get() + 1);
            let found: Vec<_> =
                above.iter().filter(|group| ids.contains(&group.content.id)).cloned().collect();
            async { Ok(found) }
        };
        let tree = Tree::above(&page, read).await.unwrap();
        for rack in &page {
            let expected = rack.content.id.as_bytes()[0] % 2 == 0;
            assert_eq!(tree.auto_promotes(&rack.content.id), expected, "{}", rack.content.id);
        }
        assert_eq!(reads.get(), 7);
    }
}

//! Creating clusters and node pools.

use std::collections::BTreeMap;

use axum::{Extension, extract::State, http::StatusCode, response::Response};
use uuid::Uuid;
use wardroom_api::cluster::{Cluster, ClusterCreate, Exact};
use wardroom_core::cluster::{READ, fold};
use wardroom_store::{Beside, Change, Content, Entry, Error as StoreError, attempts, unless_conflict};

use super::{
    CLUSTER, NODE_POOL, Place, Sort,
    adapters::told,
    commit::{commit_all, desired, turn},
    delete::being_deleted,
    document::{Document, now},
    facts::Facts,
    settings::Settings,
    view,
};
use crate::platform::{
    app::{App, by_person},
    http::{body::Body, error::Error, path::Path, problems::Problems, text},
    identity::auth::Caller,
};

/// Creates a cluster. It waits for the required adapters at once.
#[utoipa::path(
    post, path = "/api/hyperfleet/v1/clusters", operation_id = "create_cluster", request_body = ClusterCreate,
    responses((status = 201, body = Cluster), Problems)
)]
pub(crate) async fn cluster(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(create): Body<ClusterCreate>,
) -> Result<Response, Error> {
    make(&app, &caller, &CLUSTER, None, create).await
}

/// Creates a node pool of a cluster.
#[utoipa::path(
    post, path = "/api/hyperfleet/v1/clusters/{id}/nodepools", operation_id = "create_nodepool",
    request_body = ClusterCreate, params(("id" = String, Path, description = "The cluster, by id or name")),
    responses((status = 201, body = Cluster), Problems)
)]
pub(crate) async fn node_pool(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(cluster): Path<String>,
    Body(create): Body<ClusterCreate>,
) -> Result<Response, Error> {
    make(&app, &caller, &NODE_POOL, Some(&cluster), create).await
}

async fn make(
    app: &App,
    caller: &Caller,
    sort: &'static Sort,
    cluster: Option<&str>,
    create: ClusterCreate,
) -> Result<Response, Error> {
    check(sort, &create)?;
    let id = Uuid::now_v7().to_string();
    attempts(async || {
        let owner = match cluster {
            Some(cluster) => Some(Place::Cluster(cluster).read(app).await?),
            None => None,
        };
        attempt(app, caller, sort, owner.as_ref(), &id, &create).await
    })
    .await
}

/// Creates the resource; nothing comes back when its cluster has changed meanwhile.
async fn attempt(
    app: &App,
    caller: &Caller,
    sort: &'static Sort,
    owner: Option<&Facts>,
    id: &str,
    create: &ClusterCreate,
) -> Result<Option<Response>, Error> {
    if let Some(owner) = owner.filter(|owner| owner.is_being_deleted()) {
        return Err(being_deleted(owner, "it gets no new node pools"));
    }
    let now = now(app);
    let document = Document {
        spec: create.spec.clone(),
        generation: 1,
        updated_time: now,
        created_by: caller.name().to_owned(),
        updated_by: caller.name().to_owned(),
        deleted_time: None,
        deleted_by: None,
        owner: owner.map(|owner| owner.id().to_owned()),
    };
    let required = Settings::of(&app.config).required(sort);
    let conditions = fold(&desired(&document, required, false), &[], &[]);
    let content = document.content(sort, (id, &create.name), create.labels.clone(), &conditions)?;
    let mut beside = vec![kept(turn(sort, id, 1, &conditions, now)?)];
    // The cluster takes its turn too: it cannot be deleted at the same moment without this node pool.
    if let Some(owner) = owner {
        let turn = turn(owner.sort, owner.id(), owner.turn + 1, &owner.conditions, now)?;
        beside.push(kept(turn));
    }
    let content = Content { due_at: told::due_at(app, None, &[], &conditions), ..content };
    let metadata = told::generation_of(&document);
    let entry = Entry { at: now, metadata, ..by_person(app, caller, "created", None) };
    let (effects, holds) = (Vec::new(), Vec::new());
    let change = Change { before: None, after: content, entry, effects, fence: None, holds };
    match commit_all(app, vec![change], beside).await {
        Err(StoreError::KeyTaken { holder, .. }) => Err(taken(sort, &create.name, &holder)),
        committed => unless_conflict(committed)?
            .and_then(|mut made| made.pop())
            .map(|made| view::answer(StatusCode::CREATED, sort, &made, conditions))
            .transpose(),
    }
}

fn kept(turn: wardroom_store::Observation) -> Beside {
    Beside { turn, others: Vec::new(), ends: false }
}

fn taken(sort: &Sort, name: &str, holder: &str) -> Error {
    Error::Conflict {
        code: "name_taken",
        detail: format!(
            "there is a {} {name:?} already, with the id {holder}: choose another name",
            sort.word
        ),
        allowed: if *sort == CLUSTER { vec![READ.of(holder)] } else { Vec::new() },
    }
}

/// Names every field that is wrong.
fn check(sort: &Sort, create: &ClusterCreate) -> Result<(), Error> {
    Error::all([
        check_kind(sort, create.kind.as_deref()),
        check_name(sort, &create.name),
        check_labels(&create.labels),
        check_spec(&create.spec),
    ])
}

fn check_kind(sort: &Sort, kind: Option<&str>) -> Result<(), Error> {
    match kind {
        Some(kind) if kind != sort.wire => {
            Err(Error::invalid("kind", format!("must be {:?} at this path, or left out", sort.wire)))
        }
        Some(_) | None => Ok(()),
    }
}

fn check_name(sort: &Sort, name: &str) -> Result<(), Error> {
    let decent = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_end = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let bytes = name.as_bytes();
    let is_well =
        (3..=sort.longest_name).contains(&name.len()) && is_end(bytes.first()) && is_end(bytes.last());
    if is_well && name.bytes().all(decent) {
        return Ok(());
    }
    Err(Error::invalid(
        "name",
        format!(
            "must be 3 to {} lower case letters, digits and hyphens, with a letter or digit at both ends",
            sort.longest_name
        ),
    ))
}

pub(super) fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), Error> {
    text::check_labels(labels)
}

/// A spec that can be compared and searched: no number beyond a double, no half of a character.
pub(super) fn check_spec(spec: &Exact) -> Result<(), Error> {
    let read = spec.value().map(drop);
    read.map_err(|error| Error::invalid("spec", format!("cannot be read: {error}")))
}

#[cfg(test)]
mod tests {
    use super::{check_kind, check_name};
    use crate::kinds::cluster::{CLUSTER, NODE_POOL};

    #[test]
    fn names_are_those_of_dns_labels() {
        let long = "a".repeat(53);
        for (name, cluster, pool) in [
            ("abc", true, true),
            ("a-1", true, true),
            ("ab", false, false),
            ("-ab", false, false),
            ("ab-", false, false),
            ("Abc", false, false),
            ("a.b", false, false),
            ("workers-of-east", true, true),
            ("workers-of-east1", true, false),
            (&long, true, false),
            (&format!("{long}a"), false, false),
        ] {
            assert_eq!(check_name(&CLUSTER, name).is_ok(), cluster, "{name}");
            assert_eq!(check_name(&NODE_POOL, name).is_ok(), pool, "{name}");
        }
    }

    #[test]
    fn a_kind_is_that_of_the_path() {
        assert!(check_kind(&CLUSTER, None).is_ok() && check_kind(&CLUSTER, Some("Cluster")).is_ok());
        assert!(check_kind(&CLUSTER, Some("NodePool")).is_err());
    }
}

//! Clusters and their node pools: what people want of them, and what adapters report.
//!
//! A node pool is a resource of its own kind that belongs to a cluster; both are served by the same code, which is told
//! apart by a `Sort`. The rules are in `core`'s `cluster`: this room reads, lets them decide, and commits.

use wardroom_store::{List, Resource};

use crate::platform::{app::App, http::error::Error};

pub(crate) mod adapters;
mod commit;
pub(crate) mod create;
pub(crate) mod delete;
mod document;
mod face;
mod facts;
pub(crate) mod list;
pub(crate) mod patch;
mod problems;
mod refold;
pub(crate) mod report;
mod routes;
pub(crate) mod row;
pub mod settings;
pub(crate) mod statuses;
#[cfg(test)]
mod tests;
mod turns;
mod view;
mod why;

use facts::Facts;

/// What is served by this room: clusters, or node pools.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sort {
    /// The kind in the store, in history and in scopes of tokens.
    pub(crate) kind: &'static str,
    /// The kind on the wire.
    pub(crate) wire: &'static str,
    /// What people call one.
    pub(crate) word: &'static str,
    /// The characters of a name at most.
    longest_name: usize,
}

pub(crate) static CLUSTER: Sort =
    Sort { kind: "cluster", wire: "Cluster", word: "cluster", longest_name: 53 };

pub(crate) static NODE_POOL: Sort =
    Sort { kind: "nodepool", wire: "NodePool", word: "node pool", longest_name: 15 };

/// The field by which the node pools of a cluster are found.
const OWNER: &str = "cluster";

impl Sort {
    /// The key that only one living resource has: its name, within its cluster if it belongs to one.
    fn key(owner: Option<&str>, name: &str) -> String {
        owner.map_or_else(|| name.to_owned(), |owner| format!("{owner}/{name}"))
    }

    /// Where a resource is found.
    fn href(owner: Option<&str>, id: &str) -> String {
        match owner {
            None => format!("/api/hyperfleet/v1/clusters/{id}"),
            Some(owner) => format!("/api/hyperfleet/v1/clusters/{owner}/nodepools/{id}"),
        }
    }
}

/// The path to a resource: of a cluster, or of a node pool through its cluster. Each part is an id or a name.
pub(crate) enum Place<'a> {
    Cluster(&'a str),
    Pool(&'a str, &'a str),
}

impl Place<'_> {
    pub(crate) fn sort(&self) -> &'static Sort {
        match self {
            Self::Cluster(_) => &CLUSTER,
            Self::Pool(..) => &NODE_POOL,
        }
    }

    /// Reads the living resource with all that is known of it.
    pub(crate) async fn read(&self, app: &App) -> Result<Facts, Error> {
        let (sort, found) = (self.sort(), self.find(app).await?);
        let facts = Facts::read(app, sort, &found.content.id).await?;
        facts.ok_or_else(|| Error::not_found(sort.kind, &found.content.id))
    }

    /// The living resource.
    async fn find(&self, app: &App) -> Result<Resource, Error> {
        match self {
            Self::Cluster(called) => find(app, &CLUSTER, None, called).await,
            Self::Pool(cluster, called) => {
                let owner = id_of(app, cluster).await?;
                find(app, &NODE_POOL, Some(&owner), called).await
            }
        }
    }
}

/// The living resource of this id, or of this name within its owner.
async fn find(app: &App, sort: &'static Sort, owner: Option<&str>, called: &str) -> Result<Resource, Error> {
    let is_here = |found: &Resource| {
        !found.content.deleted && found.content.fields.get(OWNER).map(String::as_str) == owner
    };
    if is_id(called)
        && let Some(found) = app.store.get(sort.kind, called).await?.filter(is_here)
    {
        return Ok(found);
    }
    let found = app.store.get_by_key(sort.kind, &Sort::key(owner, called)).await?;
    found.ok_or_else(|| Error::not_found(sort.kind, called))
}

/// Ids have a form of their own, so that a look for one is spared for most names.
fn is_id(called: &str) -> bool {
    called.len() == 36 && uuid::Uuid::try_parse(called).is_ok()
}

/// The id of a living cluster, by its id or name.
pub(crate) async fn id_of(app: &App, called: &str) -> Result<String, Error> {
    Ok(find(app, &CLUSTER, None, called).await?.content.id)
}

/// The ids of a cluster's node pools that are still there.
async fn pools_of(app: &App, cluster: &str) -> Result<Vec<String>, Error> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let fields = [(OWNER.to_owned(), cluster.to_owned())].into();
        let list = List { kind: NODE_POOL.kind.to_owned(), fields, after, limit: 500, ..List::default() };
        let page = app.store.list(&list).await?;
        ids.extend(page.items.into_iter().map(|pool| pool.content.id));
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(ids),
        }
    }
}

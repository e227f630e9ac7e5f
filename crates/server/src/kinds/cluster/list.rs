//! Reading clusters and node pools: one, or a page of them.

use std::collections::HashMap;

use axum::{Json, extract::State, http::StatusCode, response::Response};
use serde::Deserialize;
use utoipa::IntoParams;
use wardroom_api::cluster::{Cluster, Items};
use wardroom_core::cluster::{
    Condition,
    search::{Compare, Field, Literal, Search, Test},
};
use wardroom_store::{List, Requirement, Resource, Selector, Window};

use super::{
    CLUSTER, NODE_POOL, OWNER, Place, Sort,
    adapters::silence,
    document::{CONDITION, Document},
    facts::CONDITIONS,
    id_of, view,
};
use crate::platform::{
    app::App,
    http::{
        error::Error,
        list::{ListQuery, number},
        path::Path,
        problems::Problems,
    },
};

mod found;

/// Which page.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageQuery {
    /// Which page: from 1.
    #[param(minimum = 1, maximum = 100_000)]
    pub(super) page: Option<String>,
    /// How many entries a page has: 1 to 500, 20 unless told.
    #[param(minimum = 1, maximum = 500)]
    pub(super) size: Option<String>,
}

/// Which clusters, in which order, and which page of them.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClusterQuery {
    /// Only these, e.g. `labels.region = 'us-east' and status.conditions.Reconciled = 'False'`.
    #[param(max_length = 4096)]
    search: Option<String>,
    /// Which page: from 1.
    #[param(minimum = 1, maximum = 100_000)]
    page: Option<String>,
    /// How many entries a page has: 1 to 500, 20 unless told.
    #[param(minimum = 1, maximum = 500)]
    size: Option<String>,
    /// `created_time desc`, the default, or `created_time asc`.
    order: Option<String>,
}

/// A page that was asked for.
pub(super) struct Pages {
    page: usize,
    pub(super) size: usize,
}

impl Pages {
    pub(super) fn of(page: Option<&str>, size: Option<&str>) -> Result<Self, Error> {
        Ok(Self { page: number("page", page, 1, 1..=100_000)?, size: number("size", size, 20, 1..=500)? })
    }

    /// How many entries come before it.
    pub(super) fn skipped(&self) -> usize {
        (self.page - 1) * self.size
    }

    pub(super) fn items<T>(&self, items: Vec<T>, total: usize) -> Items<T> {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        Items { page: count(self.page), size: count(items.len()), total: count(total), items }
    }
}

/// Lists clusters, the newest first; also those that are being deleted.
#[utoipa::path(
    get, path = "/api/hyperfleet/v1/clusters", operation_id = "list_clusters", params(ClusterQuery),
    responses((status = 200, body = Items<Cluster>), Problems)
)]
pub(crate) async fn clusters(
    State(app): State<App>,
    ListQuery(query): ListQuery<ClusterQuery>,
) -> Result<Json<Items<Cluster>>, Error> {
    page(&app, &CLUSTER, None, &query).await
}

/// Lists the node pools of a cluster, the newest first; also those that are being deleted.
#[utoipa::path(
    get, path = "/api/hyperfleet/v1/clusters/{id}/nodepools", operation_id = "list_nodepools",
    params(("id" = String, Path, description = "The cluster, by id or name"), ClusterQuery),
    responses((status = 200, body = Items<Cluster>), Problems)
)]
pub(crate) async fn node_pools(
    State(app): State<App>,
    Path(id): Path<String>,
    ListQuery(query): ListQuery<ClusterQuery>,
) -> Result<Json<Items<Cluster>>, Error> {
    let owner = id_of(&app, &id).await?;
    page(&app, &NODE_POOL, Some(owner), &query).await
}

/// Lists the node pools of all clusters, the newest first.
#[utoipa::path(
    get, path = "/api/hyperfleet/v1/nodepools", operation_id = "list_all_nodepools", params(ClusterQuery),
    responses((status = 200, body = Items<Cluster>), Problems)
)]
pub(crate) async fn all_node_pools(
    State(app): State<App>,
    ListQuery(query): ListQuery<ClusterQuery>,
) -> Result<Json<Items<Cluster>>, Error> {
    page(&app, &NODE_POOL, None, &query).await
}

/// Reads one cluster.
#[utoipa::path(
    get, path = "/api/hyperfleet/v1/clusters/{id}", operation_id = "get_cluster",
    params(("id" = String, Path, description = "The cluster, by id or name")),
    responses((status = 200, body = Cluster), Problems)
)]
pub(crate) async fn cluster(State(app): State<App>, Path(id): Path<String>) -> Result<Response, Error> {
    one(&app, &Place::Cluster(&id)).await
}

/// Reads one node pool.
#[utoipa::path(
    get, path = "/api/hyperfleet/v1/clusters/{id}/nodepools/{pool}", operation_id = "get_nodepool",
    params(
        ("id" = String, Path, description = "The cluster, by id or name"),
        ("pool" = String, Path, description = "The node pool, by id or name"),
    ),
    responses((status = 200, body = Cluster), Problems)
)]
pub(crate) async fn node_pool(
    State(app): State<App>,
    Path((id, pool)): Path<(String, String)>,
) -> Result<Response, Error> {
    one(&app, &Place::Pool(&id, &pool)).await
}

/// One resource with its conditions; what each adapter said is not read for it.
async fn one(app: &App, place: &Place<'_>) -> Result<Response, Error> {
    let (sort, found) = (place.sort(), place.find(app).await?);
    let seen = app.store.observation(sort.kind, &found.content.id, CONDITIONS).await?;
    let mut conditions = seen.map(|seen| seen.document.read()).transpose()?.unwrap_or_default();
    silence::overlay(app, sort, &found, &mut conditions).await?;
    view::answer(StatusCode::OK, sort, &found, conditions)
}

async fn page(
    app: &App,
    sort: &'static Sort,
    owner: Option<String>,
    query: &ClusterQuery,
) -> Result<Json<Items<Cluster>>, Error> {
    let pages = Pages::of(query.page.as_deref(), query.size.as_deref())?;
    let newest_first = newest_first(query.order.as_deref())?;
    let search = query.search.as_deref().map(Search::parse).transpose()?;
    let mut list = List { kind: sort.kind.to_owned(), limit: pages.size, ..List::default() };
    list.fields.extend(owner.map(|owner| (OWNER.to_owned(), owner)));
    let is_whole = search.as_ref().is_none_or(|search| narrow(&mut list, search));
    let (found, total) = match search.filter(|_| !is_whole) {
        None => {
            let offset = i64::try_from(pages.skipped()).unwrap_or(i64::MAX);
            let windowed = app.store.window(&list, Window { offset, newest_first }).await?;
            (windowed.items, usize::try_from(windowed.total).unwrap_or_default())
        }
        Some(search) => found::by(app, sort, list, &search, &pages, newest_first).await?,
    };
    let mut conditions = conditions_of(app, sort, &found).await?;
    silence::overlay_page(app, sort, &found, &mut conditions).await?;
    let shown = |resource: &Resource| {
        let conditions = conditions.remove(&resource.content.id).unwrap_or_default();
        Ok(view::shown(sort, resource, Document::of(resource)?, conditions))
    };
    let items = found.iter().map(shown).collect::<Result<Vec<_>, Error>>()?;
    Ok(Json(pages.items(items, total)))
}

fn newest_first(order: Option<&str>) -> Result<bool, Error> {
    let words: Vec<_> = order.unwrap_or("created_time desc").split_whitespace().collect();
    match words.as_slice() {
        ["created_time", "desc"] => Ok(true),
        ["created_time"] | ["created_time", "asc"] => Ok(false),
        _ => Err(Error::invalid("order", "must be created_time asc or created_time desc")),
    }
}

/// The conditions of some resources, by their ids.
pub(super) async fn conditions_of(
    app: &App,
    sort: &Sort,
    found: &[Resource],
) -> Result<HashMap<String, Vec<Condition>>, Error> {
    let ids: Vec<_> = found.iter().map(|resource| &*resource.content.id).collect();
    let seen = app.store.observed(sort.kind, CONDITIONS, &ids).await?;
    seen.into_iter().map(|one| Ok((one.resource_id, one.document.read()?))).collect()
}

/// Labels that the database is asked for; each costs a probe for every row.
const MOST_LABELS: usize = 16;

/// Lets the database find what an index knows: labels and conditions that have to be equal. Returns whether that is all.
fn narrow(list: &mut List, search: &Search) -> bool {
    let mut is_whole = true;
    for part in search.parts() {
        let Search::Field(field, test) = part else {
            is_whole = false;
            continue;
        };
        match (field, values(test)) {
            (Field::Label(key), Some(values)) if list.labels.len() < MOST_LABELS => {
                list.labels.push(Selector { key: key.clone(), requirement: Requirement::In(values) });
            }
            (Field::Condition(type_), Some(values))
                if values.len() == 1 && list.fields.len() < MOST_LABELS =>
            {
                let value = values.into_iter().next().unwrap_or_default();
                let before = list.fields.insert(format!("{CONDITION}{type_}"), value);
                // Two different statuses at once: found one by one, which is none.
                is_whole &= before.is_none();
            }
            (
                Field::Label(_) | Field::Condition(_) | Field::Column(_) | Field::Spec(_) | Field::Detail(..),
                _,
            ) => is_whole = false,
        }
    }
    is_whole
}

/// The texts that a field may be equal to; nothing for another test.
fn values(test: &Test) -> Option<Vec<String>> {
    let text = |literal: &Literal| match literal {
        Literal::Text(text) if !text.contains('\0') => Some(text.clone()),
        Literal::Text(_) | Literal::Number(_) | Literal::Flag(_) => None,
    };
    match test {
        Test::Than(Compare::Equal, literal) => Some(vec![text(literal)?]),
        Test::In(literals) if literals.len() <= 100 => literals.iter().map(text).collect(),
        Test::Than(..) | Test::In(_) | Test::Between(..) | Test::Like { .. } | Test::Null => None,
    }
}

#[cfg(test)]
mod tests {
    use wardroom_core::cluster::search::Search;
    use wardroom_store::List;

    use super::{narrow, newest_first};

    #[test]
    fn the_database_finds_what_an_index_knows() {
        for (text, fields, labels, is_whole) in [
            ("labels.a = 'b'", 0, 1, true),
            ("labels.a in ('b', 'c') and status.conditions.Reconciled = 'True'", 1, 1, true),
            ("labels.a = 'b' and name = 'c'", 0, 1, false),
            ("labels.a = 'b' or labels.a = 'c'", 0, 0, false),
            ("not labels.a = 'b'", 0, 0, false),
            ("labels.a != 'b'", 0, 0, false),
            ("labels.a = 5", 0, 0, false),
            ("status.conditions.A = 'True' and status.conditions.A = 'False'", 1, 0, false),
        ] {
            let mut list = List::default();
            let search = Search::parse(text).expect(text);
            assert_eq!(narrow(&mut list, &search), is_whole, "{text}");
            assert_eq!((list.fields.len(), list.labels.len()), (fields, labels), "{text}");
        }
    }

    #[test]
    fn the_order_is_that_of_creation() {
        assert!(newest_first(None).expect("the default"));
        assert!(!newest_first(Some("created_time")).expect("ascending"));
        assert!(newest_first(Some("created_time desc")).expect("descending"));
        assert!(newest_first(Some("name asc")).is_err());
    }
}

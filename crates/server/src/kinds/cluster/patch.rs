//! Changing what people want of a cluster or node pool.

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use wardroom_api::cluster::{Cluster, ClusterPatch, Exact};
use wardroom_store::{attempts, unless_conflict};

use super::{
    Place,
    adapters::told,
    commit::{Step, commit},
    create::{check_labels, check_spec},
    delete::being_deleted,
    document,
    facts::Facts,
    view,
};
use crate::platform::{
    app::{App, by_person},
    http::{body::Body, error::Error, etag, path::Path, problems::Problems},
    identity::auth::Caller,
};

/// Changes the spec or the labels of a cluster. The generation grows, unless the content stays the same.
#[utoipa::path(
    patch, path = "/api/hyperfleet/v1/clusters/{id}", operation_id = "patch_cluster", request_body = ClusterPatch,
    params(("id" = String, Path, description = "The cluster, by id or name")),
    responses((status = 200, body = Cluster), Problems)
)]
pub(crate) async fn cluster(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(patch): Body<ClusterPatch>,
) -> Result<Response, Error> {
    change(&app, &caller, &headers, &Place::Cluster(&id), &patch).await
}

/// Changes the spec or the labels of a node pool.
#[utoipa::path(
    patch, path = "/api/hyperfleet/v1/clusters/{id}/nodepools/{pool}", operation_id = "patch_nodepool",
    request_body = ClusterPatch,
    params(
        ("id" = String, Path, description = "The cluster, by id or name"),
        ("pool" = String, Path, description = "The node pool, by id or name"),
    ),
    responses((status = 200, body = Cluster), Problems)
)]
pub(crate) async fn node_pool(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((id, pool)): Path<(String, String)>,
    headers: HeaderMap,
    Body(patch): Body<ClusterPatch>,
) -> Result<Response, Error> {
    change(&app, &caller, &headers, &Place::Pool(&id, &pool), &patch).await
}

async fn change(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    place: &Place<'_>,
    patch: &ClusterPatch,
) -> Result<Response, Error> {
    if patch.spec.is_none() && patch.labels.is_none() {
        return Err(Error::invalid("body", "changes nothing: give spec, labels or both"));
    }
    Error::all([
        patch.spec.as_ref().map_or(Ok(()), check_spec),
        patch.labels.as_ref().map_or(Ok(()), check_labels),
    ])?;
    attempts(async || {
        let facts = place.read(app).await?;
        etag::check(headers, || document::etag(&facts.resource, &facts.document))?;
        if facts.is_being_deleted() {
            return Err(being_deleted(&facts, "it is not changed any more"));
        }
        let Some(step) = step(&facts, caller, patch, document::now(app))? else {
            return view::answer_of(StatusCode::OK, &facts).map(Some);
        };
        let changed = told::generation_of(&step.document);
        let settled = step.settle(app, |_, _| {
            let mut entry = by_person(app, caller, "changed", None);
            entry.metadata = changed;
            Some(entry)
        })?;
        let conditions = settled.conditions.clone();
        let Some(mut changed) = unless_conflict(commit(app, vec![settled]).await)? else { return Ok(None) };
        let resource = changed.pop().ok_or(Error::Internal)?;
        view::answer(StatusCode::OK, facts.sort, &resource, conditions).map(Some)
    })
    .await
}

/// The next generation; nothing when the content stays the same.
fn step<'a>(
    facts: &'a Facts,
    caller: &Caller,
    patch: &ClusterPatch,
    now: jiff::Timestamp,
) -> Result<Option<Step<'a>>, Error> {
    let mut step = Step::of(facts);
    let mut differs = false;
    if let Some(spec) = &patch.spec
        && !is_same(spec, &step.document.spec)?
    {
        step.document.spec = spec.clone();
        differs = true;
    }
    if let Some(labels) = &patch.labels
        && *labels != step.labels
    {
        step.labels = labels.clone();
        differs = true;
    }
    step.document = step.document.next(caller.name(), now);
    Ok(differs.then_some(step))
}

/// Whether two specs say the same, in whatever order.
fn is_same(one: &Exact, other: &Exact) -> Result<bool, Error> {
    let read = |spec: &Exact| spec.value().map_err(|_| Error::Internal);
    Ok(one == other || read(one)? == read(other)?)
}

#[cfg(test)]
mod tests {
    use super::{Exact, is_same};

    #[test]
    fn the_order_of_keys_says_nothing() {
        for (one, other, expected) in [
            (r#"{"a":1,"b":{"c":[1,2]}}"#, r#"{ "b": {"c": [1, 2]}, "a": 1 }"#, true),
            (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#, false),
            (r#"{"a":1}"#, r#"{"a":"1"}"#, false),
            (r#"{"a":null}"#, "{}", false),
        ] {
            let read = |text| serde_json::from_str::<Exact>(text).expect(text);
            assert_eq!(is_same(&read(one), &read(other)).expect("both are read"), expected, "{one} {other}");
        }
    }
}

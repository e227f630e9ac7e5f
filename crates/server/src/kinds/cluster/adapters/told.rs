//! What adapters are told of clusters and node pools: which changes are work, and when they look again.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use wardroom_api::{cluster::ObjectReference, history::Row, reconcile::Reconcile};
use wardroom_core::cluster::{Condition, RECONCILED, Recheck};
use wardroom_store::Resource;

use crate::{
    kinds::cluster::{CLUSTER, NODE_POOL, Sort, document::Document, list::conditions_of, settings::Settings},
    platform::{
        app::App,
        feed::reconcile::{Again, Reconciling},
        http::error::Error,
    },
};

/// The history rows of new generations.
const WORK: &[&str] = &["created", "changed", "deletion_requested"];

/// How adapters are told of clusters.
pub(in crate::kinds::cluster) static CLUSTERS: Reconciling = Reconciling {
    event_type: "com.wardroom.cluster.reconcile",
    requires: |app, adapter| requires(app, &CLUSTER, adapter),
    changed: |row| changed(&CLUSTER, row),
    due: |app, found| Box::pin(due(app, &CLUSTER, found)),
};

/// How adapters are told of node pools.
pub(in crate::kinds::cluster) static NODE_POOLS: Reconciling = Reconciling {
    event_type: "com.wardroom.nodepool.reconcile",
    requires: |app, adapter| requires(app, &NODE_POOL, adapter),
    changed: |row| changed(&NODE_POOL, row),
    due: |app, found| Box::pin(due(app, &NODE_POOL, found)),
};

fn requires(app: &App, sort: &Sort, adapter: &str) -> bool {
    Settings::of(&app.config).required(sort).iter().any(|required| required == adapter)
}

/// What history says of a new generation, so that adapters can be told by it alone.
pub(in crate::kinds::cluster) fn generation_of(document: &Document) -> serde_json::Value {
    let Document { generation, owner, .. } = document;
    match owner {
        None => json!({ "generation": generation }),
        Some(owner) => json!({ "generation": generation, "cluster": owner }),
    }
}

fn changed(sort: &Sort, row: &Row) -> Option<Reconcile> {
    if !WORK.contains(&row.type_.as_str()) {
        return None;
    }
    let generation = row.metadata.get("generation")?.as_i64()?;
    let owner = row.metadata.get("cluster").and_then(|owner| owner.as_str());
    Some(named(sort, &row.resource_id, owner, generation))
}

fn named(sort: &Sort, id: &str, owner: Option<&str>, generation: i64) -> Reconcile {
    let reference = |owner: &str| ObjectReference {
        id: owner.to_owned(),
        kind: CLUSTER.wire.to_owned(),
        href: Sort::href(None, owner),
    };
    Reconcile {
        id: id.to_owned(),
        kind: sort.wire.to_owned(),
        href: Sort::href(owner, id),
        generation,
        owner_references: owner.map(reference),
    }
}

/// Says what is due of resources whose time has come. One that all its adapters observed lately waits on.
async fn due(app: &App, sort: &'static Sort, found: &[Resource]) -> Result<Vec<Again>, Error> {
    let recheck = Settings::of(&app.config).recheck();
    let mut conditions = conditions_of(app, sort, found).await?;
    let now = app.now();
    let again = |resource: &Resource| {
        let id = &resource.content.id;
        let Document { generation, owner, .. } = Document::of(resource)?;
        let conditions = conditions.remove(id).unwrap_or_default();
        let due = recheck.due(generation, &conditions, None);
        if now < due {
            return Ok(Again { look_at: None, next: due });
        }
        let next = recheck.due(generation, &conditions, Some(now));
        Ok(Again { look_at: Some(named(sort, id, owner.as_deref(), generation)), next })
    };
    found.iter().map(again).collect()
}

/// When adapters look at a resource again after a commit: a due time that is there stays, unless `Reconciled` moves or
/// speaks of another generation.
pub(in crate::kinds::cluster) fn due_at(
    app: &App,
    was: Option<Timestamp>,
    before: &[Condition],
    after: &[Condition],
) -> Option<Timestamp> {
    let reconciled = |conditions: &[Condition]| {
        let found = conditions.iter().find(|condition| condition.type_ == RECONCILED);
        found.map(|condition| (condition.status, condition.observed_generation))
    };
    let now = reconciled(after);
    if was.is_some() && now == reconciled(before) {
        return was;
    }
    let generation = now.map_or(1, |(_, generation)| generation);
    Some(Settings::of(&app.config).recheck().due(generation, after, None))
}

impl Settings {
    /// When adapters are told of a resource again.
    fn recheck(&self) -> Recheck {
        let signed = |time| SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        Recheck { unreconciled: signed(self.recheck), reconciled: signed(self.recheck_reconciled) }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use wardroom_api::history::Row;

    use super::*;

    fn row(type_: &str, metadata: serde_json::Value) -> Row {
        Row {
            id: "7/1".to_owned(),
            cursor: "c".to_owned(),
            kind: "cluster".to_owned(),
            resource_id: "7".to_owned(),
            sequence: 1,
            type_: type_.to_owned(),
            from_state: None,
            to_state: "False".to_owned(),
            triggered_by: "admin".to_owned(),
            user_id: None,
            comment: None,
            metadata,
            request_id: None,
            created_at: Timestamp::UNIX_EPOCH,
            hash: String::new(),
        }
    }

    #[test]
    fn new_generations_are_work_and_reports_are_not() {
        for (type_, metadata, generation) in [
            ("created", json!({"generation": 1}), Some(1)),
            ("changed", json!({"generation": 2}), Some(2)),
            ("deletion_requested", json!({"generation": 3}), Some(3)),
            ("deleted", json!({"generation": 3}), None),
            ("reported", json!({"adapter": "dns", "observed_generation": 2}), None),
            ("transition", json!({"adapter": "dns", "observed_generation": 2}), None),
            ("node_pool_removed", serde_json::Value::Null, None),
            ("changed", serde_json::Value::Null, None),
        ] {
            let told = changed(&CLUSTER, &row(type_, metadata.clone())).map(|told| told.generation);
            assert_eq!(told, generation, "{type_} {metadata}");
        }
        let pool = changed(&NODE_POOL, &row("created", json!({"generation": 1, "cluster": "c"}))).unwrap();
        assert_eq!(
            (pool.kind.as_str(), pool.href.as_str()),
            ("NodePool", "/api/hyperfleet/v1/clusters/c/nodepools/7")
        );
        assert_eq!(pool.owner_references.unwrap().href, "/api/hyperfleet/v1/clusters/c");
    }
}

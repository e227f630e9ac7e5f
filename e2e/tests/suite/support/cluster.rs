//! Clusters, and what adapters report of them.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use wardroom_core::cluster::{AdapterStatus, Condition, Desired, fold};

use super::{Api, Reply};

pub(crate) const CLUSTERS: &str = "/api/hyperfleet/v1/clusters";

/// A setting that names the adapters every cluster waits for.
pub(crate) const REQUIRED: &str = "WARDROOM_CLUSTERS_REQUIRED_ADAPTERS";

/// The same for node pools.
pub(crate) const REQUIRED_OF_POOLS: &str = "WARDROOM_NODE_POOLS_REQUIRED_ADAPTERS";

#[expect(clippy::disallowed_methods, reason = "adapters have clocks of their own")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// A new cluster.
#[track_caller]
pub(crate) fn cluster(api: &Api, name: &str) -> Value {
    api.post(CLUSTERS, &json!({"kind": "Cluster", "name": name, "spec": {"region": "eu"}})).expect(201)
}

/// A new node pool of a cluster.
#[track_caller]
pub(crate) fn pool(api: &Api, cluster: &str, name: &str) -> Value {
    let body = json!({"kind": "NodePool", "name": name, "spec": {"size": 3}});
    api.post(&format!("{CLUSTERS}/{cluster}/nodepools"), &body).expect(201)
}

/// What an adapter says: that it is available, or not; and that nothing of its own is left, or not.
pub(crate) fn report(adapter: &str, generation: i64, available: &str, finalized: Option<&str>) -> Value {
    report_at(adapter, generation, now(), available, finalized)
}

/// The same as it was at some time.
pub(crate) fn report_at(
    adapter: &str,
    generation: i64,
    at: Timestamp,
    available: &str,
    finalized: Option<&str>,
) -> Value {
    let mut conditions = vec![
        json!({"type": "Available", "status": available, "reason": "Said", "message": format!("{adapter} said so")}),
        json!({"type": "Applied", "status": "True"}),
        json!({"type": "Health", "status": "True"}),
    ];
    conditions.extend(finalized.map(|status| json!({"type": "Finalized", "status": status})));
    json!({
        "adapter": adapter, "observed_generation": generation, "observed_time": at, "conditions": conditions,
    })
}

/// A little before now: adapters may not look far ahead.
pub(crate) fn earlier(seconds: i64) -> Timestamp {
    now().saturating_sub(SignedDuration::from_secs(seconds)).unwrap()
}

/// Sends a report about a cluster.
pub(crate) fn tell(api: &Api, cluster: &str, report: &Value) -> Reply {
    api.post(&format!("{CLUSTERS}/{cluster}/statuses"), report)
}

/// A condition of what the API shows.
pub(crate) fn condition(shown: &Value, type_: &str) -> Value {
    let conditions = shown["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == type_).cloned().unwrap_or(Value::Null)
}

/// The status of a condition.
pub(crate) fn status(shown: &Value, type_: &str) -> String {
    condition(shown, type_)["status"].as_str().unwrap_or("absent").to_owned()
}

/// The statuses that the API shows, as `core` has them, by the names of their adapters.
pub(crate) fn statuses(api: &Api, cluster: &str) -> Vec<AdapterStatus> {
    let shown = api.get(&format!("{CLUSTERS}/{cluster}/statuses?size=500")).expect(200);
    shown["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| serde_json::from_value(item.clone()).unwrap())
        .collect()
}

/// The conditions of a cluster equal `core`'s fold over its statuses: all of them while nothing but the past decides since
/// when they are so.
#[track_caller]
pub(crate) fn assert_folded(api: &Api, cluster: &str, required: &[String]) -> Value {
    let shown = api.get(&format!("{CLUSTERS}/{cluster}")).expect(200);
    let conditions: Vec<Condition> = serde_json::from_value(shown["status"]["conditions"].clone()).unwrap();
    let desired = Desired {
        generation: shown["generation"].as_i64().unwrap(),
        updated_time: shown["updated_time"].as_str().unwrap().parse().unwrap(),
        required_adapters: required,
        deleted: shown.get("deleted_time").is_some(),
        active_children: false,
    };
    let again = fold(&desired, &statuses(api, cluster), &conditions);
    assert_eq!(again, conditions, "folding again changes nothing");
    shown
}

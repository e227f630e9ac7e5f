//! Watches of Kubernetes: a change of an object wakes the clusters that it matters to.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use wardroom_upstream::kubernetes::{Change, Watched};

use super::Adapter;
use crate::flow::{ADAPTER_LABEL, CLUSTER_LABEL};

/// Changes of one cluster within this time are one.
const TOGETHER: Duration = Duration::from_millis(50);

/// Watches until the process ends.
pub(super) async fn watch(adapter: Arc<Adapter>) {
    let Some(kubernetes) = &adapter.kubernetes else { return std::future::pending().await };
    let mut changes = kubernetes.watch(watched(&adapter));
    while let Some(change) = changes.next().await {
        let object = match change {
            Change::Applied(object) | Change::Deleted(object) => object,
            Change::Listed(watched) => {
                tracing::debug!(kind = watched.kind.kind, "watching");
                continue;
            }
            Change::Interrupted { watched, failure } => {
                tracing::warn!(kind = watched.kind.kind, "the watch is interrupted: {failure}");
                continue;
            }
        };
        let mut clusters = adapter.interests.clusters_of(&object);
        let own = &object["metadata"]["labels"][CLUSTER_LABEL];
        clusters.extend(own.as_str().map(str::to_owned));
        for cluster in clusters.into_iter().collect::<BTreeSet<_>>() {
            adapter.queue.poke(&cluster, TOGETHER);
        }
    }
}

/// Returns what is watched: objects of this adapter by its label, and the kinds of those that are looked at.
fn watched(adapter: &Adapter) -> Vec<Watched> {
    let config = &adapter.config;
    let own = config.resources.iter().map(|resource| Watched {
        kind: resource.kind.clone(),
        namespace: None,
        selector: format!("{ADAPTER_LABEL}={}", config.name),
    });
    let others = config.discoveries.iter().map(|discovery| Watched {
        kind: discovery.kind.clone(),
        namespace: discovery.namespace.as_ref().and_then(|namespace| namespace.constant()).map(str::to_owned),
        selector: String::new(),
    });
    let mut watched: Vec<Watched> = Vec::new();
    for one in own.chain(others) {
        if !watched.contains(&one) {
            watched.push(one);
        }
    }
    watched
}

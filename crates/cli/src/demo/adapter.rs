//! The adapters of clusters: each brings what is wanted about, and reports on it with a token of its own.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use wardroom_api::{
    client::{Client, ClusterQuery, Error},
    cluster::ReportedCondition,
    cluster::{Cluster, StatusReport},
};

use super::{
    clock,
    world::{PAUSE, World},
};

/// How long an adapter takes to bring a new generation about.
const WORK: Duration = Duration::from_secs(5);

/// How many clusters are asked for at once.
const PAGE: usize = 100;

/// The file that holds the token of an adapter.
pub(super) fn token_file(world: &World, adapter: &str) -> PathBuf {
    world.folder.join(format!("{adapter}.token"))
}

/// Lives for as long as the demo. Where its token is refused, it reads the file again.
pub(super) async fn live(world: Arc<World>, adapter: &'static str) -> anyhow::Result<()> {
    let mut begun = BTreeMap::new();
    loop {
        let token = tokio::fs::read_to_string(token_file(&world, adapter)).await.unwrap_or_default();
        let client = world.client(Some(token.trim().to_owned()))?;
        let ended = report(&world, adapter, &client, &mut begun).await;
        tracing::debug!(error = %ended, adapter, "an adapter reads its token again");
        tokio::time::sleep(PAUSE * 3).await;
    }
}

/// Reports on every cluster from time to time, until a request fails.
async fn report(
    world: &World,
    adapter: &str,
    client: &Client,
    begun: &mut BTreeMap<(String, i64), tokio::time::Instant>,
) -> Error {
    loop {
        let mut page = 1;
        loop {
            let query = ClusterQuery { page: Some(page), size: Some(PAGE), ..ClusterQuery::default() };
            let found = match client.clusters(&query).await {
                Ok(found) => found,
                Err(error) => return error,
            };
            for cluster in &found.items {
                let since = begun.entry((cluster.id.clone(), cluster.generation));
                let is_done = since.or_insert_with(tokio::time::Instant::now).elapsed() >= WORK;
                if let Err(error) =
                    client.report_cluster(&cluster.id, &status(adapter, cluster, is_done)).await
                    && error.status() != Some(404)
                {
                    return error;
                }
            }
            if found.items.len() < PAGE {
                break;
            }
            page += 1;
        }
        tokio::time::sleep(world.plan.report_interval()).await;
    }
}

fn status(adapter: &str, cluster: &Cluster, is_done: bool) -> StatusReport {
    let condition = |of: &str, is_true: bool, reason: &str| ReportedCondition {
        type_: of.to_owned(),
        status: if is_true { "True" } else { "False" }.to_owned(),
        reason: Some(reason.to_owned()),
        message: None,
    };
    let reason = if is_done { "Done" } else { "Provisioning" };
    StatusReport {
        adapter: adapter.to_owned(),
        observed_generation: cluster.generation,
        observed_time: clock::now(),
        conditions: vec![
            condition("Available", is_done, reason),
            condition("Applied", true, reason),
            condition("Health", true, reason),
            condition("Finalized", cluster.deleted_time.is_some(), reason),
        ],
        data: None,
        metadata: None,
    }
}

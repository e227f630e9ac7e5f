//! Clusters and node pools in columns.

use serde_json::Value;
use wardroom_api::{
    Page,
    action::Action,
    client::{Client, ClusterQuery, Query},
    cluster::{AdapterStatus, Cluster, ForceDelete, Items, NodePool},
    found::Found,
};
use wardroom_core::cluster::{APPLIED, AVAILABLE, HEALTH, LAST_KNOWN_RECONCILED, RECONCILED};

use super::{Resource, Selectable, View};
use crate::{
    exit::not_found,
    kind::Kind,
    locate::Among,
    output,
    said::Said,
    suggest::Words,
    table::{
        Column,
        Level::{Full, Narrow, Wide},
        column, labels, or_none,
    },
    text::{age, time},
};

impl View for Cluster {
    #[rustfmt::skip]
    const COLUMNS: &'static [Column<Self>] = &[
        column("NAME",       Narrow, |cluster, _| cluster.name.clone()),
        column("RECONCILED", Narrow, |cluster, _| status(cluster, RECONCILED)),
        column("LAST KNOWN", Narrow, |cluster, _| status(cluster, LAST_KNOWN_RECONCILED)),
        column("GENERATION", Narrow, |cluster, _| cluster.generation.to_string()),
        column("DELETING",   Narrow, |cluster, _| if cluster.deleted_time.is_some() { "yes" } else { "no" }.to_owned()),
        column("AGE",        Narrow, |cluster, now| age(cluster.created_time, now)),
        column("ID",         Wide,   |cluster, _| cluster.id.clone()),
        column("LABELS",     Wide,   |cluster, _| labels(&cluster.labels)),
        column("REASON",     Wide,   |cluster, _| reason(cluster)),
        column("CREATED",    Full,   |cluster, _| time(cluster.created_time)),
        column("CHANGED",    Full,   |cluster, _| time(cluster.updated_time)),
        column("CHANGED BY", Full,   |cluster, _| cluster.updated_by.clone()),
    ];

    const EXACT: bool = true;

    fn name(&self) -> String {
        format!("cluster/{}", self.name)
    }
}

impl View for NodePool {
    #[rustfmt::skip]
    const COLUMNS: &'static [Column<Self>] = &[
        column("NAME",       Narrow, |pool, _| pool.0.name.clone()),
        column("RECONCILED", Narrow, |pool, _| status(&pool.0, RECONCILED)),
        column("LAST KNOWN", Narrow, |pool, _| status(&pool.0, LAST_KNOWN_RECONCILED)),
        column("GENERATION", Narrow, |pool, _| pool.0.generation.to_string()),
        column("DELETING",   Narrow, |pool, _| if pool.0.deleted_time.is_some() { "yes" } else { "no" }.to_owned()),
        column("AGE",        Narrow, |pool, now| age(pool.0.created_time, now)),
        column("ID",         Wide,   |pool, _| pool.0.id.clone()),
        column("CLUSTER",    Wide,   |pool, _| or_none(pool.owner())),
        column("LABELS",     Wide,   |pool, _| labels(&pool.0.labels)),
        column("REASON",     Wide,   |pool, _| reason(&pool.0)),
        column("CREATED",    Full,   |pool, _| time(pool.0.created_time)),
        column("CHANGED",    Full,   |pool, _| time(pool.0.updated_time)),
        column("CHANGED BY", Full,   |pool, _| pool.0.updated_by.clone()),
    ];

    const EXACT: bool = true;

    fn name(&self) -> String {
        format!("nodepool/{}", self.0.name)
    }
}

fn status(cluster: &Cluster, type_: &str) -> String {
    or_none(cluster.status.condition(type_).map(|condition| condition.status.as_str()))
}

fn reason(cluster: &Cluster) -> String {
    or_none(cluster.status.condition(RECONCILED).and_then(|condition| condition.reason.as_deref()))
}

impl Resource for Cluster {
    const KIND: Kind = Kind::Cluster;
    const CONDITIONED: bool = true;
    const DELETED: &'static str = "deletion requested";
    const EXPLAINED: bool = true;
    const SELECTABLE: Selectable = Selectable::ByState;

    fn id(&self) -> &str {
        &self.id
    }

    async fn page(client: &Client, query: &Query) -> anyhow::Result<Page<Self>> {
        let asked = Asked::of(query);
        Ok(asked.page(client.clusters(&asked.query).await?))
    }

    async fn find(client: &Client, id: &str) -> anyhow::Result<Self> {
        Ok(client.cluster(id).await?)
    }

    fn state(&self) -> Option<&str> {
        Some(self.status.condition(RECONCILED)?.status.as_str())
    }

    fn title(&self) -> &str {
        &self.name
    }

    async fn delete(client: &Client, id: &str) -> anyhow::Result<()> {
        Ok(client.delete_cluster(id).await.map(drop)?)
    }

    async fn force_delete(client: &Client, id: &str, comment: &str) -> anyhow::Result<()> {
        Ok(client.force_delete_cluster(id, &ForceDelete { reason: comment.to_owned() }).await?)
    }

    fn command(action: &Action, id: &str) -> Option<Words> {
        Some(match &*action.action {
            "delete" => Words::whole(&["delete", "cluster", id]),
            "force_delete" => Words::whole(&["delete", "cluster", id, "--force", "--comment", "TEXT"]),
            _ => return None,
        })
    }

    async fn print_details(&self, client: &Client, _said: &mut Said) -> anyhow::Result<()> {
        print_spec(self)?;
        let said = client.cluster_statuses(&self.id, &ClusterQuery::default()).await?;
        if said.items.is_empty() {
            return Ok(());
        }
        output::line("\nAdapters:")?;
        print_statuses(&said.items)
    }
}

impl Resource for NodePool {
    const KIND: Kind = Kind::NodePool;
    const CONDITIONED: bool = true;
    const DELETED: &'static str = "deletion requested";
    const EXPLAINED: bool = true;
    const SELECTABLE: Selectable = Selectable::ByState;

    fn schema() -> &'static str {
        <Cluster as Resource>::schema()
    }

    fn id(&self) -> &str {
        &self.0.id
    }

    async fn page(client: &Client, query: &Query) -> anyhow::Result<Page<Self>> {
        let asked = Asked::of(query);
        Ok(asked.page(client.node_pools(None, &asked.query).await?))
    }

    async fn find(client: &Client, id: &str) -> anyhow::Result<Self> {
        let search = Some(format!("id = '{}'", id.replace('\'', "''")));
        let query = ClusterQuery { search, size: Some(1), ..ClusterQuery::default() };
        let found = client.node_pools(None, &query).await?.items.pop();
        found.ok_or_else(|| not_found(Kind::NodePool, format!("there is no nodepool {id:?}")))
    }

    /// Also finds one by the names of its cluster and its own: `east/workers`.
    async fn named(client: &Client, typed: &str, among: Among) -> anyhow::Result<Vec<Found>> {
        let Some((cluster, called)) = typed.split_once('/') else {
            return Ok(client.find(Some(Self::KIND.as_str()), typed, among == Among::All).await?);
        };
        match client.node_pool(cluster, called).await {
            Ok(pool) => Ok(vec![Found {
                kind: Self::KIND.as_str().to_owned(),
                id: pool.id().to_owned(),
                name: typed.to_owned(),
                state: pool.state().unwrap_or_default().to_owned(),
                deleted: false,
            }]),
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    fn state(&self) -> Option<&str> {
        self.0.state()
    }

    fn title(&self) -> &str {
        &self.0.name
    }

    async fn delete(client: &Client, id: &str) -> anyhow::Result<()> {
        let pool = Self::find(client, id).await?;
        Ok(client.delete_node_pool(pool.owner().unwrap_or_default(), id).await.map(drop)?)
    }

    async fn force_delete(client: &Client, id: &str, comment: &str) -> anyhow::Result<()> {
        let pool = Self::find(client, id).await?;
        let why = ForceDelete { reason: comment.to_owned() };
        Ok(client.force_delete_node_pool(pool.owner().unwrap_or_default(), id, &why).await?)
    }

    async fn print_details(&self, _client: &Client, _said: &mut Said) -> anyhow::Result<()> {
        print_spec(&self.0)
    }
}

fn print_spec(cluster: &Cluster) -> anyhow::Result<()> {
    output::line("\nSpec:")?;
    output::yaml(&cluster.spec.value().unwrap_or(Value::Null))
}

/// A page as commands ask for it: the cursor is the number of the page, and how many entries each has.
struct Asked {
    query: ClusterQuery,
    most: usize,
}

impl Asked {
    fn of(query: &Query) -> Self {
        let most = query.limit.unwrap_or(100);
        let place = query.cursor.as_deref().and_then(|cursor| cursor.split_once(' '));
        let place = place.and_then(|(page, size)| Some((page.parse().ok()?, size.parse().ok()?)));
        let (page, size) = place.unwrap_or((1, most.clamp(1, 500)));
        let search = query
            .state
            .as_ref()
            .map(|state| format!("status.conditions.{RECONCILED} = '{}'", state.replace('\'', "''")));
        Self { query: ClusterQuery { search, page: Some(page), size: Some(size) }, most }
    }

    fn page<T>(&self, mut items: Items<T>) -> Page<T> {
        let (page, size) = (self.query.page.unwrap_or(1), self.query.size.unwrap_or(1));
        let seen = i64::try_from(page * size).unwrap_or(i64::MAX);
        items.items.truncate(self.most);
        Page {
            success: true,
            data: items.items,
            next: (seen < items.total).then(|| format!("{} {size}", page + 1)),
        }
    }
}

/// Writes what adapters said last.
pub(crate) fn print_statuses(said: &[AdapterStatus]) -> anyhow::Result<()> {
    use crate::table::{Heads, Writer};

    let of = |said: &AdapterStatus, type_| or_none(said.condition(type_).map(|one| one.status.as_str()));
    let row = |said: &AdapterStatus| {
        let available = said.condition(AVAILABLE);
        vec![
            said.adapter.clone(),
            of(said, AVAILABLE),
            of(said, APPLIED),
            of(said, HEALTH),
            said.observed_generation.to_string(),
            time(said.last_report_time),
            or_none(available.and_then(|available| available.reason.as_deref())),
            or_none(available.and_then(|available| available.message.as_deref())),
        ]
    };
    let rows: Vec<_> = said.iter().map(row).collect();
    let heads = ["ADAPTER", "AVAILABLE", "APPLIED", "HEALTH", "GENERATION", "REPORTED", "REASON", "MESSAGE"];
    Writer::start(&heads, &rows, Heads::Shown).map(drop)
}

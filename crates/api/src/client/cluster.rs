//! Clusters and node pools.

use reqwest::Method;

use super::{Client, Error, accepted};
use crate::cluster::{
    AdapterStatus, Cluster, ClusterCreate, ClusterPatch, ForceDelete, Items, NodePool, ReportAnswer,
    StatusReport,
};

/// Paths of clusters are those of HyperFleet.
const HYPERFLEET: &[&str] = &["api", "hyperfleet", "v1"];

/// Which clusters, and which page of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterQuery {
    /// Only those that a search finds, such as `labels.region = 'eu'`.
    pub search: Option<String>,
    /// Which page: from 1.
    pub page: Option<usize>,
    /// How many entries a page has.
    pub size: Option<usize>,
}

impl Client {
    fn hyperfleet(&self) -> Self {
        Self { root: HYPERFLEET, ..self.clone() }
    }

    async fn items<T: serde::de::DeserializeOwned>(
        &self,
        path: &[&str],
        query: &ClusterQuery,
    ) -> Result<Items<T>, Error> {
        let (page, size) = (query.page.map(|page| page.to_string()), query.size.map(|size| size.to_string()));
        let query =
            [("search", query.search.as_deref()), ("page", page.as_deref()), ("size", size.as_deref())];
        self.hyperfleet().get(path, &query).await
    }

    /// One page of clusters, the newest first.
    ///
    /// # Errors
    /// As for every call.
    pub async fn clusters(&self, query: &ClusterQuery) -> Result<Items<Cluster>, Error> {
        self.items(&["clusters"], query).await
    }

    /// One cluster, by its id or name.
    ///
    /// # Errors
    /// As for every call.
    pub async fn cluster(&self, called: &str) -> Result<Cluster, Error> {
        self.hyperfleet().get(&["clusters", called], &[]).await
    }

    /// Creates a cluster.
    ///
    /// # Errors
    /// As for every call.
    pub async fn create_cluster(&self, create: &ClusterCreate) -> Result<Cluster, Error> {
        self.hyperfleet().send(Method::POST, &["clusters"], create).await
    }

    /// Changes the spec or the labels of a cluster.
    ///
    /// # Errors
    /// As for every call.
    pub async fn patch_cluster(&self, called: &str, patch: &ClusterPatch) -> Result<Cluster, Error> {
        self.hyperfleet().send(Method::PATCH, &["clusters", called], patch).await
    }

    /// Requests the deletion of a cluster.
    ///
    /// # Errors
    /// As for every call.
    pub async fn delete_cluster(&self, called: &str) -> Result<Cluster, Error> {
        let this = self.hyperfleet();
        this.answer(this.http.delete(this.url(&["clusters", called], &[]))).await
    }

    /// Removes a cluster that is being deleted without waiting for its adapters.
    ///
    /// # Errors
    /// As for every call.
    pub async fn force_delete_cluster(&self, called: &str, why: &ForceDelete) -> Result<(), Error> {
        self.force(&["clusters", called, "force-delete"], why).await
    }

    /// One page of what the adapters of a cluster said last.
    ///
    /// # Errors
    /// As for every call.
    pub async fn cluster_statuses(
        &self,
        called: &str,
        query: &ClusterQuery,
    ) -> Result<Items<AdapterStatus>, Error> {
        self.items(&["clusters", called, "statuses"], query).await
    }

    /// Reports what an adapter did for a cluster.
    ///
    /// # Errors
    /// As for every call.
    pub async fn report_cluster(&self, called: &str, report: &StatusReport) -> Result<ReportAnswer, Error> {
        self.hyperfleet().tell(&["clusters", called, "statuses"], report).await
    }

    /// One page of the node pools of a cluster, or of all clusters.
    ///
    /// # Errors
    /// As for every call.
    pub async fn node_pools(
        &self,
        cluster: Option<&str>,
        query: &ClusterQuery,
    ) -> Result<Items<NodePool>, Error> {
        match cluster {
            Some(cluster) => self.items(&["clusters", cluster, "nodepools"], query).await,
            None => self.items(&["nodepools"], query).await,
        }
    }

    /// One node pool; each part is an id or a name.
    ///
    /// # Errors
    /// As for every call.
    pub async fn node_pool(&self, cluster: &str, called: &str) -> Result<NodePool, Error> {
        self.hyperfleet().get(&["clusters", cluster, "nodepools", called], &[]).await
    }

    /// Creates a node pool of a cluster.
    ///
    /// # Errors
    /// As for every call.
    pub async fn create_node_pool(&self, cluster: &str, create: &ClusterCreate) -> Result<NodePool, Error> {
        self.hyperfleet().send(Method::POST, &["clusters", cluster, "nodepools"], create).await
    }

    /// Changes the spec or the labels of a node pool.
    ///
    /// # Errors
    /// As for every call.
    pub async fn patch_node_pool(
        &self,
        cluster: &str,
        called: &str,
        patch: &ClusterPatch,
    ) -> Result<NodePool, Error> {
        self.hyperfleet().send(Method::PATCH, &["clusters", cluster, "nodepools", called], patch).await
    }

    /// Requests the deletion of a node pool.
    ///
    /// # Errors
    /// As for every call.
    pub async fn delete_node_pool(&self, cluster: &str, called: &str) -> Result<NodePool, Error> {
        let this = self.hyperfleet();
        let url = this.url(&["clusters", cluster, "nodepools", called], &[]);
        this.answer(this.http.delete(url)).await
    }

    /// Removes a node pool that is being deleted without waiting for its adapters.
    ///
    /// # Errors
    /// As for every call.
    pub async fn force_delete_node_pool(
        &self,
        cluster: &str,
        called: &str,
        why: &ForceDelete,
    ) -> Result<(), Error> {
        self.force(&["clusters", cluster, "nodepools", called, "force-delete"], why).await
    }

    /// Reports what an adapter did for a node pool.
    ///
    /// # Errors
    /// As for every call.
    pub async fn report_node_pool(
        &self,
        cluster: &str,
        called: &str,
        report: &StatusReport,
    ) -> Result<ReportAnswer, Error> {
        self.hyperfleet().tell(&["clusters", cluster, "nodepools", called, "statuses"], report).await
    }

    /// A request whose answer has no body.
    async fn force(&self, path: &[&str], why: &ForceDelete) -> Result<(), Error> {
        let this = self.hyperfleet();
        let key = uuid::Uuid::now_v7().to_string();
        let request = this.http.post(this.url(path, &[])).json(why).header("idempotency-key", key);
        accepted(request.timeout(this.timeout)).await.map(drop)
    }
}

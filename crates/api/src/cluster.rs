//! Clusters and their node pools, and what adapters report of them, in HyperFleet's shape.
//!
//! Bodies are bare. A node pool is shown like a cluster, with its cluster as its owner.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

mod exact;
mod report;

pub use exact::Exact;
pub use report::{AdapterCondition, AdapterStatus, Discarded, ReportAnswer, ReportedCondition, StatusReport};

/// A cluster, or a node pool of one, as the API shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Cluster {
    /// Names it for ever.
    pub id: String,
    /// `Cluster` or `NodePool`.
    pub kind: String,
    /// Its path on the server.
    pub href: String,
    /// The name: unique among living clusters, or among the living node pools of a cluster.
    pub name: String,
    /// Labels, for `search`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// What people want: any JSON object, as it was sent.
    #[schema(value_type = Object)]
    pub spec: Exact,
    /// Counts the changes of spec and labels, and the request to delete it, from 1.
    pub generation: i64,
    /// When it was created.
    #[schema(value_type = String, format = DateTime)]
    pub created_time: Timestamp,
    /// When its generation last grew.
    #[schema(value_type = String, format = DateTime)]
    pub updated_time: Timestamp,
    /// The person or token that created it.
    pub created_by: String,
    /// The person or token that last changed its generation.
    pub updated_by: String,
    /// When its deletion was requested; absent unless it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub deleted_time: Option<Timestamp>,
    /// The person or token that requested its deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_by: Option<String>,
    /// The cluster of a node pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_references: Option<ObjectReference>,
    /// What the reports of its adapters add up to.
    pub status: ClusterStatus,
}

/// A node pool, where its type has to differ from that of its cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodePool(pub Cluster);

impl NodePool {
    /// The id of its cluster.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        self.0.owner_references.as_ref().map(|owner| owner.id.as_str())
    }
}

/// Names the cluster of a node pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ObjectReference {
    /// Its id.
    pub id: String,
    /// Its kind: `Cluster`.
    pub kind: String,
    /// Its path on the server.
    pub href: String,
}

/// What the reports of the adapters add up to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterStatus {
    /// `Reconciled`, `LastKnownReconciled`, then one for each required adapter that has reported.
    pub conditions: Vec<ClusterCondition>,
}

impl ClusterStatus {
    /// Returns the condition of this type.
    #[must_use]
    pub fn condition(&self, type_: &str) -> Option<&ClusterCondition> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }
}

/// One condition of a cluster or node pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterCondition {
    /// What it is about, such as `Reconciled` or `DnsSuccessful`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, as one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The generation it speaks of.
    pub observed_generation: i64,
    /// When there was such a condition for the first time.
    #[schema(value_type = String, format = DateTime)]
    pub created_time: Timestamp,
    /// The observation it rests on; the oldest, where it rests on several.
    #[schema(value_type = String, format = DateTime)]
    pub last_updated_time: Timestamp,
    /// When its status last moved.
    #[schema(value_type = String, format = DateTime)]
    pub last_transition_time: Timestamp,
}

impl From<wardroom_core::cluster::Condition> for ClusterCondition {
    fn from(condition: wardroom_core::cluster::Condition) -> Self {
        Self {
            type_: condition.type_.into_owned(),
            status: condition.status.to_string(),
            reason: condition.reason.map(Into::into),
            message: condition.message.map(Into::into),
            observed_generation: condition.observed_generation,
            created_time: condition.created_time,
            last_updated_time: condition.last_updated_time,
            last_transition_time: condition.last_transition_time,
        }
    }
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Items<T> {
    /// The entries of the page.
    pub items: Vec<T>,
    /// Which page it is, from 1.
    pub page: i64,
    /// How many entries it has.
    pub size: i64,
    /// How many entries all pages have.
    pub total: i64,
}

/// Creates a cluster or a node pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterCreate {
    /// `Cluster` for a cluster, `NodePool` for a node pool; may be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Lower case letters, digits and hyphens: 3 to 53 for a cluster, 3 to 15 for a node pool.
    pub name: String,
    /// Labels, for `search`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// What the adapters shall bring about.
    #[schema(value_type = Object)]
    pub spec: Exact,
}

/// Changes a cluster or a node pool. A field that is given replaces the old one as a whole; one that is left out stays.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterPatch {
    /// What the adapters shall bring about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub spec: Option<Exact>,
    /// All labels it shall have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
}

/// Removes what is being deleted without waiting for its adapters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForceDelete {
    /// Why, for history.
    #[schema(min_length = 1, max_length = 1024)]
    pub reason: String,
}

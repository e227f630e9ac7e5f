//! Nodes.

use reqwest::Method;

use super::{Client, Error};
use crate::{
    Envelope, Page,
    node::{BulkResult, BulkTransition, Node, NodeCreate, NodePatch, StateTransition},
};

/// Which nodes, and which page of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeQuery {
    /// Only in this state.
    pub state: Option<String>,
    /// Labels, e.g. `site=berlin,rack in (a,b),!spare`.
    pub label_selector: Option<String>,
    /// Fields, e.g. `state=active,workflow_id=debian`.
    pub field_selector: Option<String>,
    /// How many at most in the page.
    pub limit: Option<usize>,
    /// The cursor of the page before.
    pub cursor: Option<String>,
}

impl Client {
    /// One page of nodes, oldest first.
    ///
    /// # Errors
    /// As for every call.
    pub async fn nodes(&self, query: &NodeQuery) -> Result<Page<Node>, Error> {
        let limit = query.limit.map(|limit| limit.to_string());
        let query = [
            ("state", query.state.as_deref()),
            ("labelSelector", query.label_selector.as_deref()),
            ("fieldSelector", query.field_selector.as_deref()),
            ("limit", limit.as_deref()),
            ("continue", query.cursor.as_deref()),
        ];
        self.get(&["nodes"], &query).await
    }

    /// One node.
    ///
    /// # Errors
    /// As for every call.
    pub async fn node(&self, id: &str) -> Result<Node, Error> {
        self.get::<Envelope<_>>(&["nodes", id], &[]).await.map(|answer| answer.data)
    }

    /// Registers a node.
    ///
    /// # Errors
    /// As for every call.
    pub async fn create_node(&self, create: &NodeCreate) -> Result<Node, Error> {
        self.send::<Envelope<_>>(Method::POST, &["nodes"], create).await.map(|answer| answer.data)
    }

    /// Changes what a node shall be.
    ///
    /// # Errors
    /// As for every call.
    pub async fn patch_node(&self, id: &str, patch: &NodePatch) -> Result<Node, Error> {
        self.send::<Envelope<_>>(Method::PATCH, &["nodes", id], patch).await.map(|answer| answer.data)
    }

    /// Moves a node to a state.
    ///
    /// # Errors
    /// As for every call.
    pub async fn move_node(&self, id: &str, wanted: &StateTransition) -> Result<Node, Error> {
        self.send::<Envelope<_>>(Method::PATCH, &["nodes", id, "state"], wanted)
            .await
            .map(|answer| answer.data)
    }

    /// Moves up to 1000 nodes to a state; each succeeds or fails by itself.
    ///
    /// # Errors
    /// As for every call.
    pub async fn move_nodes(&self, wanted: &BulkTransition) -> Result<BulkResult, Error> {
        self.send::<Envelope<_>>(Method::POST, &["nodes", "bulk", "state"], wanted)
            .await
            .map(|answer| answer.data)
    }

    /// Takes a retired node out of the lists.
    ///
    /// # Errors
    /// As for every call.
    pub async fn delete_node(&self, id: &str) -> Result<Node, Error> {
        self.delete::<Envelope<_>>(&["nodes", id]).await.map(|answer| answer.data)
    }
}

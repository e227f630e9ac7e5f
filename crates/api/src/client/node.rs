//! Nodes.

use reqwest::Method;

use super::{Client, Error, Query};
use crate::{
    Page,
    node::{BulkResult, BulkTransition, Node, NodeCreate, NodePatch, StateTransition},
};

impl Client {
    /// One page of nodes, oldest first.
    ///
    /// # Errors
    /// As for every call.
    pub async fn nodes(&self, query: &Query) -> Result<Page<Node>, Error> {
        self.page(&["nodes"], query).await
    }

    /// One node.
    ///
    /// # Errors
    /// As for every call.
    pub async fn node(&self, id: &str) -> Result<Node, Error> {
        self.one(&["nodes", id]).await
    }

    /// Registers a node.
    ///
    /// # Errors
    /// As for every call.
    pub async fn create_node(&self, create: &NodeCreate) -> Result<Node, Error> {
        self.change(Method::POST, &["nodes"], create).await
    }

    /// Changes the settings of a node.
    ///
    /// # Errors
    /// As for every call.
    pub async fn patch_node(&self, id: &str, patch: &NodePatch) -> Result<Node, Error> {
        self.change(Method::PATCH, &["nodes", id], patch).await
    }

    /// Moves a node to a state.
    ///
    /// # Errors
    /// As for every call.
    pub async fn move_node(&self, id: &str, wanted: &StateTransition) -> Result<Node, Error> {
        self.change(Method::PATCH, &["nodes", id, "state"], wanted).await
    }

    /// Moves up to 1000 nodes to a state; each succeeds or fails by itself.
    ///
    /// # Errors
    /// As for every call.
    pub async fn move_nodes(&self, wanted: &BulkTransition) -> Result<BulkResult, Error> {
        self.change(Method::POST, &["nodes", "bulk", "state"], wanted).await
    }

    /// Takes a retired node out of the lists.
    ///
    /// # Errors
    /// As for every call.
    pub async fn delete_node(&self, id: &str) -> Result<Node, Error> {
        self.delete(&["nodes", id]).await
    }
}

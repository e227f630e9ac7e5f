//! Workflows and groups of nodes.

use reqwest::Method;

use super::{Client, Error, Query};
use crate::{
    Page,
    group::{Group, GroupSpec},
    workflow::{Workflow, WorkflowSpec},
};

impl Client {
    /// One page of workflows.
    ///
    /// # Errors
    /// As for every call.
    pub async fn workflows(&self, query: &Query) -> Result<Page<Workflow>, Error> {
        self.page(&["workflows"], query).await
    }

    /// One workflow.
    ///
    /// # Errors
    /// As for every call.
    pub async fn workflow(&self, id: &str) -> Result<Workflow, Error> {
        self.one(&["workflows", id]).await
    }

    /// Creates a workflow.
    ///
    /// # Errors
    /// As for every call.
    pub async fn create_workflow(&self, spec: &WorkflowSpec) -> Result<Workflow, Error> {
        self.change(Method::POST, &["workflows"], spec).await
    }

    /// Replaces the workflow of that name.
    ///
    /// # Errors
    /// As for every call.
    pub async fn replace_workflow(&self, spec: &WorkflowSpec) -> Result<Workflow, Error> {
        self.change(Method::PUT, &["workflows", &spec.name], spec).await
    }

    /// Deletes a workflow that no node uses.
    ///
    /// # Errors
    /// As for every call.
    pub async fn delete_workflow(&self, id: &str) -> Result<Workflow, Error> {
        self.delete(&["workflows", id]).await
    }

    /// One page of groups.
    ///
    /// # Errors
    /// As for every call.
    pub async fn groups(&self, query: &Query) -> Result<Page<Group>, Error> {
        self.page(&["groups"], query).await
    }

    /// One group.
    ///
    /// # Errors
    /// As for every call.
    pub async fn group(&self, id: &str) -> Result<Group, Error> {
        self.one(&["groups", id]).await
    }

    /// Creates a group.
    ///
    /// # Errors
    /// As for every call.
    pub async fn create_group(&self, spec: &GroupSpec) -> Result<Group, Error> {
        self.change(Method::POST, &["groups"], spec).await
    }

    /// Replaces the group of that name.
    ///
    /// # Errors
    /// As for every call.
    pub async fn replace_group(&self, spec: &GroupSpec) -> Result<Group, Error> {
        self.change(Method::PUT, &["groups", &spec.name], spec).await
    }

    /// Deletes an empty group.
    ///
    /// # Errors
    /// As for every call.
    pub async fn delete_group(&self, id: &str) -> Result<Group, Error> {
        self.delete(&["groups", id]).await
    }
}

//! What nodes install and where they belong: workflows and groups.

use reqwest::Method;

use super::{Client, Error};
use crate::{
    Envelope, Page,
    group::{Group, GroupSpec},
    workflow::{Workflow, WorkflowSpec},
};

/// Which page of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pages {
    /// How many at most in the page.
    pub limit: Option<usize>,
    /// The cursor of the page before.
    pub cursor: Option<String>,
}

impl Client {
    pub(super) async fn page<T: serde::de::DeserializeOwned>(
        &self,
        collection: &str,
        pages: &Pages,
    ) -> Result<Page<T>, Error> {
        let limit = pages.limit.map(|limit| limit.to_string());
        let query = [("limit", limit.as_deref()), ("continue", pages.cursor.as_deref())];
        self.get(&[collection], &query).await
    }

    /// One page of workflows.
    ///
    /// # Errors
    /// As for every call.
    pub async fn workflows(&self, pages: &Pages) -> Result<Page<Workflow>, Error> {
        self.page("workflows", pages).await
    }

    /// One workflow.
    ///
    /// # Errors
    /// As for every call.
    pub async fn workflow(&self, id: &str) -> Result<Workflow, Error> {
        self.get::<Envelope<_>>(&["workflows", id], &[]).await.map(|answer| answer.data)
    }

    /// Makes a workflow.
    ///
    /// # Errors
    /// As for every call.
    pub async fn create_workflow(&self, spec: &WorkflowSpec) -> Result<Workflow, Error> {
        self.send::<Envelope<_>>(Method::POST, &["workflows"], spec).await.map(|answer| answer.data)
    }

    /// Replaces the workflow of that name.
    ///
    /// # Errors
    /// As for every call.
    pub async fn replace_workflow(&self, spec: &WorkflowSpec) -> Result<Workflow, Error> {
        self.send::<Envelope<_>>(Method::PUT, &["workflows", &spec.name], spec)
            .await
            .map(|answer| answer.data)
    }

    /// Deletes a workflow that no node uses.
    ///
    /// # Errors
    /// As for every call.
    pub async fn delete_workflow(&self, id: &str) -> Result<Workflow, Error> {
        self.delete::<Envelope<_>>(&["workflows", id]).await.map(|answer| answer.data)
    }

    /// One page of groups.
    ///
    /// # Errors
    /// As for every call.
    pub async fn groups(&self, pages: &Pages) -> Result<Page<Group>, Error> {
        self.page("groups", pages).await
    }

    /// One group.
    ///
    /// # Errors
    /// As for every call.
    pub async fn group(&self, id: &str) -> Result<Group, Error> {
        self.get::<Envelope<_>>(&["groups", id], &[]).await.map(|answer| answer.data)
    }

    /// Makes a group.
    ///
    /// # Errors
    /// As for every call.
    pub async fn create_group(&self, spec: &GroupSpec) -> Result<Group, Error> {
        self.send::<Envelope<_>>(Method::POST, &["groups"], spec).await.map(|answer| answer.data)
    }

    /// Replaces the group of that name.
    ///
    /// # Errors
    /// As for every call.
    pub async fn replace_group(&self, spec: &GroupSpec) -> Result<Group, Error> {
        self.send::<Envelope<_>>(Method::PUT, &["groups", &spec.name], spec).await.map(|answer| answer.data)
    }

    /// Deletes a group that nothing is in.
    ///
    /// # Errors
    /// As for every call.
    pub async fn delete_group(&self, id: &str) -> Result<Group, Error> {
        self.delete::<Envelope<_>>(&["groups", id]).await.map(|answer| answer.data)
    }
}

//! Fleets of devices, and the versions of their templates.

use reqwest::Method;
use serde::Serialize;

use super::{Client, Error, Query};
use crate::{
    Page,
    device::{DeviceAction, Fleet, TemplateVersion},
};

impl Client {
    /// One page of fleets, in the order of their names.
    ///
    /// # Errors
    /// As for every call.
    pub async fn fleets(&self, query: &Query) -> Result<Page<Fleet>, Error> {
        self.objects(&["fleets"], query).await
    }

    /// One fleet.
    ///
    /// # Errors
    /// As for every call.
    pub async fn fleet(&self, name: &str) -> Result<Fleet, Error> {
        self.get(&["fleets", name], &[]).await
    }

    /// Creates a fleet. A document that a person wrote is sent as it is, so that the server names unknown fields.
    ///
    /// # Errors
    /// As for every call.
    pub async fn create_fleet(&self, fleet: &(impl Serialize + Sync)) -> Result<Fleet, Error> {
        self.send(Method::POST, &["fleets"], fleet).await
    }

    /// Replaces labels and spec of a fleet.
    ///
    /// # Errors
    /// As for every call.
    pub async fn replace_fleet(&self, name: &str, fleet: &(impl Serialize + Sync)) -> Result<Fleet, Error> {
        self.send(Method::PUT, &["fleets", name], fleet).await
    }

    /// Pauses, resumes or rolls back the rollout of a fleet; `verb` is the last part of the path.
    ///
    /// # Errors
    /// As for every call.
    pub async fn act_on_fleet(&self, name: &str, verb: &str, action: &DeviceAction) -> Result<Fleet, Error> {
        self.send(Method::POST, &["fleets", name, "actions", verb], action).await
    }

    /// Deletes a fleet; its devices keep their specs.
    ///
    /// # Errors
    /// As for every call.
    pub async fn delete_fleet(&self, name: &str) -> Result<Fleet, Error> {
        self.remove(&["fleets", name]).await
    }

    /// One page of the templates that a fleet had, oldest first.
    ///
    /// # Errors
    /// As for every call.
    pub async fn template_versions(&self, name: &str, query: &Query) -> Result<Page<TemplateVersion>, Error> {
        self.objects(&["fleets", name, "templateversions"], query).await
    }
}

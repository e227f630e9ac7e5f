//! Satellite configs and the satellites that read them.

use reqwest::Method;

use super::{Client, Error, Query};
use crate::{
    Page,
    satellite::EffectProgress,
    satellite_config::{ConfigAssignment, ConfigPatch, ConfigSpec, SatelliteConfig},
    satellite_group::Member,
};

impl Client {
    /// One page of satellite configs.
    ///
    /// # Errors
    /// As for every call.
    pub async fn satellite_configs(&self, query: &Query) -> Result<Page<SatelliteConfig>, Error> {
        self.unversioned().page(&["configs"], query).await
    }

    /// One satellite config; its secrets are hidden.
    ///
    /// # Errors
    /// As for every call.
    pub async fn satellite_config(&self, name: &str) -> Result<SatelliteConfig, Error> {
        self.unversioned().one(&["configs", name]).await
    }

    /// Returns the effects of a satellite config on other systems.
    ///
    /// # Errors
    /// As for every call.
    pub async fn satellite_config_effects(&self, name: &str) -> Result<Vec<EffectProgress>, Error> {
        self.effects(&["configs", name, "effects"]).await
    }

    /// Creates a satellite config.
    ///
    /// # Errors
    /// As for every call.
    pub async fn create_satellite_config(&self, spec: &ConfigSpec) -> Result<SatelliteConfig, Error> {
        self.unversioned().change(Method::POST, &["configs"], spec).await
    }

    /// Changes a satellite config.
    ///
    /// # Errors
    /// As for every call.
    pub async fn patch_satellite_config(
        &self,
        name: &str,
        patch: &ConfigPatch,
    ) -> Result<SatelliteConfig, Error> {
        self.unversioned().change(Method::PATCH, &["configs", name], patch).await
    }

    /// Gives a satellite a config, or the built-in one.
    ///
    /// # Errors
    /// As for every call.
    pub async fn give_satellite_config(&self, wanted: &ConfigAssignment) -> Result<Member, Error> {
        self.unversioned().change(Method::POST, &["configs", "satellite"], wanted).await
    }

    /// Deletes a satellite config that no satellite reads.
    ///
    /// # Errors
    /// As for every call.
    pub async fn delete_satellite_config(&self, name: &str) -> Result<SatelliteConfig, Error> {
        self.unversioned().delete(&["configs", name]).await
    }
}

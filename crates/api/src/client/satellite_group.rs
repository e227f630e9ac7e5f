//! Satellite groups and their satellites.

use reqwest::Method;

use super::{Client, Error, Query};
use crate::{
    Page,
    satellite::EffectProgress,
    satellite_group::{GroupSync, Member, Membership, SatelliteGroup},
};

impl Client {
    /// One page of satellite groups.
    ///
    /// # Errors
    /// As for every call.
    pub async fn satellite_groups(&self, query: &Query) -> Result<Page<SatelliteGroup>, Error> {
        self.unversioned().page(&["groups"], query).await
    }

    /// One satellite group.
    ///
    /// # Errors
    /// As for every call.
    pub async fn satellite_group(&self, name: &str) -> Result<SatelliteGroup, Error> {
        self.unversioned().one(&["groups", name]).await
    }

    /// One page of the satellites of a group.
    ///
    /// # Errors
    /// As for every call.
    pub async fn satellites_of_group(&self, name: &str, query: &Query) -> Result<Page<Member>, Error> {
        self.unversioned().page(&["groups", name, "satellites"], query).await
    }

    /// Returns the effects of a satellite group on other systems.
    ///
    /// # Errors
    /// As for every call.
    pub async fn satellite_group_effects(&self, name: &str) -> Result<Vec<EffectProgress>, Error> {
        self.effects(&["groups", name, "effects"]).await
    }

    /// Creates a satellite group, or replaces the one of that name.
    ///
    /// # Errors
    /// As for every call.
    pub async fn sync_satellite_group(&self, group: &GroupSync) -> Result<SatelliteGroup, Error> {
        self.unversioned().change(Method::POST, &["groups", "sync"], group).await
    }

    /// Puts a satellite into a group.
    ///
    /// # Errors
    /// As for every call.
    pub async fn join_satellite_group(&self, membership: &Membership) -> Result<Member, Error> {
        self.unversioned().change(Method::POST, &["groups", "satellite"], membership).await
    }

    /// Takes a satellite out of a group.
    ///
    /// # Errors
    /// As for every call.
    pub async fn leave_satellite_group(&self, membership: &Membership) -> Result<Member, Error> {
        self.unversioned().change(Method::DELETE, &["groups", "satellite"], membership).await
    }

    /// Deletes a satellite group, and takes its satellites out of it.
    ///
    /// # Errors
    /// As for every call.
    pub async fn delete_satellite_group(&self, name: &str) -> Result<SatelliteGroup, Error> {
        self.unversioned().delete(&["groups", name]).await
    }
}

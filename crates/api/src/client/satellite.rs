//! Satellites.

use reqwest::Method;

use super::{Client, Error, Query};
use crate::{
    Envelope, Page,
    satellite::{
        EffectProgress, JoinToken, JoinTokenCreate, NewSatellite, Reenable, Reenabled, Revoke, Satellite,
        SatelliteCreate, SatellitePatch,
    },
};

impl Client {
    /// One page of satellites, oldest first.
    ///
    /// # Errors
    /// As for every call.
    pub async fn satellites(&self, query: &Query) -> Result<Page<Satellite>, Error> {
        self.unversioned().page(&["satellites"], query).await
    }

    /// One satellite, by its name or id.
    ///
    /// # Errors
    /// As for every call.
    pub async fn satellite(&self, name: &str) -> Result<Satellite, Error> {
        self.unversioned().one(&["satellites", name]).await
    }

    /// Returns the effects of a satellite on other systems.
    ///
    /// # Errors
    /// As for every call.
    pub async fn satellite_effects(&self, name: &str) -> Result<Vec<EffectProgress>, Error> {
        self.effects(&["satellites", name, "effects"]).await
    }

    pub(super) async fn effects(&self, path: &[&str]) -> Result<Vec<EffectProgress>, Error> {
        self.unversioned().get::<Page<_>>(path, &[]).await.map(|page| page.data)
    }

    /// Creates a satellite that registers with a one-time token.
    ///
    /// # Errors
    /// As for every call.
    pub async fn create_satellite(&self, create: &SatelliteCreate) -> Result<NewSatellite, Error> {
        self.unversioned().send(Method::POST, &["satellites"], create).await
    }

    /// Creates a satellite that registers with a SPIFFE ID.
    ///
    /// # Errors
    /// As for every call.
    pub async fn create_join_token(&self, create: &JoinTokenCreate) -> Result<JoinToken, Error> {
        self.unversioned().send(Method::POST, &["join-tokens"], create).await
    }

    /// Changes a satellite.
    ///
    /// # Errors
    /// As for every call.
    pub async fn patch_satellite(&self, name: &str, patch: &SatellitePatch) -> Result<Satellite, Error> {
        self.unversioned().change(Method::PATCH, &["satellites", name], patch).await
    }

    /// Blocks a satellite; the message tells whether it was blocked before.
    ///
    /// # Errors
    /// As for every call.
    pub async fn revoke_satellite(&self, name: &str, revoke: &Revoke) -> Result<Envelope<Satellite>, Error> {
        self.unversioned().send(Method::POST, &["satellites", name, "revoke"], revoke).await
    }

    /// Lets a satellite come back.
    ///
    /// # Errors
    /// As for every call.
    pub async fn reenable_satellite(&self, name: &str, reenable: &Reenable) -> Result<Reenabled, Error> {
        self.unversioned().send(Method::POST, &["satellites", name, "reenable"], reenable).await
    }

    /// Deletes a satellite for good.
    ///
    /// # Errors
    /// As for every call.
    pub async fn delete_satellite(&self, name: &str) -> Result<Satellite, Error> {
        self.unversioned().delete(&["satellites", name]).await
    }
}

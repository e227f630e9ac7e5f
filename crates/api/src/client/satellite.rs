//! Satellites.

use reqwest::{Method, Url};
use serde::{Serialize, de::DeserializeOwned};

use super::{Client, Error, NodeQuery};
use crate::{
    Envelope, Page,
    satellite::{
        EffectProgress, JoinToken, JoinTokenCreate, NewSatellite, Reenable, Reenabled, Revoke, Satellite,
        SatelliteCreate,
    },
};

impl Client {
    /// One page of satellites, oldest first.
    ///
    /// # Errors
    /// As for every call.
    pub async fn satellites(&self, query: &NodeQuery) -> Result<Page<Satellite>, Error> {
        let mut url = self.satellite_url(&["satellites"]);
        let limit = query.limit.map(|limit| limit.to_string());
        let given = [
            ("state", query.state.as_deref()),
            ("labelSelector", query.label_selector.as_deref()),
            ("fieldSelector", query.field_selector.as_deref()),
            ("limit", limit.as_deref()),
            ("continue", query.cursor.as_deref()),
        ];
        for (name, value) in given {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        self.answer(self.http.get(url)).await
    }

    /// One satellite, by its name or id.
    ///
    /// # Errors
    /// As for every call.
    pub async fn satellite(&self, name: &str) -> Result<Satellite, Error> {
        let url = self.satellite_url(&["satellites", name]);
        self.answer::<Envelope<_>>(self.http.get(url)).await.map(|answer| answer.data)
    }

    /// What other systems were told of a satellite.
    ///
    /// # Errors
    /// As for every call.
    pub async fn satellite_effects(&self, name: &str) -> Result<Vec<EffectProgress>, Error> {
        let url = self.satellite_url(&["satellites", name, "effects"]);
        self.answer::<Page<_>>(self.http.get(url)).await.map(|page| page.data)
    }

    /// Creates a satellite that registers with a one-time token.
    ///
    /// # Errors
    /// As for every call.
    pub async fn create_satellite(&self, create: &SatelliteCreate) -> Result<NewSatellite, Error> {
        self.post_satellite(&["satellites"], create).await
    }

    /// Creates a satellite that registers with a SPIFFE ID.
    ///
    /// # Errors
    /// As for every call.
    pub async fn create_join_token(&self, create: &JoinTokenCreate) -> Result<JoinToken, Error> {
        self.post_satellite(&["join-tokens"], create).await
    }

    /// Blocks a satellite.
    ///
    /// # Errors
    /// As for every call.
    pub async fn revoke_satellite(&self, name: &str, revoke: &Revoke) -> Result<Satellite, Error> {
        let revoked = self.post_satellite::<Envelope<_>>(&["satellites", name, "revoke"], revoke).await;
        revoked.map(|answer| answer.data)
    }

    /// Lets a satellite come back.
    ///
    /// # Errors
    /// As for every call.
    pub async fn reenable_satellite(&self, name: &str, reenable: &Reenable) -> Result<Reenabled, Error> {
        self.post_satellite(&["satellites", name, "reenable"], reenable).await
    }

    /// Deletes a satellite for good.
    ///
    /// # Errors
    /// As for every call.
    pub async fn delete_satellite(&self, name: &str) -> Result<Satellite, Error> {
        let url = self.satellite_url(&["satellites", name]);
        self.answer::<Envelope<_>>(self.http.delete(url)).await.map(|answer| answer.data)
    }

    async fn post_satellite<T: DeserializeOwned>(
        &self,
        segments: &[&str],
        body: &(impl Serialize + Sync),
    ) -> Result<T, Error> {
        let request = self.http.request(Method::POST, self.satellite_url(segments)).json(body);
        self.answer(request.header("idempotency-key", uuid::Uuid::now_v7().to_string())).await
    }

    /// Paths of satellites have no version: they are those of the satellite project.
    fn satellite_url(&self, segments: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().push("api").extend(segments);
        }
        url
    }
}

//! What a satellite says: registering, beating, exchanging its credential.

use reqwest::Method;

use super::{Client, Error};
use crate::satellite::{Beat, BeatReply, Registration, RegistryAuth, ZtrRequest};

/// Paths of satellites are those of the satellite project, below the root.
const ROOT: &[&str] = &[];

impl Client {
    /// Exchanges a one-time token for the credential of a satellite. A repeat within a minute gets the same answer if its
    /// `exchange` is the same.
    ///
    /// # Errors
    /// As for every call.
    pub async fn register_satellite(&self, token: &str, exchange: &str) -> Result<Registration, Error> {
        let this = Self { root: ROOT, ..self.clone() };
        let request = this.http.post(this.url(&["satellites", "ztr"], &[]));
        let body = ZtrRequest { token: token.to_owned() };
        this.answer(request.header("idempotency-key", exchange).json(&body)).await
    }

    /// Exchanges the certificate that this client shows for the credential of a satellite.
    ///
    /// # Errors
    /// As for every call.
    pub async fn register_satellite_by_certificate(&self) -> Result<Registration, Error> {
        let this = Self { root: ROOT, ..self.clone() };
        this.answer(this.http.get(this.url(&["satellites", "spiffe-ztr"], &[]))).await
    }

    /// Sends a heartbeat of a satellite with its credential.
    ///
    /// # Errors
    /// As for every call.
    pub async fn beat_satellite(&self, auth: &RegistryAuth, beat: &Beat) -> Result<BeatReply, Error> {
        let request = self.with_credential(&["satellites", "sync"], auth);
        self.answer(request.json(beat)).await
    }

    /// Exchanges the credential of a re-enabled satellite for a new one.
    ///
    /// # Errors
    /// As for every call.
    pub async fn refresh_satellite(&self, auth: &RegistryAuth) -> Result<Registration, Error> {
        self.answer(self.with_credential(&["satellites", "refresh"], auth)).await
    }

    fn with_credential(&self, path: &[&str], auth: &RegistryAuth) -> reqwest::RequestBuilder {
        let this = Self { root: ROOT, ..self.clone() };
        let request = this.http.request(Method::POST, this.url(path, &[]));
        request.basic_auth(&auth.username, Some(&auth.password))
    }
}

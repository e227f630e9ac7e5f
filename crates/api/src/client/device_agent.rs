//! What the agent of a device says: asking for a certificate, polling for its spec, reporting.

use std::time::Duration;

use reqwest::{Identity, Method, StatusCode};

use super::{Client, Error, Options, accepted, error};
use crate::device::{
    CertificateRequest, DeviceCertificate, DeviceReport, DeviceStatusReport, EnrollmentRequest,
    RenderedDevice,
};

/// How long a poll may take: the longest time that a server holds it, and some more.
const POLL: Duration = Duration::from_secs(660);

/// How soon a connection to a server that is gone is noticed, while a poll is held.
const KEEPALIVE: Duration = Duration::from_secs(30);

impl Client {
    /// Makes a client that shows the certificate of a device. `identity` has the certificate and its key as PEM.
    ///
    /// # Errors
    /// [`Error::Setup`] when an option cannot be used.
    pub fn with_certificate(options: &Options, identity: &[u8]) -> Result<Self, Error> {
        let identity = Identity::from_pem(identity).map_err(|error| {
            Error::Setup(format!("the certificate of the device: {}", error::chain(&error)))
        })?;
        Self::build(options, |builder| {
            // A poll that is held is silent.
            builder
                .identity(identity)
                .read_timeout(POLL)
                .tcp_keepalive(KEEPALIVE)
                .tcp_keepalive_interval(KEEPALIVE)
        })
    }

    /// Asks to be enrolled, with an enrolment token. The same request again gets the same answer.
    ///
    /// # Errors
    /// As for every call.
    pub async fn request_enrollment(&self, request: &EnrollmentRequest) -> Result<EnrollmentRequest, Error> {
        self.tell(&["enrollmentrequests"], request).await
    }

    /// Returns what became of a request.
    ///
    /// # Errors
    /// As for every call.
    pub async fn own_enrollment_request(&self, name: &str) -> Result<EnrollmentRequest, Error> {
        self.get(&["enrollmentrequests", name], &[]).await
    }

    /// Waits for another spec than the known version, or another number of requested reboots. Returns nothing if there was
    /// none for as long as the server holds a poll.
    ///
    /// # Errors
    /// As for every call.
    pub async fn rendered_device(
        &self,
        name: &str,
        known: Option<&str>,
        reboots: Option<u64>,
    ) -> Result<Option<RenderedDevice>, Error> {
        let reboots = reboots.map(|number| number.to_string());
        let query = [("knownRenderedVersion", known), ("knownReboots", reboots.as_deref())];
        let request = self.http.get(self.url(&["devices", name, "rendered"], &query));
        let response = accepted(request.timeout(POLL)).await?;
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        let status = response.status().as_u16();
        response.json().await.map(Some).map_err(|error| Error::Unexpected {
            status,
            detail: format!(
                "the answer is not what this version expects ({error}): is this a Wardroom server?"
            ),
        })
    }

    /// Reports the status of the device.
    ///
    /// # Errors
    /// As for every call.
    pub async fn report_device(&self, name: &str, status: DeviceReport) -> Result<(), Error> {
        let report = DeviceStatusReport { status, ..DeviceStatusReport::default() };
        let request = self.http.request(Method::PUT, self.url(&["devices", name, "status"], &[]));
        accepted(request.json(&report).timeout(self.timeout)).await.map(drop)
    }

    /// Renews the certificate of the device.
    ///
    /// # Errors
    /// As for every call.
    pub async fn renew_device_certificate(
        &self,
        name: &str,
        csr: String,
    ) -> Result<DeviceCertificate, Error> {
        self.tell(&["devices", name, "certificate"], &CertificateRequest { csr }).await
    }
}

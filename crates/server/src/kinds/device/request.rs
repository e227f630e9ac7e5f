//! Requests of devices to be enrolled, as they are stored and shown.
//!
//! What must stay true: the name of a request follows from the public key whose holder signed it, and no key but that
//! one is ever certified under the name.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use wardroom_api::device::{
    API_VERSION, Approval, Condition, DeviceReport, EnrollmentRequest, EnrollmentRequestSpec,
    EnrollmentRequestStatus, Metadata,
};
use wardroom_store::{Content, Document, Resource};

use super::{
    authority::{Authority, Signed},
    csr::{self, PublicKey},
    document::{self, Issued},
    settings::Settings,
};
use crate::platform::{app::App, http::error::Error};

/// The kind under which requests are stored.
pub(crate) const KIND: &str = "enrollmentrequest";

/// What a request can be.
pub(crate) const PENDING: &str = "Pending";
pub(crate) const APPROVED: &str = "Approved";
pub(crate) const DENIED: &str = "Denied";
pub(crate) const STATES: &[&str] = &[PENDING, APPROVED, DENIED];

/// What is stored of a request beside its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RequestDocument {
    /// The certificate request, as PEM.
    pub(crate) csr: String,
    /// The labels that the device proposes.
    pub(crate) labels: BTreeMap<String, String>,
    /// Those of the token, which win over them.
    pub(crate) token_labels: BTreeMap<String, String>,
    pub(crate) device_status: Option<DeviceReport>,
    /// The token that it came with.
    pub(crate) token: String,
    pub(crate) approval: Option<Approval>,
    /// The certificate that was issued last, with that of the authority.
    pub(crate) certificate: Option<String>,
    pub(crate) certificate_until: Option<Timestamp>,
}

impl RequestDocument {
    pub(crate) fn of(request: &Resource) -> Result<Self, Error> {
        request.content.document.read().map_err(|error| {
            tracing::error!(id = request.content.id, %error, "a stored enrolment request cannot be read");
            Error::Internal
        })
    }

    /// The public key that the request proved.
    pub(crate) fn public_key(&self) -> Result<PublicKey, Error> {
        csr::read("spec.csr", &self.csr)
    }

    /// The labels of the device: those of the person who decides win over those of the token, and these over its own.
    pub(crate) fn merged_labels(&self) -> BTreeMap<String, String> {
        let mut merged = self.labels.clone();
        merged.extend(self.token_labels.clone());
        merged.extend(self.approval.iter().flat_map(|approval| approval.labels.clone()));
        merged
    }

    /// Notes a new certificate.
    pub(crate) fn certified(&mut self, signed: &Signed) {
        self.certificate = Some(signed.pem.clone());
        self.certificate_until = Some(signed.until);
    }

    pub(crate) fn content(&self, name: &str, state: &str) -> Result<Content, Error> {
        Ok(Content {
            kind: KIND.to_owned(),
            id: name.to_owned(),
            name: name.to_owned(),
            state: state.to_owned(),
            document: Document::of(self)?,
            labels: self.merged_labels(),
            fields: BTreeMap::from([("token".to_owned(), self.token.clone())]),
            keys: BTreeSet::new(),
            due_at: None,
            deleted: false,
        })
    }
}

/// Signs a certificate with the settings of the server.
pub(crate) fn sign(app: &App, key: &PublicKey) -> Result<Signed, Error> {
    let lifetime = SignedDuration::try_from(Settings::of(&app.config).certificate);
    let lifetime = lifetime.unwrap_or(SignedDuration::MAX);
    Authority::of(app)?.sign(key, app.now(), lifetime)
}

/// A device that is enrolled with a certificate.
pub(crate) fn enrolled(
    app: &App,
    name: &str,
    labels: BTreeMap<String, String>,
    signed: &Signed,
) -> Result<Content, Error> {
    let silence = Settings::of(&app.config).silence.as_secs();
    let document = document::Document {
        certificates: vec![issued(signed)],
        silence_seconds: u32::try_from(silence).unwrap_or(u32::MAX),
        generation: 1,
        ..document::Document::default()
    };
    document.content(name, labels, app.now())
}

pub(crate) fn issued(signed: &Signed) -> Issued {
    Issued { serial: signed.serial.clone(), until: signed.until }
}

/// A request as the API shows it.
pub(crate) fn view(request: &Resource) -> Result<EnrollmentRequest, Error> {
    let document = RequestDocument::of(request)?;
    let content = &request.content;
    let condition = document.approval.as_ref().map(|approval| Condition {
        r#type: if approval.approved { APPROVED } else { DENIED }.to_owned(),
        status: "True".to_owned(),
        reason: "Decided".to_owned(),
        message: format!("Decided by {}.", approval.approved_by),
        last_transition_time: approval.approved_at,
    });
    Ok(EnrollmentRequest {
        api_version: API_VERSION.to_owned(),
        kind: "EnrollmentRequest".to_owned(),
        metadata: Metadata {
            name: content.name.clone(),
            labels: content.labels.clone(),
            resource_version: Some(request.version.to_string()),
            creation_timestamp: Some(request.created_at),
            ..Metadata::default()
        },
        spec: EnrollmentRequestSpec {
            csr: document.csr,
            labels: document.labels,
            device_status: document.device_status,
        },
        status: Some(EnrollmentRequestStatus {
            certificate: document.certificate,
            approval: document.approval,
            conditions: condition.into_iter().collect(),
            token: document.token,
        }),
    })
}

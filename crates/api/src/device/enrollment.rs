//! How a device gets its certificate.

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Condition, DeviceReport, Metadata};

/// Creates a token with which devices may ask to be enrolled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnrollmentTokenCreate {
    /// The name of the token.
    pub name: String,
    /// How many devices may use it; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<u32>,
    /// How long it works; 1440 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minutes: Option<u32>,
    /// Labels of every device that enrols with it; they win over those that the device asks for.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Whether its devices are approved without a person.
    #[serde(default)]
    pub auto_approve: bool,
}

/// A token with which devices may ask to be enrolled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnrollmentToken {
    /// The name of the token.
    pub name: String,
    /// How many devices may use it.
    pub uses: u32,
    /// How many devices have used it.
    pub used: u32,
    /// Labels of every device that enrols with it.
    pub labels: BTreeMap<String, String>,
    /// Whether its devices are approved without a person.
    pub auto_approve: bool,
    /// When it ends.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
    /// When it was created.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

/// A token that was just created; the only time that its secret is shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewEnrollmentToken {
    /// Always true.
    pub success: bool,
    /// The secret: devices send it as `Authorization: Bearer …`.
    pub token: String,
    /// The token.
    pub data: EnrollmentToken,
    /// A message for people.
    pub message: Option<String>,
}

/// The secret stays out.
impl fmt::Debug for NewEnrollmentToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewEnrollmentToken").field("data", &self.data).finish_non_exhaustive()
    }
}

/// The request of a device to be enrolled.
///
/// Its name is that of the device: lower-case base32hex without padding of the SHA-256 of the public key, as
/// the certificate request has it (DER of `SubjectPublicKeyInfo`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnrollmentRequest {
    /// `wardroom/v1`.
    #[serde(default)]
    pub api_version: String,
    /// `EnrollmentRequest`.
    #[serde(default)]
    pub kind: String,
    /// The name of the device.
    pub metadata: Metadata,
    /// What the device asks for.
    pub spec: EnrollmentRequestSpec,
    /// What became of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<EnrollmentRequestStatus>,
}

/// What a device asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnrollmentRequestSpec {
    /// The certificate request (PKCS #10) as PEM, signed with the key of the device.
    pub csr: String,
    /// The labels that the device proposes.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// What its agent would report, for the person who decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_status: Option<DeviceReport>,
}

/// What became of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnrollmentRequestStatus {
    /// The certificate of the device as PEM, followed by that of the authority, once the request is approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// The decision; absent while the request waits for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// `Approved` or `Denied`, as conditions.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// The token that the request came with.
    #[serde(default)]
    pub token: String,
}

/// A decision on a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// Whether it was approved; otherwise it was denied.
    pub approved: bool,
    /// The user who decided, or the token that approves by itself.
    #[serde(default)]
    pub approved_by: String,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub approved_at: Option<Timestamp>,
    /// The labels that the person who decided gave.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// Decides on a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnrollmentApproval {
    /// Whether to approve; otherwise the request is denied.
    pub approved: bool,
    /// Labels of the device; they win over those of the token and those that the device proposes.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Why, for history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// Asks for a new certificate: the body of `POST …/devices/{name}/certificate`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CertificateRequest {
    /// The certificate request as PEM, with the same key as before.
    pub csr: String,
}

/// A new certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceCertificate {
    /// The certificate of the device as PEM, followed by that of the authority.
    pub certificate: String,
    /// When it ends; the agent renews it after two thirds of its time.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}

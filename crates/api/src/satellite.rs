//! Satellites: registries at the edge.

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Changes a satellite. Absent fields keep their values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SatellitePatch {
    /// The interval that it is given, such as `@every 30s`; null lets it keep its own.
    #[serde(default, deserialize_with = "crate::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub heartbeat_interval: Option<Option<String>>,
    /// Labels to set; a label that is null is removed, others stay.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, Option<String>>,
}

/// A satellite as the API shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Satellite {
    /// Names the satellite for ever; its name may be used again once it is deleted.
    pub id: String,
    /// The name, unique among the living.
    pub name: String,
    /// `pending`, `online`, `stale` or `revoked`.
    #[serde(rename = "status")]
    pub state: String,
    /// Whether it was deleted, for good; it keeps its last state.
    pub deleted: bool,
    /// How it registers: `token` or `spiffe`.
    pub flow: String,
    /// Whether it was re-enabled and has to exchange its credential.
    pub refresh_required: bool,
    /// The groups it replicates.
    pub groups: Vec<String>,
    /// Its config.
    pub config_name: Option<String>,
    /// Labels, for selectors; members with the same `zone` are judged together when they fall silent.
    pub labels: BTreeMap<String, String>,
    /// The interval it was given, such as `@every 00h00m30s`.
    pub heartbeat_interval: Option<String>,
    /// The interval in force: the longer of the one it reports and the one it was given. Null while it does not have to beat.
    #[serde(default)]
    pub interval_in_force: Option<String>,
    /// Its silence while it has to beat: `late`, `suspected` while an incident holds it, or `due`; null when it
    /// was heard in time.
    #[serde(default)]
    pub silence: Option<String>,
    /// When it was last heard.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_seen: Option<Timestamp>,
    /// The facts it last reported.
    pub reported: Option<Reported>,
    /// When its registration token expires, if it has one.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub token_expires_at: Option<Timestamp>,
    /// Until when it may exchange its old credential, while it may.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub refresh_until: Option<Timestamp>,
    /// Its SPIFFE ID.
    pub spiffe_id: Option<String>,
    /// The region in its SPIFFE ID.
    pub region: Option<String>,
    /// How its node proves itself: `join_token`, `x509pop` or `sshpop`.
    pub attestation_method: Option<String>,
    /// When it entered its state.
    #[schema(value_type = String, format = DateTime)]
    pub state_changed_at: Timestamp,
    /// When it was created.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When anything about it last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// The facts a satellite last reported. If another server received them, numbers that always change may be some minutes
/// old.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reported {
    /// When the server received it.
    #[schema(value_type = String, format = DateTime)]
    pub received_at: Timestamp,
    /// Its current activity.
    pub activity: Option<String>,
    /// The interval of heartbeats that it reports.
    pub state_report_interval: Option<String>,
    /// Memory in use.
    pub memory_used_bytes: Option<u64>,
    /// Storage in use.
    pub storage_used_bytes: Option<u64>,
    /// Processor in use.
    pub cpu_percent: Option<f64>,
    /// How many images it holds.
    pub image_count: Option<u64>,
    /// The state it has replicated.
    pub latest_state_digest: Option<String>,
    /// The config it has.
    pub latest_config_digest: Option<String>,
    /// How long its last replication took.
    pub last_sync_duration_ms: Option<u64>,
    /// Images that it holds, as many as are kept.
    pub cached_images: Vec<CachedImage>,
}

/// An image that a satellite holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CachedImage {
    /// Where it is from, with its digest.
    #[serde(default)]
    pub reference: String,
    /// Its size.
    #[serde(default)]
    pub size_bytes: u64,
}

/// Creates a satellite that registers with a one-time token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SatelliteCreate {
    /// Lower case letters and digits, with single `.`, `_` or `-` between them.
    pub name: String,
    /// The groups it replicates.
    #[serde(default)]
    pub groups: Option<Vec<String>>,
    /// Its config.
    #[serde(default)]
    pub config_name: Option<String>,
    /// Labels, for selectors.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// How often it shall beat, such as `@every 00h00m30s`.
    #[serde(default)]
    pub heartbeat_interval: Option<String>,
}

/// A new satellite, or one that has to register again; its token is shown only now.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NewSatellite {
    /// Always true.
    pub success: bool,
    /// The one-time registration token.
    pub token: String,
    /// When it ends.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
    /// The satellite.
    pub data: Satellite,
    /// A message for people.
    pub message: Option<String>,
}

/// Creates a satellite that registers with a SPIFFE ID.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinTokenCreate {
    /// The name of the satellite.
    pub satellite_name: String,
    /// The region in its SPIFFE ID. Default: `default`.
    #[serde(default)]
    pub region: Option<String>,
    /// The selectors of its workload, such as `docker:label:app:satellite`.
    #[serde(default)]
    pub selectors: Vec<String>,
    /// How its node proves its identity: `join_token` (the default), `x509pop` or `sshpop`.
    #[serde(default)]
    pub attestation_method: Option<String>,
    /// How long the join token is valid in seconds, at most a day. Default: 600.
    #[serde(default)]
    pub ttl_seconds: Option<u64>,
    /// The agent that vouches for it; `sshpop` needs one.
    #[serde(default)]
    pub parent_agent_id: Option<String>,
    /// The groups it replicates.
    #[serde(default)]
    pub groups: Option<Vec<String>>,
    /// Its config.
    #[serde(default)]
    pub config_name: Option<String>,
    /// Labels, for selectors.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// How often it shall beat.
    #[serde(default)]
    pub heartbeat_interval: Option<String>,
}

/// The data for the agent of a SPIFFE satellite. The join token is shown only here.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JoinToken {
    /// The name of the satellite.
    pub satellite: String,
    /// The region.
    pub region: String,
    /// Its SPIFFE ID.
    pub spiffe_id: String,
    /// The agent that vouches for it.
    pub parent_agent_id: String,
    /// The join token of its agent, where the method has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join_token: Option<String>,
    /// When the join token ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// Where the agent attests.
    pub spire_server_address: String,
    /// Its port.
    pub spire_server_port: u16,
    /// The trust domain.
    pub trust_domain: String,
}

/// A registration token in a body, where no log of a proxy sees it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ZtrRequest {
    /// The one-time token.
    pub token: String,
}

/// The data for a registered satellite.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Registration {
    /// Where its state is.
    pub state: String,
    /// How it reads it, and beats.
    pub auth: RegistryAuth,
}

/// The credential of a satellite.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RegistryAuth {
    /// The registry.
    pub url: String,
    /// The user name.
    pub username: String,
    /// The secret.
    pub password: String,
}

/// The body of a heartbeat. Every field is optional; unknown fields are ignored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Beat {
    /// Its current activity.
    pub activity: Option<String>,
    /// How often it beats, such as `@every 00h00m30s`.
    pub state_report_interval: Option<String>,
    /// The state it has replicated.
    pub latest_state_digest: Option<String>,
    /// The config it has.
    pub latest_config_digest: Option<String>,
    /// Memory in use.
    pub memory_used_bytes: Option<u64>,
    /// Storage in use.
    pub storage_used_bytes: Option<u64>,
    /// Processor in use.
    pub cpu_percent: Option<f64>,
    /// How long its last replication took.
    pub last_sync_duration_ms: Option<u64>,
    /// How many images it holds.
    pub image_count: Option<u64>,
    /// The images it holds.
    pub cached_images: Option<Vec<CachedImage>>,
    /// Its name; ignored, because the credential identifies the satellite.
    pub name: Option<String>,
    /// When it made the request, by its own clock; ignored.
    pub request_created_time: Option<String>,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BeatReply {
    /// The state of the satellite.
    pub state: String,
    /// When to beat next.
    pub next_interval: String,
    /// The time of the server.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Timestamp,
    /// Directives to the satellite: `refresh_credentials`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// The same, as later clients call it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
    /// Where to exchange the credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<RefreshDirective>,
}

/// Where and until when a credential is exchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefreshDirective {
    /// Send an empty POST there, with the credential it has.
    pub url: String,
    /// After that it is void.
    #[schema(value_type = String, format = DateTime)]
    pub until: Timestamp,
}

/// Blocks a satellite.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Revoke {
    /// Why, for history.
    pub comment: Option<String>,
}

/// Lets a satellite come back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Reenable {
    /// `refresh` (the default): the old credential is exchanged once; `reissue`: a new token, the old credential is
    /// void; `keep`: the old credential stays, for clients that cannot refresh.
    pub mode: Option<String>,
    /// Why, for history.
    pub comment: Option<String>,
}

/// A satellite that was re-enabled.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reenabled {
    /// Always true.
    pub success: bool,
    /// The satellite.
    pub data: Satellite,
    /// The next step, for people.
    pub message: Option<String>,
    /// The new registration token; only for the mode `reissue` and the only time that it is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// When the token ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// The new join token, of a satellite that registers with a SPIFFE ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join_token: Option<String>,
}

/// Work that a change of a satellite asks of other systems.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EffectProgress {
    /// Its type: `harbor_robot`, `spire_entry` or `publish_state`; for a group also `group_robots` and `group_members`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The sequence number of the change that asked for it.
    pub sequence: i64,
    /// `pending`, `running`, `retrying` or `done`.
    pub progress: String,
    /// How often it was tried.
    pub attempts: i64,
    /// Why it last failed.
    pub last_error: Option<String>,
    /// When it is tried again.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next_attempt_at: Option<Timestamp>,
    /// When it was asked for.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it was done.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub done_at: Option<Timestamp>,
}

/// Types that show a secret once are never printed.
macro_rules! secretive {
    ($($name:ident),+) => {
        $(impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        })+
    };
}
secretive!(NewSatellite, JoinToken, ZtrRequest, Registration, RegistryAuth, Reenabled);

//! API tokens.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use utoipa::ToSchema;

/// Creates a token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenCreate {
    /// The name of its owner or purpose; the `user_id` in history.
    pub name: String,
    /// `viewer`, `operator`, `admin`, `installer`, `adapter` or `auditor`.
    pub role: String,
    /// The kinds it may touch; empty for all.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// The user group it belongs to.
    #[serde(default)]
    pub group_id: Option<String>,
    /// The one adapter that it reports as, with role `adapter` only; absent for any.
    #[serde(default)]
    pub adapter: Option<String>,
    /// When it ends; absent for the default of 90 days.
    #[serde(default, deserialize_with = "time")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
}

/// Parses a time from a person, with an error that shows the format.
fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let given: Option<String> = Option::deserialize(from)?;
    let read = |text: String| {
        text.parse().map_err(|_| D::Error::custom("must be a time such as 2027-01-31T12:00:00Z"))
    };
    given.map(read).transpose()
}

/// A token as the API shows it; the secret is not part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Names the token.
    pub id: String,
    /// The name of its owner or purpose.
    pub name: String,
    /// The role.
    pub role: String,
    /// The kinds it may touch; empty for all.
    pub kinds: Vec<String>,
    /// The user group it belongs to.
    pub group_id: Option<String>,
    /// The one adapter that it reports as; absent for any.
    #[serde(default)]
    pub adapter: Option<String>,
    /// `active`, `expired` or `revoked`.
    pub state: String,
    /// When it ends.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
    /// When it was created.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

/// A new token; its secret is shown only now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewToken {
    /// The token.
    #[serde(flatten)]
    pub token: Token,
    /// Send this as `Authorization: Bearer …`.
    pub secret: String,
}

/// The identity behind a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Whoami {
    /// Names the token.
    pub id: String,
    /// The name of its owner or purpose; the `user_id` in history.
    pub name: String,
    /// The role.
    pub role: String,
    /// The kinds it may touch; empty for all.
    pub kinds: Vec<String>,
    /// The user group it belongs to.
    pub group_id: Option<String>,
    /// The one adapter that it reports as; absent for any.
    #[serde(default)]
    pub adapter: Option<String>,
    /// When it ends.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}

/// A link that logs a person in to the console once; it is shown only now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoginLink {
    /// The path below the URL of the server. Its secret is behind the `#`, which browsers send to no server.
    pub path: String,
    /// When it ends, used or not.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}

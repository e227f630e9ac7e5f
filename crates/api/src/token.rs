//! API tokens.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Makes a token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenCreate {
    /// Whose or what for; this is the `user_id` in history.
    pub name: String,
    /// `viewer`, `operator`, `admin`, `installer`, `adapter` or `auditor`.
    pub role: String,
    /// The kinds it may touch; empty for all.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// The user group it belongs to.
    #[serde(default)]
    pub group_id: Option<String>,
    /// When it ends; absent for the default of 90 days.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
}

/// A token as the API shows it; the secret is not part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Names the token.
    pub id: String,
    /// Whose or what for.
    pub name: String,
    /// What it may do.
    pub role: String,
    /// The kinds it may touch; empty for all.
    pub kinds: Vec<String>,
    /// The user group it belongs to.
    pub group_id: Option<String>,
    /// `active` or `revoked`.
    pub state: String,
    /// When it ends.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

/// A token that was just made; the only time that its secret is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewToken {
    /// The token.
    #[serde(flatten)]
    pub token: Token,
    /// Send this as `Authorization: Bearer …`.
    pub secret: String,
}

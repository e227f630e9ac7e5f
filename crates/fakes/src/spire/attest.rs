//! Nodes join through the control endpoint: `POST /_attest`.

use std::sync::Arc;

use axum::{Json, Router, http::StatusCode, routing::post};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Shared,
    state::{Agent, Selector},
};

/// A node that joins.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Attestation {
    /// With a token, which is used up.
    JoinToken {
        /// The token.
        token: String,
    },
    /// With a certificate of its own; it may join again, unless it is banned.
    X509pop {
        /// The last part of its identity.
        fingerprint: String,
        /// The name in its certificate.
        common_name: String,
    },
}

/// Why a node may not join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// There is no such token, or it was used.
    UnknownToken,
    /// The token's time is over.
    ExpiredToken,
    /// The node is banned.
    Banned,
}

/// How long the certificate of an agent lives, in seconds.
const LIFE: i64 = 3600;

impl Shared {
    /// Lets a node join, and returns its real identity.
    pub(super) fn attest(&self, attestation: &Attestation) -> Result<String, Refused> {
        let now = self.clock.now().as_second();
        let (kind, name, selectors) = match attestation {
            Attestation::JoinToken { token } => ("join_token", token, Vec::new()),
            Attestation::X509pop { fingerprint, common_name } => {
                let selector = Selector("x509pop".to_owned(), format!("subject:cn:{common_name}"));
                ("x509pop", fingerprint, vec![selector])
            }
        };
        let id = self.id(&format!("/spire/agent/{kind}/{name}"));
        self.change("agent.attest", |state| {
            if let Attestation::JoinToken { token } = attestation {
                let expires_at = state.join_tokens.remove(token).ok_or(Refused::UnknownToken)?;
                if now >= expires_at {
                    return Err(Refused::ExpiredToken);
                }
            }
            if state.agents.get(&id).is_some_and(|agent| agent.banned) {
                return Err(Refused::Banned);
            }
            let attestation = kind.to_owned();
            let agent =
                Agent { id: id.clone(), attestation, selectors, expires_at: now + LIFE, banned: false };
            state.agents.insert(id.clone(), agent);
            Ok(id)
        })
    }
}

pub(super) fn routes(shared: &Arc<Shared>) -> Router {
    let shared = Arc::clone(shared);
    let attest = async move |Json(attestation): Json<Attestation>| -> (StatusCode, Json<Value>) {
        match shared.attest(&attestation) {
            Ok(id) => (StatusCode::OK, Json(json!({"id": id}))),
            Err(refused) => (StatusCode::FORBIDDEN, Json(json!({"error": format!("{refused:?}")}))),
        }
    };
    Router::new().route("/_attest", post(attest))
}

//! The state of the fake. Identities are texts here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tonic::Status;
use wardroom_spire_proto::types;

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct State {
    /// Tokens that were not used yet, and when they end.
    pub(super) join_tokens: BTreeMap<String, i64>,
    pub(super) entries: BTreeMap<String, Entry>,
    /// By their real identity.
    pub(super) agents: BTreeMap<String, Agent>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) spiffe_id: String,
    pub(super) parent_id: String,
    /// Sorted.
    pub(super) selectors: Vec<Selector>,
    pub(super) x509_svid_ttl: i32,
    pub(super) created_at: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Agent {
    pub(super) id: String,
    pub(super) attestation: String,
    pub(super) selectors: Vec<Selector>,
    pub(super) expires_at: i64,
    pub(super) banned: bool,
}

/// A kind and a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Selector(pub(super) String, pub(super) String);

/// Returns an identity as text, if it belongs to the trust domain.
pub(super) fn text(id: Option<&types::Spiffeid>, trust_domain: &str) -> Result<String, Status> {
    let id = id.ok_or_else(|| Status::invalid_argument("an identity is needed"))?;
    if id.trust_domain != trust_domain {
        return Err(Status::invalid_argument("the SPIFFE ID is not of this trust domain"));
    }
    if !id.path.starts_with('/') || id.path.ends_with('/') {
        return Err(Status::invalid_argument("this is no path of an identity"));
    }
    Ok(format!("spiffe://{}{}", id.trust_domain, id.path))
}

/// Returns the same in the form of the protocol.
pub(super) fn id(text: &str) -> Option<types::Spiffeid> {
    let rest = text.strip_prefix("spiffe://")?;
    let (trust_domain, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    Some(types::Spiffeid { trust_domain: trust_domain.to_owned(), path: path.to_owned() })
}

fn selectors(selectors: &[Selector]) -> Vec<types::Selector> {
    let view =
        |Selector(kind, value): &Selector| types::Selector { r#type: kind.clone(), value: value.clone() };
    selectors.iter().map(view).collect()
}

impl Entry {
    pub(super) fn view(&self) -> types::Entry {
        types::Entry {
            id: self.id.clone(),
            spiffe_id: id(&self.spiffe_id),
            parent_id: id(&self.parent_id),
            selectors: selectors(&self.selectors),
            x509_svid_ttl: self.x509_svid_ttl,
            created_at: self.created_at,
            ..types::Entry::default()
        }
    }
}

impl Agent {
    pub(super) fn view(&self) -> types::Agent {
        types::Agent {
            id: id(&self.id),
            attestation_type: self.attestation.clone(),
            // A banned agent has no certificate that counts.
            x509svid_serial_number: if self.banned { String::new() } else { "1".to_owned() },
            x509svid_expires_at: self.expires_at,
            selectors: selectors(&self.selectors),
            banned: self.banned,
            can_reattest: self.attestation != "join_token",
        }
    }
}

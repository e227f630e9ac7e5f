//! A satellite as it is stored.
//!
//! What must stay true: no secret is in it, only hashes; and `epoch` only ever grows, so that no secret of an earlier
//! epoch is ever issued again.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use wardroom_core::satellite::State;
use wardroom_store::{Content, Resource};

use super::secret;
use crate::platform::{app::App, http::error::Error, identity::secret::Key};

pub(crate) const KIND: &str = "satellite";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Flow {
    #[default]
    Token,
    Spiffe,
}

impl Flow {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Spiffe => "spiffe",
        }
    }
}

/// What is stored of a satellite beside its state and labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Document {
    pub(crate) flow: Flow,
    pub(crate) region: Option<String>,
    pub(crate) attestation_method: Option<String>,
    pub(crate) selectors: Vec<String>,
    pub(crate) parent_agent_id: Option<String>,
    pub(crate) spiffe_id: Option<String>,
    pub(crate) groups: BTreeSet<String>,
    pub(crate) config: Option<String>,
    /// The interval it was given, in its normal form.
    pub(crate) heartbeat_interval: Option<String>,
    /// The epoch of the credential in force or, while pending, of the one that is issued next.
    pub(crate) epoch: u64,
    /// The one-time token, while there is one.
    pub(crate) registration: Option<Registration>,
    /// The exchange of the last token, for a satellite that lost its answer.
    pub(crate) exchange: Option<Exchange>,
    pub(crate) credential: Option<Credential>,
    /// Set after a re-enable: the old credential may be used once more.
    pub(crate) refresh: Option<Refresh>,
    /// Certificates from before this time are void, because the satellite was re-enabled with a new token.
    /// Moved later once SPIRE no longer issues certificates to agents with earlier tokens.
    pub(crate) svid_after: Option<Timestamp>,
    /// The robot in the registry, as the effect last saw it.
    pub(crate) robot: Option<Robot>,
    /// The objects in SPIRE, as the effect last saw them.
    pub(crate) spire: Option<SpireRecord>,
}

/// A one-time token, hashed: a registration token, or the join token of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Registration {
    pub(crate) token_hash: String,
    pub(crate) expires_at: Timestamp,
}

/// A token that was exchanged with an `Idempotency-Key`: the same pair gets the same answer for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exchange {
    pub(crate) token_hash: String,
    pub(crate) key_hash: String,
    pub(crate) epoch: u64,
    pub(crate) until: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Credential {
    pub(crate) epoch: u64,
    pub(crate) hash: String,
    pub(crate) issued_at: Timestamp,
    /// The previous hash, valid until the new credential is first used or the time for the exchange is over.
    /// A satellite that is revoked in that time may have either.
    pub(crate) previous_hash: Option<String>,
}

/// How a re-enabled satellite comes back with its old credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refresh {
    pub(crate) until: Timestamp,
    /// Whether the old credential stays, for clients that cannot exchange it.
    pub(crate) keep: bool,
}

/// A robot account of the registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Robot {
    pub(crate) id: i64,
    /// The full name, with the registry's prefix.
    pub(crate) name: String,
    pub(crate) expires_at: Timestamp,
    /// When it has to be extended; none if it does not expire.
    pub(crate) renew_at: Option<Timestamp>,
    pub(crate) epoch: u64,
    pub(crate) disabled: bool,
}

/// Entries and agent of a satellite in SPIRE.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpireRecord {
    pub(crate) entry_ids: Vec<String>,
    pub(crate) agent_id: Option<String>,
    /// The epoch of the token that the agent can join with.
    pub(crate) join_token_epoch: Option<u64>,
    /// All agents with tokens of earlier epochs were shut out.
    pub(crate) shut_out_before: Option<u64>,
}

impl Document {
    pub(crate) fn of(resource: &Resource) -> Result<Self, Error> {
        resource.content.document.read().map_err(|error| {
            tracing::error!(id = resource.content.id, %error, "the stored satellite is not valid");
            Error::Internal
        })
    }

    /// Whether the old credential may be used once more.
    pub(crate) fn may_refresh(&self, now: Timestamp) -> bool {
        self.refresh.is_some_and(|refresh| now < refresh.until)
    }

    /// Whether its node has its own agent, which joins SPIRE with our token. An agent that was named in a
    /// request, or that attests otherwise, may serve others too.
    pub(crate) fn has_own_agent(&self, name: &str) -> bool {
        let is_alias = |parent: &str| self.agent_alias(name).is_some_and(|alias| alias == parent);
        self.attestation_method.as_deref() == Some("join_token")
            && self.parent_agent_id.as_deref().is_none_or(is_alias)
    }

    /// Whether SPIRE accepts only the agent with the newest token.
    pub(crate) fn is_told_to_spire(&self, name: &str) -> bool {
        let known = self.spire.as_ref().and_then(|known| known.join_token_epoch);
        !self.has_own_agent(name) || known == Some(self.epoch)
    }

    /// The alias of a satellite's agent, which does not change with its token.
    pub(crate) fn agent_alias(&self, name: &str) -> Option<String> {
        let (domain, _) = self.spiffe_id.as_deref()?.strip_prefix("spiffe://")?.split_once('/')?;
        Some(format!("spiffe://{domain}/agent/{name}"))
    }

    /// The epoch of the credential that the registry must know: the one in force, or the next one.
    pub(crate) fn wanted_epoch(&self) -> u64 {
        match (&self.credential, self.refresh) {
            (Some(credential), None | Some(Refresh { keep: true, .. })) => credential.epoch,
            (Some(_), Some(Refresh { keep: false, .. })) | (None, _) => self.epoch,
        }
    }

    /// Removes tokens and exchanges. Hashes of credentials stay, so that a revoked satellite gets another
    /// answer than a stranger.
    pub(crate) fn close(&mut self) {
        self.registration = None;
        self.exchange = None;
        self.refresh = None;
    }

    /// Voids all credentials but the newest.
    pub(crate) fn forget_previous(&mut self) {
        if let Some(credential) = &mut self.credential {
            credential.previous_hash = None;
        }
    }

    /// Ends the time in which the satellite may return with its old credential. If two are valid, the one it
    /// shows stays.
    pub(crate) fn keep(&mut self, key: &Key, id: &str, shows: impl Fn(&str) -> bool) {
        self.refresh = None;
        let Some(known) = &mut self.credential else { return };
        let Some(previous) = known.previous_hash.take().filter(|hash| shows(hash)) else { return };
        let is_from = |epoch: &u64| {
            let secret = secret::credential(key, id, *epoch);
            secret::text_of(&secret::hash(&secret)) == previous
        };
        known.epoch = (0..known.epoch).rev().find(is_from).unwrap_or(known.epoch);
        known.hash = previous;
    }

    /// The satellite it is, changed.
    pub(crate) fn into_content_of(self, satellite: &Resource, state: State) -> Result<Content, Error> {
        let old = &satellite.content;
        self.content(old.id.clone(), old.name.clone(), state, old.labels.clone())
    }

    /// Builds the stored satellite; its name, tokens and identity are keys.
    pub(crate) fn content(
        self,
        id: String,
        name: String,
        state: State,
        labels: BTreeMap<String, String>,
    ) -> Result<Content, Error> {
        // The robot of a revoked satellite is not extended.
        let due_at = self.robot.as_ref().and_then(|robot| robot.renew_at).filter(|_| state != State::Revoked);
        let mut fields = BTreeMap::from([
            ("name".to_owned(), name.clone()),
            ("flow".to_owned(), self.flow.as_str().to_owned()),
        ]);
        fields.extend(self.config.iter().map(|config| ("config".to_owned(), config.clone())));
        fields.extend(self.region.iter().map(|region| ("region".to_owned(), region.clone())));
        fields.extend(self.groups.iter().map(|group| (group_field(group), "1".to_owned())));
        let mut keys = BTreeSet::from([name_key(&name)]);
        // A join token is only shown to SPIRE, so it is no key here.
        let shown = self.registration.iter().filter(|_| self.flow == Flow::Token);
        keys.extend(shown.map(|token| token_key(&token.token_hash)));
        keys.extend(self.exchange.iter().map(|exchange| token_key(&exchange.token_hash)));
        keys.extend(self.spiffe_id.iter().map(|id| spiffe_key(id)));
        keys.extend(self.robot.iter().map(|robot| robot_key(&robot.name)));
        Ok(Content {
            kind: KIND.to_owned(),
            id,
            name,
            state: state.as_str().to_owned(),
            document: wardroom_store::Document::of(&self)?,
            labels,
            fields,
            keys,
            due_at,
            deleted: false,
        })
    }
}

/// The field by which the satellites of a group are found; its value is `1`.
pub(crate) fn group_field(group: &str) -> String {
    format!("group/{group}")
}

pub(crate) fn name_key(name: &str) -> String {
    format!("name/{name}")
}

pub(crate) fn token_key(hash: &str) -> String {
    format!("ztr/{hash}")
}

pub(crate) fn spiffe_key(id: &str) -> String {
    format!("spiffe/{id}")
}

pub(crate) fn robot_key(name: &str) -> String {
    format!("robot/{name}")
}

pub(crate) fn state(resource: &Resource) -> Result<State, Error> {
    resource.content.state.parse().map_err(|error| {
        tracing::error!(id = resource.content.id, %error, "the stored satellite has an unknown state");
        Error::Internal
    })
}

/// Returns the facts that decide whether a satellite's credentials are valid; effects on upstreams depend on
/// them.
pub(crate) fn basis(_: &App, satellite: &Resource) -> Result<serde_json::Value, Error> {
    let (document, is_revoked) = (Document::of(satellite)?, state(satellite)? == State::Revoked);
    Ok(json!([document.epoch, document.wanted_epoch(), is_revoked, satellite.content.deleted]))
}

/// Taken by routes.
const RESERVED: &[&str] = &["active", "stale", "register"];

/// Checks a name that is also part of a repository's path and of a robot's name.
pub(crate) fn check_name(field: &str, name: &str) -> Result<(), Error> {
    check_word(field, name, 128)?;
    // Upstream clients encode unusual names with this prefix, and satellites read their name from the path.
    if name.starts_with("x-") {
        return Err(Error::invalid(field, "must not start with \"x-\": choose another name"));
    }
    Ok(())
}

/// A part of a SPIFFE ID.
pub(crate) fn check_region(field: &str, region: &str) -> Result<(), Error> {
    check_word(field, region, 200)
}

fn check_word(field: &str, name: &str, most: usize) -> Result<(), Error> {
    let decent = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    if name.len() > most || !name.split(['.', '_', '-']).all(decent) {
        return Err(Error::invalid(
            field,
            format!(
                "must be 1 to {most} lower case letters and digits, with single '.', '_' or '-' between them"
            ),
        ));
    }
    if RESERVED.contains(&name) {
        return Err(Error::invalid(field, format!("{name:?} is a word of the API: choose another name")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_name;

    #[test]
    fn names_fit_into_a_repository_and_a_robot() {
        for name in ["a", "edge-01", "9", "berlin.rack_2-b", "x", "xa-1", &"a".repeat(128)] {
            check_name("name", name).unwrap();
        }
        let long = "a".repeat(129);
        for name in ["", "a--b", "-a", "a.", "A", "a b", "a/b", "ä", "a$b", "active", "stale", "x-1", &long]
        {
            check_name("name", name).unwrap_err();
        }
    }
}

//! Who is calling: tokens of people and programs, and the install tokens of machines.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use wardroom_core::table::Role;
use wardroom_store::{Location, Resource};

use crate::{
    app::App, config::Config, error::Error, satellite::identity::SatelliteIdentity, secret, spiffe::SpiffeId,
};

/// The kind under which tokens are stored.
pub(crate) const TOKEN: &str = "token";

/// Who is calling, and in which request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) who: Who,
    /// The address the request came from.
    pub(crate) address: IpAddr,
    pub(crate) request_id: Arc<str>,
}

/// Who is calling.
#[derive(Clone)]
pub(crate) enum Who {
    /// Nobody we know.
    Nobody,
    /// Somebody with an API token.
    Token(Arc<Identity>),
    /// A machine that is being installed; what it presented is checked against its node.
    Machine(Arc<str>),
    /// A satellite with a credential of its own.
    Satellite(Arc<SatelliteIdentity>),
    /// The agent of a GPU node; it speaks of that node only.
    GpuAgent(Arc<str>),
    /// Whoever has a certificate with this SPIFFE ID; whether there is such a satellite is for the handler to say.
    Svid(Arc<SpiffeId>),
}

/// What a machine presents is a secret.
impl std::fmt::Debug for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nobody => f.write_str("Nobody"),
            Self::Token(identity) => f.debug_tuple("Token").field(&identity.name).finish(),
            Self::Machine(_) => f.write_str("Machine"),
            Self::GpuAgent(node) => f.debug_tuple("GpuAgent").field(node).finish(),
            Self::Svid(svid) => f.debug_tuple("Svid").field(&svid.id).finish(),
            Self::Satellite(satellite) => f.debug_tuple("Satellite").field(&satellite.name).finish(),
        }
    }
}

/// What a token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) kinds: Vec<String>,
    pub(crate) group_id: Option<String>,
    pub(crate) expires_at: Timestamp,
}

/// What is stored of a token.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TokenDocument {
    pub(crate) role: Role,
    pub(crate) kinds: Vec<String>,
    pub(crate) group_id: Option<String>,
    pub(crate) expires_at: Timestamp,
}

impl Caller {
    /// The name that history gets.
    pub(crate) fn name(&self) -> &str {
        match &self.who {
            Who::Token(identity) => &identity.name,
            Who::Machine(_) => "machine",
            Who::Satellite(satellite) => &satellite.name,
            Who::GpuAgent(node) => node,
            Who::Svid(svid) => &svid.id,
            Who::Nobody => "nobody",
        }
    }

    /// The token of a person or program.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        match &self.who {
            Who::Token(identity) => Some(identity),
            Who::Machine(_) | Who::Satellite(_) | Who::Svid(_) | Who::GpuAgent(_) | Who::Nobody => None,
        }
    }

    /// The satellite that calls.
    pub(crate) fn satellite(&self) -> Result<&SatelliteIdentity, Error> {
        match &self.who {
            Who::Satellite(identity) => Ok(identity),
            Who::Token(_) | Who::Machine(_) | Who::Svid(_) | Who::GpuAgent(_) | Who::Nobody => {
                Err(Error::Internal)
            }
        }
    }

    /// Refuses an agent that speaks of another node than its own.
    pub(crate) fn speaks_for(&self, node: &str) -> Result<(), Error> {
        match &self.who {
            Who::GpuAgent(own) if &**own == node => Ok(()),
            Who::GpuAgent(_) => Err(Error::Forbidden("an agent speaks only of its own node".to_owned())),
            Who::Token(_) | Who::Machine(_) | Who::Satellite(_) | Who::Svid(_) | Who::Nobody => {
                Err(Error::Internal)
            }
        }
    }
}

impl Identity {
    /// Whether the token's scope covers a kind.
    pub(crate) fn covers(&self, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|covered| covered == kind)
    }

    /// The identity that a stored token gives, unless it was revoked.
    pub(crate) fn of(resource: &Resource) -> Option<Self> {
        let content = &resource.content;
        if content.deleted || content.state != "active" {
            return None;
        }
        let document: TokenDocument = content.document.read().ok()?;
        let TokenDocument { role, kinds, group_id, expires_at } = document;
        Some(Self { id: content.id.clone(), name: content.name.clone(), role, kinds, group_id, expires_at })
    }
}

/// Looks tokens up, and remembers what was found.
///
/// An embedded database has no other writer, so what was found holds until this server changes a token. With
/// PostgreSQL another server may revoke one at any time, so it holds for `memory` only, and whoever
/// revokes a token waits for that long before saying so: from the answer on, no server lets it in.
pub(crate) struct Tokens {
    remembered: RwLock<Remembered>,
    /// How long what was found holds; nothing for as long as no token changes.
    memory: Option<Duration>,
}

/// What was found since the last change of a token. The count of changes tells a reader that was overtaken
/// by a revocation not to remember what it read.
#[derive(Default)]
struct Remembered {
    changes: u64,
    identities: HashMap<String, Found>,
}

struct Found {
    identity: Arc<Identity>,
    /// When the read that found it began.
    asked_at: Instant,
}

/// More tokens than this are not remembered at once.
const MOST_REMEMBERED: usize = 10_000;

const UNKNOWN: Error = Error::Unauthenticated("the token is not valid: it is unknown or was revoked");

impl Tokens {
    pub(crate) fn new(config: &Config) -> Self {
        let memory = match config.location {
            Location::Sqlite { .. } => None,
            Location::Postgres { .. } => Some(Duration::from_millis(500)),
        };
        Self { remembered: RwLock::default(), memory }
    }

    /// The identity behind a bearer token.
    pub(crate) async fn find(&self, app: &App, token: &str, from: IpAddr) -> Result<Arc<Identity>, Error> {
        let hash = app.key.hash_token(token);
        let asked_at = app.clock.instant();
        let (changes, known) = self.recall(&hash, asked_at);
        let identity = match known {
            Some(identity) => identity,
            None => {
                // A token that is not known costs a read: guessing must not be free. Who guesses a lot waits for a
                // turn, and with it its neighbours, but those are not refused.
                let _turn = app.satellites.turn(app, from, asked_at).await?;
                let found = self.read(app, hash, asked_at, changes).await;
                if matches!(found, Err(Error::Unauthenticated(_))) {
                    app.limiter.count_failure(from, asked_at);
                }
                found?
            }
        };
        if identity.expires_at <= app.now() {
            return Err(Error::Unauthenticated("the token has expired: ask an administrator for a new one"));
        }
        Ok(identity)
    }

    /// Forgets everything, because a token changed, and waits until every other server has.
    pub(crate) async fn forget(&self) {
        {
            let mut remembered = self.remembered.write().unwrap_or_else(PoisonError::into_inner);
            remembered.changes += 1;
            remembered.identities.clear();
        }
        if let Some(memory) = self.memory {
            tokio::time::sleep(memory).await;
        }
    }

    fn recall(&self, hash: &str, now: Instant) -> (u64, Option<Arc<Identity>>) {
        let remembered = self.remembered.read().unwrap_or_else(PoisonError::into_inner);
        let holds =
            |found: &&Found| self.memory.is_none_or(|memory| now.duration_since(found.asked_at) < memory);
        let found = remembered.identities.get(hash).filter(holds);
        (remembered.changes, found.map(|found| Arc::clone(&found.identity)))
    }

    async fn read(
        &self,
        app: &App,
        hash: String,
        asked_at: Instant,
        changes: u64,
    ) -> Result<Arc<Identity>, Error> {
        let found = app.store.get_by_key(TOKEN, &hash).await?.ok_or(UNKNOWN)?;
        let held = found.content.keys.iter().any(|key| secret::same(key.as_bytes(), hash.as_bytes()));
        let identity = Identity::of(&found).filter(|_| held).map(Arc::new).ok_or(UNKNOWN)?;
        let mut remembered = self.remembered.write().unwrap_or_else(PoisonError::into_inner);
        if remembered.identities.len() >= MOST_REMEMBERED {
            remembered.identities.clear();
        }
        if remembered.changes == changes {
            remembered.identities.insert(hash, Found { identity: Arc::clone(&identity), asked_at });
        }
        Ok(identity)
    }
}

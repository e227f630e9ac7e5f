//! Recognises agents: a credential names its node, so the agent is found by the node's id and checked by the
//! hash of its credential. Both are in memory, so a heartbeat that changes nothing needs no database.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use wardroom_core::gpu_node::State;
use wardroom_store::Resource;

use super::{
    document::{self, Document, KIND},
    proof,
    secret::{self, Hash},
};
use crate::platform::{
    app::App,
    clock::Moment,
    http::error::Error,
    identity::{
        auth::Caller,
        cache::{Cache, Cached, Record},
        member::{Member, Proof, Shown, nowhere},
        secret::same,
    },
    parts::Parts,
};

/// More agents than this are not kept in memory at once.
const MOST_KEPT: usize = 200_000;

const BAD: Error = Error::Unauthenticated("the credential is not valid: it is unknown or was revoked");

/// The credential of an agent, for its own node.
pub(super) static AGENT: Proof = Proof {
    identify: |app, shown, from| {
        Box::pin(async move {
            let Shown::Bearer(credential) = shown else { return Ok(None) };
            if !secret::is_credential(credential) {
                return Ok(None);
            }
            let agent = Agents::of(app).identify(app, credential, from).await?;
            Ok(Some(Arc::new(agent) as Arc<dyn Member>))
        })
    },
    opens: nowhere,
    trusts: nowhere,
    missing: Error::Unauthenticated("send the agent's own credential as Authorization: Bearer …"),
    challenges: false,
};

/// The agent of a node; it may report on that node only.
#[derive(Debug)]
pub(super) struct Agent {
    node: Box<str>,
    shown: Hash,
}

impl Member for Agent {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn id(&self) -> &str {
        &self.node
    }

    fn name(&self) -> &str {
        &self.node
    }
}

/// Refuses an agent that reports on another node.
pub(super) fn speaks_for<'a>(caller: &'a Caller, node: &str) -> Result<&'a Agent, Error> {
    match caller.member::<Agent>() {
        Some(agent) if &*agent.node == node => Ok(agent),
        Some(_) => Err(Error::Forbidden("an agent may report only on its own node".to_owned())),
        None => Err(Error::Internal),
    }
}

pub(crate) struct Agents(Arc<Cache<KnownAgent>>);

impl Agents {
    pub(crate) fn of(app: &App) -> &Self {
        app.part()
    }

    pub(crate) fn new(parts: &mut Parts) -> Self {
        Self(parts.cache(()))
    }

    /// Waits until every other server has noticed a revocation.
    pub(crate) async fn settle(&self) {
        self.0.settle().await;
    }

    async fn identify(&self, app: &App, credential: &str, from: IpAddr) -> Result<Agent, Error> {
        let node = secret::node_of(credential).ok_or(BAD)?;
        let shown = secret::digest(credential);
        self.0.identify(app, node, shown, from).await?;
        Ok(Agent { node: node.into(), shown })
    }

    /// Judges an agent again: its body may have taken a while.
    pub(super) async fn standing(&self, app: &App, agent: &Agent) -> Result<Arc<KnownAgent>, Error> {
        self.0.standing(app, &agent.node, agent.shown).await
    }
}

/// The part of a node that its agent's requests are judged by.
pub(crate) struct KnownAgent {
    record: Record,
    node: Box<str>,
    /// The hash of the credential in force, and its epoch.
    hash: Option<Hash>,
    pub(crate) epoch: u64,
    pub(crate) is_active: bool,
    /// Whether the last checks failed, as the record says.
    pub(crate) unhealthy: bool,
    /// The last heartbeat, if the next one can be answered from memory.
    quiet: Mutex<Option<Quiet>>,
}

/// A heartbeat after which no work was left.
#[derive(Debug, Clone, Copy)]
struct Quiet {
    /// The digest of its health.
    health: proof::Digest,
    /// When it was stored.
    at: Moment,
}

/// How long a replica treats equal heartbeats as repetitions: the agent may have reported something else to
/// another replica meanwhile. If that changed the record, the entry is dropped at once.
const REPETITION: Duration = Duration::from_secs(300);

impl KnownAgent {
    /// Whether a heartbeat with this health changes nothing and no task waits for the agent.
    pub(crate) fn repeats(&self, app: &App, health: proof::Digest) -> bool {
        let quiet = *self.quiet.lock().unwrap_or_else(PoisonError::into_inner);
        let is_young = |at: Moment| !app.store.is_shared() || app.moment().is_within(REPETITION, at);
        quiet.is_some_and(|quiet| quiet.health == health && is_young(quiet.at))
    }

    /// Whether this entry was read from that version of the node.
    pub(crate) fn is_of(&self, node: &Resource) -> bool {
        self.record.version == node.version
    }

    /// Records a heartbeat after which no work was left.
    pub(crate) fn set_quiet(&self, health: proof::Digest, at: Moment) {
        *self.quiet.lock().unwrap_or_else(PoisonError::into_inner) = Some(Quiet { health, at });
    }
}

impl Cached for KnownAgent {
    const KIND: &'static str = KIND;
    const MOST: Option<usize> = Some(MOST_KEPT);
    const UNKNOWN: Error = BAD;
    type Setup = ();
    type Shown = Hash;
    type Standing = Arc<Self>;

    fn read((): &(), resource: &Resource, read_at: Moment) -> Result<Self, Error> {
        let (document, state) = (Document::of(resource)?, document::state(resource)?);
        Ok(Self {
            record: Record::of(resource, read_at),
            node: resource.content.id.as_str().into(),
            epoch: document.agent.as_ref().map_or(0, |agent| agent.epoch),
            hash: document.agent.and_then(|agent| secret::hash_of(&agent.hash)),
            is_active: state == State::Active,
            unhealthy: document.unhealthy,
            quiet: Mutex::default(),
        })
    }

    async fn look_up(app: &App, node: &str) -> Result<Option<Resource>, Error> {
        Ok(app.store.get(KIND, node).await?.filter(|found| !found.content.deleted))
    }

    fn record(&self) -> &Record {
        &self.record
    }

    fn known_as(&self, number: u8) -> Option<&str> {
        (number == 0).then_some(&*self.node)
    }

    fn has(&self, shown: Hash, _: Timestamp) -> bool {
        self.hash.is_some_and(|hash| same(&hash, &shown))
    }

    fn judge(self: &Arc<Self>, shown: Hash, now: Timestamp) -> Result<Arc<Self>, Error> {
        let counts = !self.record.deleted && self.has(shown, now);
        if counts { Ok(Arc::clone(self)) } else { Err(BAD) }
    }
}

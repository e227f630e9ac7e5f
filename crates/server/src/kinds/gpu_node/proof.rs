//! Observations of a node, and the facts that they prove.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use wardroom_api::gpu_node::agent::Check;
use wardroom_core::{
    gpu_node::{
        self as core, LIFECYCLE, REIMAGE, State,
        action::Action,
        maas::{Observed, Power, Status},
    },
    liveness::{Interval, in_force},
};
use wardroom_store::{Observation, Resource};

use super::{
    document::{self, Document, KIND},
    facts,
};
use crate::platform::{
    app::App,
    http::error::Error,
    identity::secret,
    liveness::kinds::LastHeard,
    observed::{Buffer, Report},
};

/// The sources of observations.
pub(crate) const AGENT: &str = "agent";
pub(crate) const MAAS: &str = "maas";

/// What an agent said of its node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Health {
    pub(crate) checks: Vec<Check>,
    /// The epoch of the identity that said it.
    pub(crate) epoch: u64,
    /// How often it says that it beats.
    pub(crate) interval: Option<Interval>,
}

pub(crate) type Digest = [u8; 32];

impl Health {
    pub(crate) fn is_healthy(&self) -> bool {
        self.checks.iter().all(|check| check.ok)
    }

    pub(crate) fn digest(&self) -> Result<Digest, Error> {
        let text = wardroom_store::Document::of(self)?;
        Ok(Sha256::digest(text.as_str()).into())
    }

    /// The checks that failed, in words.
    pub(crate) fn complaints(&self) -> String {
        let failed = self.checks.iter().filter(|check| !check.ok);
        let failed =
            failed.map(|check| match check.message.as_deref().filter(|said| !said.trim().is_empty()) {
                Some(message) => format!("{}: {message}", check.name),
                None => format!("{}: failed", check.name),
            });
        failed.collect::<Vec<_>>().join("; ")
    }
}

/// The last reports of agents that are not written yet.
pub(crate) struct Reports(pub(super) Arc<Buffer<Health>>);

impl Reports {
    pub(super) fn of(app: &App) -> &Self {
        app.part()
    }
}

/// An agent reports all of its checks each time, and the database is asked whether they are new.
impl Report for Health {
    const KIND: &'static str = KIND;
    const SOURCE: &'static str = AGENT;
    const KEEPS_BRIEF: bool = false;
    type Brief = ();
    type Stored = Self;

    fn is_empty(&self) -> bool {
        false
    }

    fn size(&self) -> usize {
        let texts = |check: &Check| check.name.len() + check.message.as_ref().map_or(0, String::len) + 50;
        self.checks.iter().map(texts).sum::<usize>() + 100
    }

    fn over(self, _: &Self) -> Self {
        self
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn brief(&self, (): &()) {}

    fn differs((): &(), (): &()) -> bool {
        true
    }

    fn take_numbers((): &mut (), (): &()) {}

    fn stored(said: Option<Self>, (): &(), written: Option<Self>, _: Timestamp) -> Option<Self> {
        said.or(written)
    }
}

/// What MAAS said of a machine; absent when it has none with this id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) present: bool,
    pub(crate) system_id: String,
    pub(crate) site: String,
    pub(crate) status: Option<Status>,
    pub(crate) status_name: Option<String>,
    pub(crate) power: Option<Power>,
    /// It is absent together with so many others that no node is judged by it.
    pub(crate) doubt: Option<Doubt>,
}

/// How many machines of a site its MAAS has not, of how many that it should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Doubt {
    pub(crate) missing: usize,
    pub(crate) of: usize,
}

impl Seen {
    pub(crate) fn observed(&self) -> Observed {
        match self.status {
            Some(status) => Observed::Present { status, power: self.power.unwrap_or(Power::Unknown) },
            None => Observed::Absent,
        }
    }

    /// MAAS's word for the status.
    pub(crate) fn said(&self) -> String {
        self.status_name.clone().unwrap_or_else(|| "absent".to_owned())
    }
}

/// The latest of both sources.
#[derive(Debug, Default)]
pub(crate) struct Latest {
    pub(crate) health: Option<(Health, Timestamp)>,
    pub(crate) maas: Option<Sight>,
}

/// What MAAS said, and when.
#[derive(Debug, Clone)]
pub(crate) struct Sight {
    pub(crate) seen: Seen,
    /// A fingerprint of the observation: an operator adopts the state that was shown, not a later one.
    pub(crate) digest: String,
    pub(crate) observed_at: Timestamp,
    version: i64,
}

/// Reads what was observed of a node.
pub(crate) async fn latest(app: &App, id: &str) -> Result<Latest, Error> {
    let mut latest = Latest::default();
    for seen in app.store.observations(KIND, id).await? {
        match seen.source.as_str() {
            AGENT => latest.health = Some((seen.document.read()?, seen.received_at)),
            MAAS => {
                let digest = secret::encode(&Sha256::digest(seen.document.as_str())[..12]);
                let (observed_at, version) = (seen.observed_at, seen.version);
                latest.maas = Some(Sight { seen: seen.document.read()?, digest, observed_at, version });
            }
            _ => {}
        }
    }
    let written = latest.health.as_ref().map(|(_, at)| *at);
    if let Some((said, at)) = Reports::of(app).0.waiting(id).filter(|(_, at)| Some(*at) > written) {
        latest.health = Some(((*said).clone(), at));
    }
    Ok(latest)
}

/// When the agent of a node that is not active was last heard, and how often it beats; of an active one liveness knows.
pub(crate) async fn heard(app: &App, id: &str) -> Result<Option<LastHeard>, Error> {
    let health = latest(app, id).await?.health;
    Ok(health.map(|(health, at)| LastHeard { at, every: health.interval }))
}

/// Writes what an agent says, before it is answered; of two reports the newer one stays.
pub(crate) async fn keep(app: &App, id: &str, health: &Health, at: Timestamp) -> Result<(), Error> {
    let row = (id.to_owned(), wardroom_store::Document::of(health)?, at);
    Ok(app.store.observe_all(KIND, AGENT, &[row]).await?)
}

async fn put<T: Serialize>(
    app: &App,
    id: &str,
    source: &str,
    document: &T,
    observed_at: Timestamp,
    version: i64,
) -> Result<(), Error> {
    let seen = Observation {
        kind: KIND.to_owned(),
        resource_id: id.to_owned(),
        source: source.to_owned(),
        version,
        document: wardroom_store::Document::of(document)?,
        observed_at,
        received_at: app.now(),
    };
    app.store.observe(&seen).await?;
    Ok(())
}

/// Returns the interval of an agent for liveness: the longer of the stated and the given one.
pub(crate) fn interval(app: &App, health: Option<&Health>) -> Option<Interval> {
    in_force(health.and_then(|health| health.interval), Some(app.config.liveness.interval))
}

/// Whether an agent was heard so lately that liveness would not call it silent: one that is well beats a while after its
/// interval, having run its checks.
pub(crate) fn is_fresh(app: &App, health: Option<&Health>, heard: Timestamp, now: Timestamp) -> bool {
    now.duration_since(heard) <= app.config.liveness.policy.allowance(interval(app, health))
}

/// Whether the machine of a node can be brought in: an onboarding would stop at one that is in use.
pub(crate) async fn not_deployed(app: &App, node: &Resource) -> Result<(), Error> {
    let id = &node.content.id;
    let facts = facts::gather(app, node).await?;
    let deployed = |sight: &core::facts::Sight| {
        matches!(sight.observed, Observed::Present { status: Status::Deployed, .. })
    };
    if !facts.sight.as_ref().is_some_and(deployed) {
        return Ok(());
    }
    let mut allowed = vec![REIMAGE.of(id)];
    let proven = facts.state == State::Quarantined && core::proof::usable(&facts).is_ok();
    if proven {
        allowed.push(Action::Recover.call().of(id));
    }
    allowed.push(LIFECYCLE.of(id));
    let detail = format!(
        "MAAS says that the machine of the node is deployed, and only a free one is onboarded: reimage the node{}",
        if proven { ", or recover it" } else { "" }
    );
    Err(Error::Conflict { code: "no_such_move", detail, allowed })
}

/// The proof that an action needs is missing.
pub(crate) fn missing(id: &str, detail: String, way: Action) -> Error {
    Error::Conflict { code: "not_proven", detail, allowed: vec![LIFECYCLE.of(id), way.call().of(id)] }
}

/// How long what MAAS says may be the same before it is written down again.
const UNCHANGED: SignedDuration = SignedDuration::from_mins(1);

/// Keeps an observation of one machine alone, which knows nothing of the others: a doubt about MAAS stands.
pub(crate) async fn note(app: &App, id: &str, seen: &Seen, at: Timestamp) -> Result<(), Error> {
    let known = latest(app, id).await?.maas;
    let same = known.as_ref().filter(|known| known.seen.system_id == seen.system_id && !seen.present);
    let doubt = same.and_then(|known| known.seen.doubt);
    note_change(app, id, &Seen { doubt, ..seen.clone() }, at, known).await
}

/// Keeps an observation of a machine made together with all of its site.
pub(crate) async fn note_swept(app: &App, id: &str, seen: &Seen, at: Timestamp) -> Result<(), Error> {
    let known = latest(app, id).await?.maas;
    // The same observation made meanwhile does not contradict that of all of the site.
    let agrees = known.as_ref().filter(|known| !known.seen.present && !seen.present);
    let at = agrees.map_or(at, |known| at.max(known.observed_at));
    note_change(app, id, seen, at, known).await
}

/// Keeps an observation of a node's machine: when it changed, and now and then that it did not. One of a
/// machine that is not the node's any more is dropped: other servers may observe it for a while longer. The
/// stored observation was read before the node, so that one of another machine stored meanwhile wins over
/// this.
async fn note_change(
    app: &App,
    id: &str,
    seen: &Seen,
    at: Timestamp,
    known: Option<Sight>,
) -> Result<(), Error> {
    let version = known.as_ref().map_or(0, |known| known.version) + 1;
    // Several look, and an answer that took longer is older than it seems.
    let known_better = known.is_some_and(|Sight { seen: known, observed_at, .. }| {
        let age = at.duration_since(observed_at);
        let is_same = (&known.system_id, &known.site) == (&seen.system_id, &seen.site);
        is_same && (age.is_negative() || (known == *seen && age < UNCHANGED))
    });
    if known_better || !has_machine(app, id, seen).await? {
        return Ok(());
    }
    put(app, id, MAAS, seen, at, version).await
}

/// Whether this is the machine that the node has now.
async fn has_machine(app: &App, id: &str, seen: &Seen) -> Result<bool, Error> {
    let Some(node) = app.store.get(KIND, id).await? else { return Ok(false) };
    let is_its =
        |machine: document::Machine| machine.system_id == seen.system_id && machine.site == seen.site;
    Ok(Document::of(&node)?.machine.is_some_and(is_its))
}

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

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Health {
    pub(crate) checks: Vec<Check>,
    pub(crate) epoch: u64,
    /// The interval that it reports.
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

/// Agents report all of their checks each time, and the stored report decides whether they are new.
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

/// An observation of a machine in MAAS, also of a missing one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) present: bool,
    pub(crate) system_id: String,
    pub(crate) site: String,
    pub(crate) status: Option<Status>,
    pub(crate) status_name: Option<String>,
    pub(crate) power: Option<Power>,
    /// Set if it is missing together with so many others that MAAS is doubted.
    pub(crate) doubt: Option<Doubt>,
}

/// How many of a site's expected machines are missing.
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

#[derive(Debug, Default)]
pub(crate) struct Latest {
    pub(crate) health: Option<(Health, Timestamp)>,
    pub(crate) maas: Option<Sight>,
}

/// An observation of MAAS, with its time.
#[derive(Debug, Clone)]
pub(crate) struct Sight {
    pub(crate) seen: Seen,
    /// A fingerprint of the observation: an operator adopts the state that was shown, not a later one.
    pub(crate) digest: String,
    pub(crate) observed_at: Timestamp,
    version: i64,
}

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

/// Returns the last heartbeat and interval of the agent of an inactive node; for active ones liveness knows
/// them.
pub(crate) async fn heard(app: &App, id: &str) -> Result<Option<LastHeard>, Error> {
    let health = latest(app, id).await?.health;
    Ok(health.map(|(health, at)| LastHeard { at, every: health.interval }))
}

/// Stores a report of an agent before it is answered; the newer of two reports wins.
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

/// Whether an agent's last heartbeat is recent enough by the rules of liveness: a healthy agent beats
/// somewhat later than its interval, because it runs its checks first.
pub(crate) fn is_fresh(app: &App, health: Option<&Health>, heard: Timestamp, now: Timestamp) -> bool {
    now.duration_since(heard) <= app.config.liveness.policy.allowance(interval(app, health))
}

/// Refuses to onboard a node whose machine is deployed: the run would stop at it.
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

/// How often an unchanged observation is stored again.
const UNCHANGED: SignedDuration = SignedDuration::from_mins(1);

/// Stores an observation of a single machine, which does not change a doubt about MAAS.
pub(crate) async fn note(app: &App, id: &str, seen: &Seen, at: Timestamp) -> Result<(), Error> {
    let known = latest(app, id).await?.maas;
    let same = known.as_ref().filter(|known| known.seen.system_id == seen.system_id && !seen.present);
    let doubt = same.and_then(|known| known.seen.doubt);
    note_change(app, id, &Seen { doubt, ..seen.clone() }, at, known).await
}

/// Stores an observation of a machine from a sweep of its whole site.
pub(crate) async fn note_swept(app: &App, id: &str, seen: &Seen, at: Timestamp) -> Result<(), Error> {
    let known = latest(app, id).await?.maas;
    // An equal observation made meanwhile does not contradict the sweep.
    let agrees = known.as_ref().filter(|known| !known.seen.present && !seen.present);
    let at = agrees.map_or(at, |known| at.max(known.observed_at));
    note_change(app, id, seen, at, known).await
}

/// Stores an observation of a node's machine when it changed, and from time to time when it did not. An
/// observation of a machine that no longer belongs to the node is dropped: other servers may still make some.
/// The stored observation was read before the node, so that one of another machine stored meanwhile wins.
async fn note_change(
    app: &App,
    id: &str,
    seen: &Seen,
    at: Timestamp,
    known: Option<Sight>,
) -> Result<(), Error> {
    let version = known.as_ref().map_or(0, |known| known.version) + 1;
    // Several servers observe, and a slow answer is older than it seems.
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

/// Whether this is the node's current machine.
async fn has_machine(app: &App, id: &str, seen: &Seen) -> Result<bool, Error> {
    let Some(node) = app.store.get(KIND, id).await? else { return Ok(false) };
    let is_its =
        |machine: document::Machine| machine.system_id == seen.system_id && machine.site == seen.site;
    Ok(Document::of(&node)?.machine.is_some_and(is_its))
}

//! What was observed of a node, and what that proves.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use wardroom_api::gpu_node::agent::Check;
use wardroom_core::{
    gpu_node::{
        State,
        maas::{self, Observed, Power, Status, Work},
    },
    liveness::{Interval, in_force},
};
use wardroom_store::{Observation, Resource};

use super::{
    document::{self, Document, KIND},
    set_aside,
};
use crate::{app::App, error::Error, liveness::kinds::LastHeard, secret};

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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) interval: Option<Interval>,
}

impl Health {
    pub(crate) fn is_healthy(&self) -> bool {
        self.checks.iter().all(|check| check.ok)
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

/// What MAAS said of a machine; absent when it has none with this id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) present: bool,
    pub(crate) system_id: String,
    pub(crate) site: String,
    pub(crate) status: Option<Status>,
    pub(crate) status_name: Option<String>,
    pub(crate) power: Option<Power>,
    /// It is absent together with so many others that nobody is judged by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    /// Names what was observed: an operator adopts what was looked at, not what it became since.
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
    Ok(latest)
}

/// When the agent of a node that is not active was last heard, and how often it beats; of an active one liveness knows.
pub(crate) async fn heard(app: &App, id: &str) -> Result<Option<LastHeard>, Error> {
    let health = latest(app, id).await?.health;
    Ok(health.map(|(health, at)| LastHeard { at, every: health.interval }))
}

/// Keeps an observation; who is slower than another one of the same source gives way.
pub(crate) async fn keep<T: Serialize>(
    app: &App,
    id: &str,
    source: &str,
    document: &T,
    observed_at: Timestamp,
) -> Result<(), Error> {
    let known = app.store.observations(KIND, id).await?;
    let version = known.iter().find(|seen| seen.source == source).map_or(0, |seen| seen.version) + 1;
    put(app, id, source, document, observed_at, version).await
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

/// How often an agent beats, as liveness takes it: the longer of what it says and what it is told.
pub(crate) fn interval(app: &App, health: Option<&Health>) -> Option<Interval> {
    in_force(health.and_then(|health| health.interval), Some(app.config.liveness.interval))
}

/// Whether an agent was heard so lately that liveness would not call it silent: one that is well beats a while after its
/// interval, having run its checks.
pub(crate) fn is_fresh(app: &App, health: Option<&Health>, heard: Timestamp, now: Timestamp) -> bool {
    now.duration_since(heard) <= app.config.liveness.policy.allowance(interval(app, health))
}

/// Whether a quarantined node is proven healthy: a healthy heartbeat since it was set aside, and nothing in MAAS that
/// would set it aside again. One that is silent by now proves nothing, however well it was.
pub(crate) async fn healthy_again(app: &App, node: &Resource) -> Result<(), Error> {
    let id = &node.content.id;
    let unproven = |detail: String| Error::Conflict {
        code: "not_proven",
        detail,
        allowed: vec![
            format!("GET /api/v1/gpu-nodes/{id}/lifecycle"),
            format!("POST /api/v1/gpu-nodes/{id}/actions/retire"),
        ],
    };
    let latest = latest(app, id).await?;
    let epoch = Document::of(node)?.agent.map(|agent| agent.epoch);
    let heard =
        latest.health.filter(|(health, at)| *at >= node.state_changed_at && Some(health.epoch) == epoch);
    let Some((health, at)) = heard else {
        return Err(unproven("no heartbeat has arrived since the node was set aside".to_owned()));
    };
    if !is_fresh(app, Some(&health), at, app.now()) {
        return Err(unproven(format!("the agent is silent since it was last heard, at {at:.0}")));
    }
    if !health.is_healthy() {
        return Err(unproven(format!("the last heartbeat was not healthy: {}", health.complaints())));
    }
    if let Some(Sight { seen, .. }) = latest.maas
        && !maas::fits(State::Active, seen.observed(), Work::Nobody)
    {
        let said = seen.status_name.unwrap_or_else(|| "absent".to_owned());
        return Err(unproven(format!("MAAS says {said}, and an active node is deployed")));
    }
    Ok(())
}

/// Whether MAAS still has the machine of a retired node as its agent left it: what somebody else did to it meanwhile is
/// not adopted by taking the node back into use.
pub(crate) async fn still_there(app: &App, node: &Resource) -> Result<(), Error> {
    let id = &node.content.id;
    match latest(app, id).await?.maas {
        Some(Sight { seen, .. }) if !maas::fits(State::Offline, seen.observed(), Work::Nobody) => {
            let said = seen.status_name.unwrap_or_else(|| "absent".to_owned());
            Err(Error::Conflict {
                code: "not_proven",
                detail: format!(
                    "MAAS says {said}, and the system of the node is on a machine that is deployed"
                ),
                allowed: vec![
                    format!("GET /api/v1/gpu-nodes/{id}/lifecycle"),
                    format!("POST /api/v1/gpu-nodes/{id}/actions/remove"),
                ],
            })
        }
        _ => Ok(()),
    }
}

/// Whether the machine of a node can be brought in: an onboarding would stop at one that is in use.
pub(crate) async fn not_deployed(app: &App, node: &Resource) -> Result<(), Error> {
    let id = &node.content.id;
    let sight = latest(app, id).await?.maas;
    if sight.is_none_or(|sight| sight.seen.status != Some(Status::Deployed)) {
        return Ok(());
    }
    let mut allowed = vec![format!(r#"POST /api/v1/gpu-nodes/{id}/decommissions {{"mode":"reimage"}}"#)];
    let proven = document::state(node)? == State::Quarantined && set_aside::proven(app, node).await.is_ok();
    if proven {
        allowed.push(format!("POST /api/v1/gpu-nodes/{id}/actions/recover"));
    }
    allowed.push(format!("GET /api/v1/gpu-nodes/{id}/lifecycle"));
    let detail = format!(
        "MAAS says that the machine of the node is deployed, and only a free one is onboarded: reimage the node{}",
        if proven { ", or recover it" } else { "" }
    );
    Err(Error::Conflict { code: "no_such_move", detail, allowed })
}

/// How long what MAAS says may be the same before it is written down again.
const UNCHANGED: SignedDuration = SignedDuration::from_mins(1);

/// Keeps what MAAS says of a machine to who looks at it alone, and does not know what became of the others: a doubt stands.
pub(crate) async fn note(app: &App, id: &str, seen: &Seen, at: Timestamp) -> Result<(), Error> {
    let known = latest(app, id).await?.maas;
    let same = known.as_ref().filter(|known| known.seen.system_id == seen.system_id && !seen.present);
    let doubt = same.and_then(|known| known.seen.doubt);
    note_change(app, id, &Seen { doubt, ..seen.clone() }, at, known).await
}

/// Keeps what MAAS says of a machine to who looks at all of the site.
pub(crate) async fn note_swept(app: &App, id: &str, seen: &Seen, at: Timestamp) -> Result<(), Error> {
    let known = latest(app, id).await?.maas;
    // Whoever found the same meanwhile does not contradict what all of the site says of it.
    let agrees = known.as_ref().filter(|known| !known.seen.present && !seen.present);
    let at = agrees.map_or(at, |known| at.max(known.observed_at));
    note_change(app, id, seen, at, known).await
}

/// Keeps what MAAS says of the machine of a node: when it changed, and now and then that it did not. What is said of a
/// machine that is not the node's any more is passed over: others may have looked at it for a while longer. What is known was
/// read before the node is, so that what is written of another machine meanwhile goes before this.
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

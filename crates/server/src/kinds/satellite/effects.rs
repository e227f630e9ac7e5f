//! The worker that performs effects: it updates Harbor, SPIRE and the registry, and does work on too many
//! records for one request.
//!
//! What must stay true: every effect is "make the upstream match the record", so it may be performed several
//! times, by any server, and the last time decides. A failed effect is retried later while others continue,
//! and an upstream that hangs delays its own effects only. Only this module has clients of upstreams:
//! handlers cannot reach them.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use tokio::{sync::watch, task::JoinSet};
use uuid::Uuid;
use wardroom_core::backoff::Backoff;
use wardroom_store::ClaimedEffect;
use wardroom_upstream::Failure;
use wardroom_workflow::jitter;

use crate::{
    kinds::satellite::asked::{GROUP_MEMBERS, GROUP_ROBOTS, HARBOR_ROBOT, PUBLISH_STATE, SPIRE_ENTRY},
    platform::{
        app::App,
        config::Config,
        http::error::Error,
        identity::certificate::Trust,
        work::schedule::{Failed, Job},
    },
};

mod agents;
mod agreed;
mod circuit;
mod claim;
mod group;
mod harbor;
mod publish;
mod published;
mod spire;
#[cfg(test)]
mod tests;
mod trust;
mod upkeep;
mod upstreams;

use circuit::Circuits;
use claim::CLAIM;
pub(crate) use upstreams::Upstreams;

/// Effects under way at once in each lane.
const AT_ONCE: usize = 16;

/// Types of effects that are claimed together: each upstream has its own lane.
const LANES: &[&[&str]] =
    &[&[HARBOR_ROBOT, GROUP_ROBOTS], &[SPIRE_ENTRY], &[PUBLISH_STATE], &[GROUP_MEMBERS]];

const LONGEST: Duration = Duration::from_secs(120);

/// How long to wait before the next attempt of an effect.
const BACKOFF: Backoff =
    Backoff { first: SignedDuration::from_millis(500), longest: SignedDuration::from_secs(60) };

/// How often an idle lane looks for work.
const IDLE: Duration = Duration::from_millis(500);

pub(crate) struct Worker {
    app: App,
    upstreams: Upstreams,
    /// Tells this worker from those of other servers.
    holder: String,
    circuits: Circuits,
    agreed: agreed::Agreed,
}

#[derive(Debug, thiserror::Error)]
enum EffectError {
    #[error("{0}")]
    Upstream(#[from] Failure),
    #[error("{0}")]
    Own(#[from] Error),
    /// The upstream did not answer lately: the circuit breaker is open for this long.
    #[error("is not called for now because it did not answer: {0}")]
    Open(String, Duration),
    /// A robot that Wardroom did not create has the name.
    #[error(
        "has a robot {0} that was not created for this satellite: delete it there, or set harbor.adopt_robots to take it over"
    )]
    NotOurs(String),
    /// Something else has to be done first.
    #[error("{0}")]
    Waiting(&'static str),
    /// The record changed meanwhile: the effect starts over.
    #[error("not called: the record changed meanwhile; retrying")]
    Changed,
}

impl EffectError {
    /// The same as the failure of a job that works with an upstream.
    fn of(self, upstream: Upstream) -> Failed {
        match self {
            Self::Own(error) => Failed::Own(error),
            Self::Upstream(_) | Self::Open(..) | Self::NotOurs(_) | Self::Waiting(_) | Self::Changed => {
                Failed::Other(format!("{} {self}", upstream.as_str()))
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Upstream {
    Harbor,
    Spire,
    Registry,
}

impl Upstream {
    fn as_str(self) -> &'static str {
        match self {
            Self::Harbor => "Harbor",
            Self::Spire => "SPIRE",
            Self::Registry => "the registry",
        }
    }

    /// Returns the upstream of an effect; none for internal effects and unknown ones.
    fn of(effect_type: &str) -> Option<Self> {
        match effect_type {
            HARBOR_ROBOT => Some(Self::Harbor),
            SPIRE_ENTRY => Some(Self::Spire),
            PUBLISH_STATE => Some(Self::Registry),
            _ => None,
        }
    }
}

impl Worker {
    pub(crate) fn new(app: App, upstreams: Upstreams) -> Arc<Self> {
        let holder = format!("effects {}", Uuid::now_v7());
        Arc::new(Self {
            app,
            upstreams,
            holder,
            circuits: Circuits::default(),
            agreed: agreed::Agreed::default(),
        })
    }

    /// Performs the effects of a lane until `stop`, then finishes those under way.
    async fn run(self: Arc<Self>, lane: &'static [&'static str], mut stop: watch::Receiver<bool>) {
        let mut tasks = JoinSet::new();
        while !*stop.borrow() {
            let free = AT_ONCE - tasks.len();
            let claimed = self.claim(lane, free).await;
            let may_be_more = claimed.len() == free;
            for effect in claimed {
                tasks.spawn(Arc::clone(&self).perform(effect));
            }
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                Some(ended) = tasks.join_next() => lost(ended),
                () = tokio::time::sleep(IDLE), if !may_be_more || tasks.is_empty() => {}
            }
            while let Some(ended) = tasks.try_join_next() {
                lost(ended);
            }
        }
        while let Some(ended) = tasks.join_next().await {
            lost(ended);
        }
    }

    async fn claim(&self, lane: &[&str], limit: usize) -> Vec<ClaimedEffect> {
        let claimed = async {
            if lane.contains(&PUBLISH_STATE) && !self.agreed.publishes(&self.app).await? {
                return Ok(Vec::new());
            }
            Ok::<_, Error>(self.app.store.claim_effects(&self.holder, CLAIM, limit, lane).await?)
        };
        match claimed.await {
            Ok(claimed) => claimed,
            Err(error) => {
                tracing::warn!(%error, "effects not claimed; retrying");
                Vec::new()
            }
        }
    }

    async fn perform(self: Arc<Self>, effect: ClaimedEffect) {
        let app = &self.app;
        let (name, kind, id) = (&*effect.effect.effect_type, &*effect.kind, &*effect.resource_id);
        let outcome = tokio::select! {
            outcome = self.attempt(&effect) => Some(outcome),
            () = self.hold(&effect, claim::RENEW) => None,
        };
        // A request sent under the claim may have arrived after it was lost.
        let outcome = match outcome {
            Some(outcome) if self.keep(&effect).await.is_ok() => outcome,
            Some(_) | None => {
                tracing::warn!(
                    effect = name,
                    kind,
                    id,
                    "claim on an effect lost; performing the effect again"
                );
                if let Err(error) = self.ask_again(&effect).await {
                    tracing::error!(effect = name, kind, id, %error, "effect with a lost claim not queued again");
                }
                return;
            }
        };
        let written = match outcome {
            Ok(()) => {
                tracing::info!(effect = name, kind, id, attempts = effect.attempts, "performed");
                upkeep::let_go(app, &effect).await;
                app.store.finish_effect(effect.id, app.now()).await
            }
            Err(error) => {
                let text = explain(&effect, &error);
                tracing::warn!(effect = name, kind, id, attempts = effect.attempts, error = text, "put off");
                let next = next_attempt(app.now(), &effect, &error);
                app.store.retry_effect(effect.id, &self.holder, next, &text).await
            }
        };
        if let Err(error) = written {
            // Its claim expires, and it is performed again.
            tracing::warn!(effect = name, kind, id, %error, "outcome of an effect not stored; the effect is repeated when its claim expires");
        }
    }

    async fn attempt(&self, effect: &ClaimedEffect) -> Result<(), EffectError> {
        let Some(upstream) = Upstream::of(&effect.effect.effect_type) else {
            return self.reconcile(effect).await;
        };
        self.circuits.check(upstream, self.app.clock.steady())?;
        let late = |_| Err(Failure::Ambiguous("it took too long".to_owned()).into());
        let outcome = tokio::time::timeout(LONGEST, self.reconcile_anew(effect)).await.unwrap_or_else(late);
        self.circuits.note(upstream, outcome.as_ref().err(), self.app.clock.steady());
        outcome
    }

    /// Starts over at once when the record changes meanwhile: it may be a revocation.
    async fn reconcile_anew(&self, effect: &ClaimedEffect) -> Result<(), EffectError> {
        loop {
            match self.reconcile(effect).await {
                Err(EffectError::Changed) => {}
                outcome => return outcome,
            }
        }
    }

    async fn reconcile(&self, effect: &ClaimedEffect) -> Result<(), EffectError> {
        let Upstreams { harbor, spire, registry } = &self.upstreams;
        match &*effect.effect.effect_type {
            HARBOR_ROBOT => harbor::fit(self, configured(harbor.as_ref())?, effect).await,
            GROUP_ROBOTS => upkeep::ask_members(self, effect).await,
            GROUP_MEMBERS => group::empty(self, effect).await,
            SPIRE_ENTRY => spire::fit(self, configured(spire.as_ref())?, effect).await,
            PUBLISH_STATE => publish::fit(self, configured(registry.as_ref())?, effect).await,
            _ => Err(EffectError::Waiting("waits for a server of a version that knows this type of effect")),
        }
    }
}

/// Every type of effects, and whether this server can perform it.
pub(crate) fn known(config: &Config) -> [(&'static str, bool); 5] {
    let settings = crate::kinds::satellite::settings::Settings::of(config);
    [
        (HARBOR_ROBOT, settings.harbor.is_some()),
        (GROUP_ROBOTS, settings.harbor.is_some()),
        (GROUP_MEMBERS, true),
        (SPIRE_ENTRY, settings.spire.is_some()),
        (PUBLISH_STATE, settings.registry.is_some()),
    ]
}

fn can_perform(config: &Config, effect_type: &str) -> bool {
    known(config).into_iter().any(|(name, can)| name == effect_type && can)
}

/// Returns why this server cannot perform an effect, if it cannot.
pub(crate) fn unperformed(config: &Config, effect_type: &str) -> Option<String> {
    let can = can_perform(config, effect_type);
    let upstream = Upstream::of(effect_type).map_or("the upstream", Upstream::as_str);
    (!can).then(|| format!("{upstream} is not configured here: see its section in the configuration"))
}

fn configured<T>(client: Option<&T>) -> Result<&T, EffectError> {
    client.ok_or(EffectError::Waiting("is not configured any more: see its section in the configuration"))
}

fn lost(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "effect panicked; it is retried when its claim expires");
    }
}

/// Returns the error as people read it, without join tokens: the identity of an agent contains its token.
fn explain(effect: &ClaimedEffect, error: &EffectError) -> String {
    let text = match Upstream::of(&effect.effect.effect_type) {
        Some(upstream) => format!("{} {error}", upstream.as_str()),
        None => error.to_string(),
    };
    spire::scrub(&text)
}

fn next_attempt(now: Timestamp, effect: &ClaimedEffect, error: &EffectError) -> Timestamp {
    let attempts = u32::try_from(effect.attempts).unwrap_or(u32::MAX);
    let least = match error {
        EffectError::Upstream(Failure::Busy { after: Some(after) }) => *after,
        EffectError::Open(_, remaining) => *remaining,
        EffectError::Upstream(_)
        | EffectError::Own(_)
        | EffectError::NotOurs(_)
        | EffectError::Waiting(_)
        | EffectError::Changed => Duration::ZERO,
    };
    let least = SignedDuration::try_from(least).unwrap_or(BACKOFF.longest);
    let wait = BACKOFF.spread(attempts, jitter()).max(least);
    now.saturating_add(wait).unwrap_or(Timestamp::MAX)
}

/// The jobs that perform effects, and those that ask for effects without a change.
pub(crate) fn jobs(worker: &Arc<Worker>, trust: Option<Arc<Trust>>) -> Vec<Job> {
    // Effects that this server cannot perform wait for another server.
    let can = |lane: &&&[&str]| lane.iter().all(|name| can_perform(&worker.app.config, name));
    let lane = |lane: &'static &'static [&'static str]| {
        let worker = Arc::clone(worker);
        Job::service("effects", move |stop| worker.run(lane, stop))
    };
    let mut jobs: Vec<_> = LANES.iter().filter(can).map(lane).collect();
    jobs.extend(upkeep::jobs(worker));
    jobs.extend(published::jobs(worker));
    jobs.extend(agents::jobs(worker));
    jobs.extend(trust.into_iter().flat_map(|trust| trust::jobs(worker, &trust)));
    jobs
}

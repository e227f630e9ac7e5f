//! Queues effects without a change of the record: expiring robots, groups whose projects changed, states
//! removed by a late effect; and deletes finished effects.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use wardroom_core::satellite::State;
use wardroom_store::{Change, ClaimedEffect, Effect, EffectProgress, Error as StoreError, List, Resource};

use super::{EffectError, Worker};
use crate::kinds::satellite::settings::Settings;
use crate::{
    kinds::satellite::{
        asked::{HARBOR_ROBOT, PUBLISH_STATE, SPIRE_ENTRY},
        document::{Document, KIND, group_field, state},
    },
    platform::{
        app::{App, by_system},
        http::error::Error,
        work::schedule::{Failed, Job, Next, Task},
    },
};

/// How often expiring robots are looked for, and how long one is skipped after that.
const PERIOD: Duration = Duration::from_secs(10);
const LEFT_ALONE: Duration = Duration::from_secs(600);

/// The lease under which one server looks for robots that are missing.
const LEASE: &str = "effects/upkeep";

/// How often open effects are counted and done ones deleted, and how many per round.
const COUNT: Duration = Duration::from_secs(10);
const FORGET: Duration = Duration::from_secs(300);
const BATCH: usize = 2000;
const BATCHES: usize = 10;

const PAGE: usize = 500;

/// Why an effect is queued without a change of the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// A robot is missing, or its expiry is unknown.
    Upkeep,
    /// A robot is about to expire.
    Ending,
    /// Another record that the robot follows has changed.
    GroupChanged,
    /// The state may be missing: a late effect removed an earlier one of this name.
    Removed,
    /// The state is not in the registry, or was published to another one.
    Missing,
    /// Another agent vouches for the satellite.
    OtherAgent,
}

impl Cause {
    fn as_str(self) -> &'static str {
        match self {
            Self::Upkeep => "upkeep",
            Self::Ending => "about to end",
            Self::GroupChanged => "group changed",
            Self::Removed => "removed with the one before",
            Self::Missing => "not in the registry",
            Self::OtherAgent => "another agent",
        }
    }

    fn effect_type(self) -> &'static str {
        match self {
            Self::Upkeep | Self::Ending | Self::GroupChanged => HARBOR_ROBOT,
            Self::Removed | Self::Missing => PUBLISH_STATE,
            Self::OtherAgent => SPIRE_ENTRY,
        }
    }

    /// Whether an open effect makes another one unnecessary. One that has begun may be older than the change;
    /// it is enough only if nothing changed.
    fn is_met_by(self, progress: &EffectProgress) -> bool {
        let begun_is_enough = match self {
            Self::Upkeep | Self::Ending | Self::Missing | Self::OtherAgent => true,
            Self::GroupChanged | Self::Removed => false,
        };
        progress.effect_type == self.effect_type()
            && progress.done_at.is_none()
            && (progress.attempts == 0 || begun_is_enough)
    }
}

/// The jobs that queue effects without a change, count open ones and delete old ones.
pub(super) fn jobs(worker: &Arc<Worker>) -> Vec<Job> {
    let mut jobs = vec![
        Job::every("open effects", COUNT, |app| Box::pin(count(app))).at_once(),
        Job::of("old effects", FORGET, Forget::default()).at_once(),
    ];
    if Settings::of(&worker.app.config).harbor.is_some() {
        // A Harbor that was configured later lacks robots for existing satellites.
        let missing = Job::once("missing robots", PERIOD, |app| Box::pin(look_through(app)));
        jobs.push(missing.under(LEASE, &worker.holder, LEFT_ALONE));
        jobs.push(Job::of("ending robots", PERIOD, Extend(Arc::clone(worker))).at_once());
    }
    jobs
}

/// Finds robots that are about to end.
struct Extend(Arc<Worker>);

impl Task for Extend {
    fn run<'a>(&'a mut self, app: &'a App) -> BoxFuture<'a, Result<Next, Failed>> {
        Box::pin(async move { Ok(extend(app, &self.0.holder).await.map(|()| Next::Period)?) })
    }
}

/// Deletes old finished effects, from where the last run stopped.
#[derive(Default)]
struct Forget {
    after: i64,
}

impl Task for Forget {
    fn run<'a>(&'a mut self, app: &'a App) -> BoxFuture<'a, Result<Next, Failed>> {
        Box::pin(async move {
            self.after = forget(app, self.after).await?;
            Ok(Next::Period)
        })
    }
}

async fn count(app: &App) -> Result<(), Error> {
    let types = super::known(&app.config).map(|(name, _)| name);
    app.metrics.effects(&types, &app.store.open_effects().await?, app.now());
    Ok(())
}

/// Deletes some old effects after an id, and returns where the next round continues, so that no round takes
/// long.
async fn forget(app: &App, mut after: i64) -> Result<i64, Error> {
    let kept = SignedDuration::try_from(Settings::of(&app.config).satellites.effects_kept)
        .unwrap_or(SignedDuration::MAX);
    let before = app.now().saturating_sub(kept).unwrap_or(Timestamp::MIN);
    for _ in 0..BATCHES {
        match app.store.sweep_effects(after, BATCH, before).await? {
            Some((next, _)) => after = next,
            None => return Ok(0),
        }
    }
    Ok(after)
}

/// Queues effects for robots that are missing or whose expiry is unknown.
async fn look_through(app: &App) -> Result<(), Error> {
    let is_unknown = |satellite: &Resource| {
        if state(satellite)? == State::Revoked {
            return Ok(false);
        }
        let robot = Document::of(satellite)?.robot;
        Ok(robot.is_none_or(|robot| robot.renew_at.is_none() && robot.expires_at < Timestamp::MAX))
    };
    let mut all = List { kind: KIND.to_owned(), limit: PAGE, ..List::default() };
    while ask_page(app, &mut all, Cause::Upkeep, is_unknown).await? {}
    Ok(())
}

/// Queues effects for expiring robots. A queued one is skipped for a while, so that an outage of Harbor does
/// not queue the same effect repeatedly.
async fn extend(app: &App, holder: &str) -> Result<(), Error> {
    loop {
        let due = app.store.claim_due(KIND, holder, LEFT_ALONE, PAGE).await?;
        let is_last = due.len() < PAGE;
        for (satellite, _) in due {
            ask_for(app, satellite, Cause::Ending).await?;
        }
        if is_last {
            return Ok(());
        }
    }
}

/// Stops skipping a robot that was extended.
pub(super) async fn let_go(app: &App, effect: &ClaimedEffect) {
    if effect.effect.effect_type != HARBOR_ROBOT {
        return;
    }
    if let Err(error) = app.store.forget_lease(KIND, &effect.resource_id).await {
        tracing::info!(%error, id = effect.resource_id, "lease of a robot not released; it expires by itself");
    }
}

/// Queues effects for the robots of all satellites of a group.
pub(super) async fn ask_members(worker: &Worker, effect: &ClaimedEffect) -> Result<(), EffectError> {
    let (app, group) = (&worker.app, &*effect.resource_id);
    let fields = [(group_field(group), "1".to_owned())].into();
    let mut members = List { kind: KIND.to_owned(), fields, limit: PAGE, ..List::default() };
    while ask_page(app, &mut members, Cause::GroupChanged, |_| Ok(true)).await? {
        worker.keep(effect).await?;
    }
    Ok(())
}

/// Returns whether there are more.
async fn ask_page(
    app: &App,
    list: &mut List,
    cause: Cause,
    is_due: impl Fn(&Resource) -> Result<bool, Error>,
) -> Result<bool, Error> {
    let page = app.store.list(list).await?;
    for satellite in page.items {
        if is_due(&satellite)? {
            ask_for(app, satellite, cause).await?;
        }
    }
    list.after = page.next;
    Ok(list.after.is_some())
}

/// Queues an effect with a history row of the satellite or group.
pub(super) async fn ask_for(app: &App, mut record: Resource, cause: Cause) -> Result<(), Error> {
    let (kind, id) = (record.content.kind.clone(), record.content.id.clone());
    loop {
        if ask_once(app, record, cause).await? {
            return Ok(());
        }
        match app.store.get(&kind, &id).await?.filter(|found| !found.content.deleted) {
            Some(changed) => record = changed,
            None => return Ok(()),
        }
    }
}

/// Queues the effect; returns false if another writer changed the record first.
async fn ask_once(app: &App, record: Resource, cause: Cause) -> Result<bool, Error> {
    let open = app.store.effects_of(&record.content.kind, &record.content.id).await?;
    if open.iter().any(|progress| cause.is_met_by(progress)) {
        return Ok(true);
    }
    let (effect_type, cause) = (cause.effect_type(), cause.as_str());
    let effect = Effect { effect_type: effect_type.to_owned(), payload: json!({"cause": cause}) };
    let change = Change {
        after: record.content.clone(),
        before: Some(record),
        entry: by_system(app, "effect", json!({"asked_for": effect_type, "cause": cause})),
        effects: vec![effect],
        fence: None,
        holds: Vec::new(),
    };
    match app.commit(change).await {
        Ok(_) => Ok(true),
        Err(StoreError::Conflict) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

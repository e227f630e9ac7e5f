//! What asks for effects without a change: robots that end, groups whose projects changed, groups whose removal nobody
//! carries on, states that went with another one of their name; a trust bundle that rotates; and what becomes of effects
//! that are done.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::sync::watch;
use wardroom_core::satellite::State;
use wardroom_store::{Change, ClaimedEffect, Effect, EffectProgress, Error as StoreError, List, Resource};

use super::{Trouble, Worker};
use crate::{
    app::{App, by_system},
    error::Error,
    named::REMOVING,
    satellite::{
        document::{Document, KIND, group_field, state},
        effects::{GROUP_MEMBERS, HARBOR_ROBOT, PUBLISH_STATE, SPIRE_ENTRY},
    },
    satellite_group::GROUPS,
    spiffe::Trust,
};

/// How often it is asked whether a robot is due, and for how long one that was is left alone.
const PERIOD: Duration = Duration::from_secs(10);
const LEFT_ALONE: Duration = Duration::from_secs(600);

/// The lease under which one server looks for robots that are missing.
const LEASE: &str = "effects/upkeep";

/// How often open effects are counted, and done ones looked through: so many at once, so many times.
const COUNT: Duration = Duration::from_secs(10);
const FORGET: Duration = Duration::from_secs(300);
const BATCH: usize = 2000;
const BATCHES: usize = 10;

/// How often files and bundle are looked at.
const TRUST: Duration = Duration::from_secs(30);

/// Members that are read at once.
const PAGE: usize = 500;

/// Why something is asked for without a change of the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// A robot is missing, or nobody knows when it is due.
    Upkeep,
    /// A robot is about to end.
    Ending,
    /// Another record that the robot follows has changed.
    GroupChanged,
    /// The state may be gone: one that had its name before was removed late.
    Removed,
    /// The state is not in the registry, or was published to another one.
    Missing,
    /// Another agent vouches for the satellite.
    OtherAgent,
    /// The removal of a group was begun by a server that left nobody to end it.
    Removing,
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
            Self::Removing => "removal begun",
        }
    }

    fn effect_type(self) -> &'static str {
        match self {
            Self::Upkeep | Self::Ending | Self::GroupChanged => HARBOR_ROBOT,
            Self::Removed | Self::Missing => PUBLISH_STATE,
            Self::OtherAgent => SPIRE_ENTRY,
            Self::Removing => GROUP_MEMBERS,
        }
    }

    /// Whether this effect does what is asked for. One that was begun may have come before what happened elsewhere;
    /// where nothing happened, it is enough.
    fn is_met_by(self, progress: &EffectProgress) -> bool {
        let begun_is_enough = match self {
            Self::Upkeep | Self::Ending | Self::Missing | Self::OtherAgent | Self::Removing => true,
            Self::GroupChanged | Self::Removed => false,
        };
        progress.effect_type == self.effect_type()
            && progress.done_at.is_none()
            && (progress.attempts == 0 || begun_is_enough)
    }
}

/// Finds satellites without a robot, which a Harbor that was configured later has not been told of; then, until `stop`
/// says so, robots that are about to end.
pub(super) async fn run(worker: Arc<Worker>, mut stop: watch::Receiver<bool>) {
    let (app, mut has_looked) = (&worker.app, false);
    if app.config.harbor.is_none() {
        return;
    }
    loop {
        if !has_looked {
            match look_through(app, &worker.holder).await {
                Ok(looked) => has_looked = looked,
                Err(error) => tracing::warn!(%error, "robots could not be looked through; it is tried again"),
            }
        }
        if let Err(error) = extend(app, &worker.holder).await {
            tracing::warn!(%error, "robots could not be extended; it is tried again");
        }
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}

/// Counts what is open, forgets what was done long ago, and looks for removals that nobody carries on, until `stop` says
/// so.
pub(super) async fn look_after(app: App, mut stop: watch::Receiver<bool>) {
    let (mut after, mut counted) = (0, Duration::ZERO);
    loop {
        if let Err(error) = count(&app).await {
            tracing::warn!(%error, "effects could not be counted; it is tried again");
        }
        if counted.is_zero() {
            match forget(&app, after).await {
                Ok(next) => after = next,
                Err(error) => tracing::warn!(%error, "old effects could not be forgotten; it is tried again"),
            }
            if let Err(error) = ask_removals(&app).await {
                tracing::warn!(%error, "removals could not be looked through; it is tried again");
            }
        }
        counted = if counted < FORGET { counted + COUNT } else { Duration::ZERO };
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(COUNT) => {}
        }
    }
}

/// Asks for the end of removals that were begun: an older server began them in a request and left them with it.
async fn ask_removals(app: &App) -> Result<(), Error> {
    let (kind, state) = (GROUPS.kind.to_owned(), Some(REMOVING.to_owned()));
    let mut removing = List { kind, state, limit: PAGE, ..List::default() };
    while ask_page(app, &mut removing, Cause::Removing, |_| Ok(true)).await? {}
    Ok(())
}

async fn count(app: &App) -> Result<(), Error> {
    let types = super::known(&app.config).map(|(name, _)| name);
    app.metrics.effects(&types, &app.store.open_effects().await?, app.now());
    Ok(())
}

/// Looks through some effects after one, and gives where to go on the next time: all are seen in turn, and no round
/// takes long.
async fn forget(app: &App, mut after: i64) -> Result<i64, Error> {
    let kept = SignedDuration::try_from(app.config.satellites.effects_kept).unwrap_or(SignedDuration::MAX);
    let before = app.now().saturating_sub(kept).unwrap_or(Timestamp::MIN);
    for _ in 0..BATCHES {
        match app.store.sweep_effects(after, BATCH, before).await? {
            Some((next, _)) => after = next,
            None => return Ok(0),
        }
    }
    Ok(after)
}

/// Asks for the robots that are missing, or of which nobody knows when they are due; not while another server does.
async fn look_through(app: &App, holder: &str) -> Result<bool, Error> {
    let Some(lease) = app.store.acquire_lease(LEASE, holder, LEFT_ALONE).await? else { return Ok(false) };
    let is_unknown = |satellite: &Resource| {
        if state(satellite)? == State::Revoked {
            return Ok(false);
        }
        let robot = Document::of(satellite)?.robot;
        Ok(robot.is_none_or(|robot| robot.renew_at.is_none() && robot.expires_at < Timestamp::MAX))
    };
    let mut all = List { kind: KIND.to_owned(), limit: PAGE, ..List::default() };
    while ask_page(app, &mut all, Cause::Upkeep, is_unknown).await? {}
    app.store.release_lease(&lease).await?;
    Ok(true)
}

/// Asks for the robots whose time has come. One that is asked for is left alone for a while, so that a Harbor that is
/// away is not told the same thing over and over.
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

/// A robot that was seen to need not be left alone any longer.
pub(super) async fn let_go(app: &App, effect: &ClaimedEffect) {
    if effect.effect.effect_type != HARBOR_ROBOT {
        return;
    }
    if let Err(error) = app.store.forget_lease(KIND, &effect.resource_id).await {
        tracing::info!(%error, id = effect.resource_id, "the robot is left alone a while longer");
    }
}

/// Asks for the robots of all satellites of a group, for as long as that takes.
pub(super) async fn ask_members(worker: &Worker, effect: &ClaimedEffect) -> Result<(), Trouble> {
    let (app, group) = (&worker.app, &*effect.resource_id);
    let fields = [(group_field(group), "1".to_owned())].into();
    let mut members = List { kind: KIND.to_owned(), fields, limit: PAGE, ..List::default() };
    while ask_page(app, &mut members, Cause::GroupChanged, |_| Ok(true)).await? {
        worker.keep(effect).await?;
    }
    Ok(())
}

/// True: there are more.
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

/// A row in the history of a satellite or group that carries the effect.
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

/// False when somebody else changed the record first.
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

/// Follows the trust bundle and the server's own certificate until `stop` says so.
pub(super) async fn follow_trust(worker: Arc<Worker>, trust: Arc<Trust>, mut stop: watch::Receiver<bool>) {
    let Some(settings) = worker.app.config.spiffe.clone() else { return };
    let (mut known, mut foreign) = (None, None);
    loop {
        if let Err(error) = trust.reload(&settings) {
            tracing::warn!(error, "the files of [spiffe] cannot be used; what was there stays in force");
        }
        if let (None, Some(spire)) = (&settings.bundle, &worker.upstreams.spire) {
            match spire.bundle().await {
                Ok(bundle) if known.as_ref() == Some(&bundle.roots) => {}
                Ok(bundle) if foreign.as_ref() == Some(&bundle.trust_domain) => {}
                Ok(bundle) if bundle.trust_domain != settings.trust_domain => {
                    let (domain, expected) = (&bundle.trust_domain, &settings.trust_domain);
                    tracing::warn!(domain, expected, "SPIRE has another trust domain than [spiffe]");
                    foreign = Some(bundle.trust_domain);
                }
                Ok(bundle) => {
                    let seen = bundle.roots.clone();
                    match trust.set_roots(bundle.roots.into_iter().map(Into::into).collect()) {
                        Ok(()) => known = Some(seen),
                        Err(error) => tracing::warn!(error, "the bundle of SPIRE cannot be used"),
                    }
                }
                Err(error) => tracing::warn!(%error, "SPIRE does not give its trust bundle"),
            }
        }
        let period =
            if settings.bundle.is_none() && known.is_none() { Duration::from_secs(2) } else { TRUST };
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(period) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use wardroom_store::Content;

    use super::*;

    /// A group that is being removed is asked for once, whoever left it so, and one that is in use never.
    #[tokio::test]
    async fn a_removal_that_nobody_carries_on_is_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let app = crate::bare::app(&dir).await;
        for (name, state) in [("left", REMOVING), ("used", "ready")] {
            let content = GROUPS.content(name, &crate::satellite_group::Document::default()).unwrap();
            let content = Content { state: state.to_owned(), ..content };
            app.create(content, by_system(&app, "registered", serde_json::Value::Null)).await.unwrap();
        }
        for _ in 0..2 {
            ask_removals(&app).await.unwrap();
            let asked = app.store.effects_of(GROUPS.kind, "left").await.unwrap();
            let asked: Vec<_> = asked.iter().map(|effect| effect.effect_type.as_str()).collect();
            assert_eq!(asked, [GROUP_MEMBERS]);
            assert!(app.store.effects_of(GROUPS.kind, "used").await.unwrap().is_empty());
        }
    }
}

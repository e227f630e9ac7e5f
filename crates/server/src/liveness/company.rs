//! Who else hears members, and until when it is known what they heard.
//!
//! What must stay true: a server takes beats only while the others know that it is there; and nobody is judged past the
//! moment up to which every server that is there has told what it heard, however slow its writing is. One that cannot
//! write is not there for long, and nobody is charged for what it did not tell.

use std::{collections::BTreeMap, sync::atomic::Ordering::Relaxed, time::Duration};

use jiff::Timestamp;
use wardroom_core::liveness::{Cause, Period};

use super::status::Status;
use crate::{app::App, error::Error};

/// That a server is there.
pub(super) const PRESENCE: &str = "replica/";
pub(super) const LENGTH: Duration = Duration::from_secs(15);

/// After so long nobody comes back under the name of a server that is gone.
const GONE: Duration = Duration::from_secs(86_400);

/// The other servers.
#[derive(Debug, Default)]
pub(super) struct Company {
    /// Those that are there, and when it was known that they were not yet, and so had heard nobody.
    others: BTreeMap<String, Timestamp>,
    /// When there was one last.
    together: Option<Timestamp>,
    /// When it was looked last.
    looked: Option<Timestamp>,
}

/// Tells others that this server is there.
pub(super) async fn announce(app: &App) -> Result<(), Error> {
    let live = &app.liveness;
    let began = live.clock.steady_millis();
    let name = format!("{PRESENCE}{}", live.name);
    let presence = app.store.acquire_lease(&name, &live.name, LENGTH).await?;
    let until = began.saturating_add(i64::try_from(LENGTH.as_millis()).unwrap_or(0));
    live.present_until.store(if presence.is_some() { until } else { i64::MIN }, Relaxed);
    live.status().presence = presence;
    Ok(())
}

/// Tells others that this server takes no beats any more.
pub(super) async fn leave(app: &App) {
    app.liveness.present_until.store(i64::MIN, Relaxed);
    let presence = app.liveness.status().presence.take();
    if let Some(presence) = presence
        && let Err(error) = app.store.release_lease(&presence).await
    {
        tracing::warn!(%error, lease = presence.name, "a lease could not be let go; it lapses by itself");
    }
}

/// Forgets what servers told that are gone for good.
pub(super) async fn forget_gone(app: &App, now: Timestamp) -> Result<(), Error> {
    app.store.forget_lapsed_leases(PRESENCE).await?;
    let told: Vec<_> = app.liveness.status().told.clone().into_iter().collect();
    for (server, _) in told.into_iter().filter(|(_, told)| *told < before(now, GONE)) {
        app.store.forget_told(&server).await?;
    }
    Ok(())
}

impl Company {
    /// Looks who is there. A server that is gone takes what it did not tell with it, and the members that it heard,
    /// until they find another one.
    pub(super) async fn look(&mut self, app: &App) -> Result<(), Error> {
        let live = &app.liveness;
        let now = live.clock.steady();
        let leases = app.store.leases(PRESENCE).await?.into_iter();
        let there = leases.filter(|lease| !lease.remaining.is_zero() && lease.holder != live.name);
        let there: BTreeMap<_, _> = there
            .map(|lease| {
                let since = self.others.get(&lease.holder).copied().or(self.looked);
                (lease.holder, since.unwrap_or(Timestamp::MIN))
            })
            .collect();
        for (gone, since) in self.others.iter().filter(|(name, _)| !there.contains_key(*name)) {
            let from = told(&live.status(), gone, *since).min(before(now, LENGTH));
            live.judge_state().was_deaf(Period { cause: Cause::Listener, from, to: now });
        }
        if !there.is_empty() || !self.others.is_empty() {
            self.together = Some(now);
        }
        (self.others, self.looked) = (there, Some(now));
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.others.is_empty()
    }

    /// Whoever is alone for longer than anybody takes to write down the last beats has nothing to learn.
    pub(super) fn is_alone(&self, now: Timestamp) -> bool {
        self.together.is_none_or(|together| together < before(now, LENGTH * 4))
    }

    /// Until when is known who was heard by anybody; never less than before.
    pub(super) fn known_until(&self, app: &App) -> Timestamp {
        let looked = self.looked.unwrap_or(Timestamp::MIN);
        if self.is_alone(looked) {
            return looked;
        }
        let status = app.liveness.status();
        let merged = status.merged.unwrap_or(Timestamp::MIN);
        let all_told = self.others.iter().map(|(name, since)| told(&status, name, *since));
        all_told.fold(looked.min(merged), Timestamp::min)
    }
}

/// Until when is known what a server heard that was not there before.
fn told(status: &Status, server: &str, since: Timestamp) -> Timestamp {
    status.told.get(server).copied().unwrap_or(since).max(since)
}

pub(super) fn before(now: Timestamp, by: Duration) -> Timestamp {
    now.checked_sub(by).unwrap_or(Timestamp::MIN)
}

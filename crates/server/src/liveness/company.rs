//! Who else hears members, and until when it is known what they heard.
//!
//! What must stay true: a server takes beats only while the others know that it is there; and nobody is judged past the
//! moment up to which every server that is there has told what it heard, however slow its writing is. One that cannot
//! write is not there for long, and nobody is charged for what it did not tell; but a server that is gone again and again
//! keeps nobody from being found: `core` sets a bound to what other servers are an excuse for.
//!
//! ```text
//! told     each flush ends with: all that I heard before it began is written down (a row for each server)
//! there    a lease for each server, taken once it has told for the first time, renewed in a loop of its own
//! known    the least of: when it was looked who is there, when the last merge began, what each of them had told then
//! ```
//!
//! Moments are told by the database's clock and read as ages, so that no two servers' clocks are compared. That clock may be
//! set: whether a lease is renewed is seen by this server's own.

use std::{
    collections::{BTreeMap, HashMap},
    sync::atomic::Ordering::Relaxed,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use wardroom_core::liveness::{Cause, Period};

use super::{flush, refusals, status::Status};
use crate::{app::App, error::Error};

/// That a server is there. While one that crashed still seems to be, nobody can be judged past what it told: so it is
/// short, and a server that is so slow that it lapses is sent no beats until it is back.
const PRESENCE: &str = "replica/";
pub(super) const LENGTH: Duration = Duration::from_secs(6);
pub(super) const RENEWAL: Duration = Duration::from_secs(2);

/// How long it is waited for that: later it would hold for moments only.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Nobody takes longer to write down the last beats after it was there last.
const ALONE: Duration = Duration::from_secs(60);

/// A server of an older version is there and tells nothing. What it hears is written down after so long: it flushes every
/// few seconds, and waits 20 for a lock at most.
const UNTOLD: Duration = Duration::from_secs(30);

/// After so long nobody comes back under the name of a server that is gone.
const GONE: Duration = Duration::from_secs(86_400);

/// What servers have told, by their names.
pub(super) type Told = HashMap<Box<str>, Tidings>;

/// What one server has told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tidings {
    /// All that it heard before is written down.
    before: Timestamp,
    /// How often something was heard there that others do not expect.
    news: u32,
}

/// A lease, by this server's own clock. That of the database may be set back, and then a lease that nobody renews seems to
/// last for as long as that.
#[derive(Debug, Clone, Copy)]
pub(super) struct Renewal {
    /// When it lapses by what the database said when it was renewed last.
    lapses: Timestamp,
    /// When it has lapsed unless it is renewed.
    until: Timestamp,
}

/// A lease that was renewed lapses later than before by more than this, or earlier if the database's clock was set back.
const RENEWED: SignedDuration = SignedDuration::from_secs(1);

impl Renewal {
    /// Looks at a lease of a length again.
    pub(super) fn look(before: Option<Self>, remaining: Duration, length: Duration, now: Timestamp) -> Self {
        let lapses = after(now, remaining);
        match before.filter(|before| lapses.duration_since(before.lapses).abs() <= RENEWED) {
            Some(before) => before,
            None => Self { lapses, until: after(now, remaining.min(length)) },
        }
    }

    pub(super) fn lasts(&self, now: Timestamp) -> bool {
        now < self.until
    }
}

/// The other servers.
#[derive(Debug, Default)]
pub(super) struct Company {
    /// The presences of others, also of those that seem to last.
    leases: BTreeMap<String, Renewal>,
    /// Those that are there, and when it was known that they were not yet, and so had heard nobody.
    others: BTreeMap<String, Timestamp>,
    /// When there was one last.
    together: Option<Timestamp>,
    /// When it was looked last.
    looked: Option<Timestamp>,
}

/// Tells others for the first time that this server is there.
pub(super) async fn arrive(app: &App) -> Result<(), Error> {
    flush::flush(app).await?;
    announce(app).await
}

/// Tells others that this server is there, if it can write down what it hears and has begun to.
pub(super) async fn announce(app: &App) -> Result<(), Error> {
    let live = &app.liveness;
    let tells = {
        let status = live.status();
        status.flushed.at.is_some() && !status.flush_failed
    };
    if !live.settings.shared || !tells {
        return Ok(());
    }
    let began = live.clock.steady_millis();
    let name = format!("{PRESENCE}{}", live.name);
    let presence = app.store.reserved().acquire_lease(&name, &live.name, LENGTH).await?;
    let until = began.saturating_add(i64::try_from(LENGTH.as_millis()).unwrap_or(0));
    live.present_until.store(if presence.is_some() { until } else { i64::MIN }, Relaxed);
    live.status().presence = presence;
    Ok(())
}

/// Whether a server is there, as far as the database knows.
pub(crate) async fn is_there(app: &App, server: &str) -> Result<bool, Error> {
    let presence = app.store.lease(&format!("{PRESENCE}{server}")).await?;
    Ok(presence.is_some_and(|presence| !presence.remaining.is_zero()))
}

/// Tells others that this server takes no beats any more.
pub(super) async fn leave(app: &App) {
    app.liveness.present_until.store(i64::MIN, Relaxed);
    let presence = app.liveness.status().presence.take();
    if let Some(presence) = presence
        && let Err(error) = app.store.reserved().release_lease(&presence).await
    {
        tracing::warn!(%error, lease = presence.name, "a lease could not be let go; it lapses by itself");
    }
}

/// Asks what servers have told.
pub(super) async fn ask(app: &App) -> Result<Told, Error> {
    let live = &app.liveness;
    let began = live.clock.steady();
    let told = app.store.reserved().told().await?.into_iter();
    let told: Told = told
        .map(|told| (told.server, Tidings { before: before(began, told.age), news: told.news }))
        .collect();
    live.status().last_told.clone_from(&told);
    Ok(told)
}

/// Whether one of these servers has heard something since the last merge that is not expected here: it can make a member
/// late earlier than is known, or not late at all. One that tells nothing may have.
pub(super) fn has_news(servers: &[String], told: &Told, merged: &Told) -> bool {
    let news = |told: &Told, server: &str| told.get(server).map(|told| told.news);
    servers.iter().any(|server| {
        let news_now = news(told, server);
        news_now.is_none() || news_now != news(merged, server)
    })
}

/// Forgets what servers told that are gone for good.
pub(super) async fn forget_gone(app: &App, now: Timestamp) -> Result<(), Error> {
    app.store.reserved().forget_lapsed_leases(PRESENCE).await?;
    let told = app.liveness.status().last_told.clone();
    for (server, _) in told.into_iter().filter(|(_, told)| told.before < before(now, GONE)) {
        app.store.reserved().forget_told(&server).await?;
        refusals::forget(app, &server).await?;
    }
    Ok(())
}

impl Company {
    /// Looks who is there. A server that is gone takes what it did not tell with it, and the members that it heard,
    /// until they find another one. True: one is gone.
    pub(super) async fn look(&mut self, app: &App) -> Result<bool, Error> {
        let live = &app.liveness;
        let now = live.clock.steady();
        let leases = app.store.reserved().leases(PRESENCE).await?.into_iter();
        let answered = live.clock.steady();
        let held = leases.filter(|lease| !lease.remaining.is_zero() && lease.holder != live.name);
        self.leases = held
            .map(|lease| {
                let before = self.leases.get(&lease.holder).copied();
                (lease.holder, Renewal::look(before, lease.remaining, LENGTH, answered))
            })
            .collect();
        let there = self.leases.iter().filter(|(_, lease)| lease.lasts(answered));
        let there: BTreeMap<_, _> = there
            .map(|(name, _)| {
                let since = self.others.get(name).copied().or(self.looked);
                (name.clone(), since.unwrap_or(Timestamp::MIN))
            })
            .collect();
        if self.others.keys().any(|name| !there.contains_key(name)) {
            // Who does not sweep has not asked for long, and what was told since is not lost. Who cannot ask excuses more.
            if let Err(error) = ask(app).await {
                tracing::info!(%error, "what a server told that is gone could not be read");
            }
        }
        let mut is_one_gone = false;
        for (gone, since) in self.others.iter().filter(|(name, _)| !there.contains_key(*name)) {
            let status = live.status();
            let from = told(&status, &status.last_told, gone, *since).min(before(now, LENGTH));
            drop(status);
            live.judge_state().was_deaf(Period { cause: Cause::Replica, from, to: now });
            live.status().gone += 1;
            is_one_gone = true;
        }
        if !there.is_empty() || !self.others.is_empty() {
            self.together = Some(now);
        }
        (self.others, self.looked) = (there, Some(now));
        Ok(is_one_gone)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.others.is_empty()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.others.keys().cloned().collect()
    }

    /// Whoever is alone for longer than anybody takes to write down the last beats has nothing to learn.
    pub(super) fn is_alone(&self, now: Timestamp) -> bool {
        self.together.is_none_or(|together| together < before(now, ALONE))
    }

    /// Until when is known who was heard by anybody.
    pub(super) fn known_until(&self, app: &App) -> Timestamp {
        let looked = self.looked.unwrap_or(Timestamp::MIN);
        if self.is_alone(looked) {
            return looked;
        }
        let status = app.liveness.status();
        let merged = status.merged.unwrap_or(Timestamp::MIN);
        let all_told = self.others.iter().map(|(name, since)| told(&status, &status.told, name, *since));
        all_told.fold(looked.min(merged), Timestamp::min)
    }
}

/// Until when is known what a server heard that was not there before. A newer one has told before it is there; who has
/// not, although it was asked since then, is of an older version.
fn told(status: &Status, told: &Told, server: &str, since: Timestamp) -> Timestamp {
    let merged = status.merged.unwrap_or(Timestamp::MIN);
    told.get(server).map_or(before(merged, UNTOLD), |told| told.before).max(since)
}

fn after(now: Timestamp, by: Duration) -> Timestamp {
    now.checked_add(by).unwrap_or(Timestamp::MAX)
}

pub(super) fn before(now: Timestamp, by: Duration) -> Timestamp {
    now.checked_sub(by).unwrap_or(Timestamp::MIN)
}
